//! Which keys are in use: each gets a bounded number of operations, then a fresh key of the same user takes its place.

use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::ClientsOptions;
use crate::history::EntryName;

/// The keys of all users.
#[derive(Debug)]
pub(super) struct Keys {
    operations_per_key: u64,
    users: Vec<UserKeys>,
    /// By key number.
    names: Vec<EntryName>,
}

#[derive(Debug, Default)]
struct UserKeys {
    /// Number and operations so far.
    in_use: Vec<(u32, u64)>,
    old: Vec<u32>,
}

impl Keys {
    pub(super) fn new(options: &ClientsOptions) -> Self {
        let mut keys = Self { operations_per_key: options.operations_per_key, users: Vec::new(), names: Vec::new() };
        for user in 0..options.users as usize {
            keys.users.push(UserKeys::default());
            for _ in 0..options.keys_per_user {
                let number = keys.name_next(user);
                keys.users[user].in_use.push((number, 0));
            }
        }
        keys
    }

    /// By key number.
    pub(super) fn names(&self) -> &[EntryName] {
        &self.names
    }

    /// A key in use, for one operation.
    pub(super) fn draw(&mut self, chance: &mut SmallRng) -> u32 {
        self.draw_together(1, chance)[0]
    }

    /// Up to so many different keys in use of one user, for an operation each.
    pub(super) fn draw_together(&mut self, count: usize, chance: &mut SmallRng) -> Vec<u32> {
        let user = self.draw_user(chance);
        let mut places: Vec<usize> = (0..self.users[user].in_use.len()).collect();
        places.shuffle(chance);
        places.truncate(count);
        places.into_iter().map(|place| self.used(user, place)).collect()
    }

    /// A key that is no longer in use, if the user that is drawn has any.
    pub(super) fn draw_old(&mut self, chance: &mut SmallRng) -> Option<u32> {
        let old = &self.users[self.draw_user(chance)].old;
        (!old.is_empty()).then(|| old[chance.random_range(0..old.len())])
    }

    /// A fresh key of each user, which no draw gives.
    pub(super) fn of_each_user(&mut self) -> Vec<u32> {
        (0..self.users.len()).map(|user| self.name_next(user)).collect()
    }

    /// Half of the draws go to the first quarter of the users.
    fn draw_user(&self, chance: &mut SmallRng) -> usize {
        let drawn: f64 = chance.random();
        ((drawn * drawn * self.users.len() as f64) as usize).min(self.users.len() - 1)
    }

    /// Counts an operation on the key in that place, and replaces it if it was the last.
    fn used(&mut self, user: usize, place: usize) -> u32 {
        let (number, used) = &mut self.users[user].in_use[place];
        let drawn = *number;
        *used += 1;
        if *used >= self.operations_per_key {
            let fresh = self.name_next(user);
            self.users[user].in_use[place] = (fresh, 0);
            self.users[user].old.push(drawn);
        }
        drawn
    }

    fn name_next(&mut self, user: usize) -> u32 {
        let number = self.names.len() as u32;
        self.names.push(EntryName { user: format!("checked-{user}"), key: format!("k{number}") });
        number
    }
}
