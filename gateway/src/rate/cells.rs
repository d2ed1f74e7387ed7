//! As many buckets as fit a table of fixed size, found by a keyed hash of whom they belong to.
//!
//! A bucket that is full says what no bucket says, so its cell may be given away without losing anything. A cell is in use only
//! while its bucket lacks something: 100 requests/s that are used up keep a cell for a second.
//!
//! When all cells of a set are in use, the newcomer shares the bucket that is nearest to full: it goes on where that bucket
//! stands, and so does the one that had it, should it come back. That way no more ever pass than all cells' quotas, however many
//! keys somebody makes up; who is over the limit keeps its cell, for it is the farthest from full; and who shares hardly notices,
//! for that bucket lacks the least.
//!
//! With N keys in use at the same moment a set of 8 overflows with the probability that a Poisson variable of mean 8·N/65,536
//! exceeds 7: below 10⁻⁷ for 4,000 keys, 1 in 100,000 for 8,000, 1 in 1,000 for 16,000, 1 in 20 for 32,000.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;

use crate::limits;

/// Two cache lines: keys are looked through in one, the bucket is in the other.
const WAYS: usize = 8;
const SETS: usize = limits::RATE_CELLS / WAYS;

/// A table of buckets.
pub(super) struct Cells {
    /// Of this process alone: nobody can aim at a set.
    hasher: RandomState,
    sets: Box<[Set]>,
    /// Held to give a cell away; sets share them. Nobody waits for one whose cell is there.
    giving: [Mutex<()>; GIVING],
    /// Counts newcomers that share.
    shared: Counter,
}

/// A few more than there are threads.
const GIVING: usize = 64;

#[derive(Default)]
#[repr(align(64))]
struct Set {
    /// 0: nobody's.
    keys: [AtomicU64; WAYS],
    buckets: [AtomicU64; WAYS],
}

impl Cells {
    pub(super) fn new(shared: Counter) -> Self {
        let sets = (0..SETS).map(|_| Set::default()).collect();
        Self { hasher: RandomState::new(), sets, giving: [const { Mutex::new(()) }; GIVING], shared }
    }

    /// The bucket of a name. It stays that name's as long as it is not full; from then on it may be another's, which at worst
    /// costs that other one request.
    pub(super) fn bucket(&self, name: &[u8], now: u64) -> &AtomicU64 {
        let key = self.hasher.hash_one(name).max(1);
        let index = key as usize % SETS;
        let set = &self.sets[index];
        if let Some(bucket) = set.find(key) {
            return bucket;
        }
        let _giving = self.giving[index % GIVING].lock().unwrap_or_else(PoisonError::into_inner);
        // Another request of the same name may have been here first.
        if let Some(bucket) = set.find(key) {
            return bucket;
        }
        let (place, full_at) = set.nearest_to_full();
        if full_at > now {
            self.shared.inc();
        }
        set.keys[place].store(key, Ordering::Relaxed);
        &set.buckets[place]
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        std::mem::size_of_val(&*self.sets)
    }
}

impl Set {
    fn find(&self, key: u64) -> Option<&AtomicU64> {
        let place = self.keys.iter().position(|held| held.load(Ordering::Relaxed) == key)?;
        Some(&self.buckets[place])
    }

    fn nearest_to_full(&self) -> (usize, u64) {
        let full_at = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        full_at.enumerate().min_by_key(|(_, full_at)| *full_at).expect("a set has cells")
    }
}

#[cfg(test)]
mod tests {
    use super::super::bucket::take;
    use super::super::quota::{Quota, SECOND_NS};
    use super::*;

    const NAMES: u64 = 100_000;

    fn passes(cells: &Cells, name: &[u8], now: u64, quota: &Quota) -> bool {
        take(cells.bucket(name, now), now, quota).is_ok()
    }

    #[test]
    fn a_hundred_thousand_users_take_no_memory_and_those_over_their_limit_stay_limited() {
        let shared = Counter::default();
        let cells = Cells::new(shared.clone());
        let quota: Quota = "100/s burst=50".parse().expect("a rate");
        let heavy: Vec<String> = (0..20).map(|number| format!("heavy-{number}")).collect();
        let mut passed = vec![0u64; heavy.len()];
        // 20,000 others a second, each once a while; in between each heavy one sends 1,000 a second.
        for step in 0..NAMES {
            let now = SECOND_NS + step * 50_000;
            assert!(passes(&cells, format!("user-{step}").as_bytes(), now, &quota), "user {step} came once");
            let number = (step % 20) as usize;
            passed[number] += u64::from(passes(&cells, heavy[number].as_bytes(), now, &quota));
        }
        let seconds = NAMES * 50_000 / SECOND_NS;
        for (name, passed) in heavy.iter().zip(passed) {
            assert!((seconds * 100..=seconds * 100 + 50).contains(&passed), "{name}: {passed} in {seconds} s");
        }
        assert_eq!(cells.bytes(), limits::RATE_CELLS * 16);
        assert_eq!(shared.get(), 0, "at most a few hundred buckets lack something at a time");
    }

    #[test]
    fn in_a_crowded_table_no_more_pass_than_all_cells_hold() {
        let shared = Counter::default();
        let cells = Cells::new(shared.clone());
        let quota: Quota = "1/h burst=2".parse().expect("a rate");
        let keys = 2 * limits::RATE_CELLS as u64;
        let passed: usize =
            (0..4).flat_map(|_| 0..keys).filter(|key| passes(&cells, &key.to_be_bytes(), SECOND_NS, &quota)).count();
        assert!(shared.get() > 0);
        // A set in a hundred has fewer than eight of these keys.
        assert!((2 * limits::RATE_CELLS * 99 / 100..=2 * limits::RATE_CELLS).contains(&passed), "{passed}");
        // An hour later half of it is back for whoever comes.
        assert!(passes(&cells, b"somebody", 3601 * SECOND_NS, &quota));
    }

    #[test]
    fn who_is_far_over_its_limit_keeps_its_cell_in_a_crowd() {
        let cells = Cells::new(Counter::default());
        let quota: Quota = "60/m".parse().expect("a rate");
        assert_eq!((0..1000).filter(|_| passes(&cells, b"heavy", SECOND_NS, &quota)).count(), 60);
        for key in 0..4 * limits::RATE_CELLS as u64 {
            passes(&cells, &key.to_be_bytes(), SECOND_NS, &quota);
        }
        assert!(!passes(&cells, b"heavy", SECOND_NS, &quota));
        assert!(passes(&cells, b"heavy", 2 * SECOND_NS, &quota));
        assert!(!passes(&cells, b"heavy", 2 * SECOND_NS, &quota));
    }

    #[test]
    fn threads_that_ask_for_the_same_names_pass_no_more_than_one_would() {
        let cells = Cells::new(Counter::default());
        let quota: Quota = "1/h burst=3".parse().expect("a rate");
        let of_a_thread =
            || (0..4000u32).filter(|turn| passes(&cells, &(turn % 1000).to_be_bytes(), 0, &quota)).count();
        let passed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(of_a_thread)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(passed, 3000);
    }
}
