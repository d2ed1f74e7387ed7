//! Which keys there are, whose they are, and in what order they are asked for.

use std::collections::HashMap;

use placement::{EntryKey, UserId};
use rand::Rng;
use rand_distr::{Distribution, Zipf};
use xxhash_rust::xxh3::xxh3_64;

use super::trace::TraceKey;

/// Every key of a run. A key is named by its index, 0 to [`KeySpace::len`].
pub(crate) struct KeySpace {
    names: Names,
    users: Vec<UserId>,
}

enum Names {
    Traced(Vec<TraceKey>),
    Numbered(u32),
}

/// The order in which keys are asked for.
pub(crate) enum Draw {
    /// The trace, over and over.
    Replay { sequence: Vec<u32>, next: usize },
    /// Index 0 is the most popular.
    Zipf(Zipf<f64>),
}

impl KeySpace {
    fn new(names: Names, users: u32) -> Self {
        let user = |number| UserId::parse(format!("load-{number}").as_bytes()).expect("visible ASCII is a user id");
        Self { names, users: (0..users).map(user).collect() }
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> u32 {
        match &self.names {
            Names::Traced(keys) => keys.len() as u32,
            Names::Numbered(count) => *count,
        }
    }

    /// A number of the key that is the same in every run over the same keys.
    pub(crate) fn number(&self, index: u32) -> u32 {
        match &self.names {
            Names::Traced(keys) => keys[index as usize].0,
            Names::Numbered(_) => index,
        }
    }

    /// The number of the user to whom the key belongs: spread by hash, so that users are of uneven popularity as keys are.
    pub(crate) fn user_number(&self, index: u32) -> u32 {
        (xxh3_64(&self.number(index).to_be_bytes()) % self.users.len() as u64) as u32
    }

    /// The user and the key as they go into a request.
    pub(crate) fn name(&self, index: u32) -> (&UserId, EntryKey) {
        let text = match &self.names {
            Names::Traced(keys) => {
                let key = keys[index as usize];
                format!("{}/{}/{}", key.kind(), key.id(), key.index())
            }
            Names::Numbered(_) => format!("item/{index}"),
        };
        let key = EntryKey::parse(&text).expect("digits and slashes are a key");
        (&self.users[self.user_number(index) as usize], key)
    }
}

impl Draw {
    /// The next key's index.
    pub(crate) fn next(&mut self, rng: &mut impl Rng) -> u32 {
        match self {
            Self::Replay { sequence, next } => {
                let index = sequence[*next];
                *next = (*next + 1) % sequence.len();
                index
            }
            Self::Zipf(zipf) => zipf.sample(rng) as u32 - 1,
        }
    }
}

/// Replays a trace, which has at least one key.
pub(crate) fn replayed(trace: &[TraceKey], users: u32) -> (KeySpace, Draw) {
    let mut keys = Vec::new();
    let mut indexes = HashMap::new();
    let mut index_of = |key: TraceKey| {
        *indexes.entry(key).or_insert_with(|| {
            keys.push(key);
            keys.len() as u32 - 1
        })
    };
    let sequence = trace.iter().map(|key| index_of(*key)).collect();
    (KeySpace::new(Names::Traced(keys), users), Draw::Replay { sequence, next: 0 })
}

/// Numbered keys, drawn from `distribution`, which is over 1 to `keys`.
pub(crate) fn numbered(keys: u32, distribution: Zipf<f64>, users: u32) -> (KeySpace, Draw) {
    (KeySpace::new(Names::Numbered(keys), users), Draw::Zipf(distribution))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;

    #[test]
    fn a_trace_is_replayed_in_order_and_begins_again() {
        let trace: Vec<_> = [0x0800_0203, 5, 0x0800_0203].map(TraceKey).into();
        let (space, mut draw) = replayed(&trace, 10);
        let mut rng = SmallRng::seed_from_u64(1);
        let drawn: Vec<_> = (0..4).map(|_| draw.next(&mut rng)).collect();
        assert_eq!((space.len(), drawn), (2, vec![0, 1, 0, 0]));
        assert_eq!(space.name(0).1.as_str(), "1/1/3");
    }

    #[test]
    fn zipf_draws_every_index_and_the_first_most_often() {
        let (space, mut draw) = numbered(10, Zipf::new(10.0, 0.99).expect("zipf"), 3);
        let mut rng = SmallRng::seed_from_u64(1);
        let mut counts = [0_u32; 10];
        (0..10_000).for_each(|_| counts[draw.next(&mut rng) as usize] += 1);
        assert_eq!(space.len(), 10);
        assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
        assert!(counts[0] > counts[9] * 5, "{counts:?}");
    }

    #[test]
    fn a_key_belongs_to_the_same_user_in_every_run_and_all_users_have_some() {
        let owners = || {
            let space = numbered(1000, Zipf::new(1000.0, 1.0).expect("zipf"), 20).0;
            (0..1000).map(|index| space.user_number(index)).collect::<Vec<_>>()
        };
        assert_eq!(owners(), owners());
        assert!((0..20).all(|user| owners().contains(&user)));
    }
}
