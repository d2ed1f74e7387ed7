//! L1: the entries in this process's memory. A store and no more: what may go in and out is decided elsewhere.
//!
//! moka holds each entry under the hash of its name; the entry itself says of which name it is. Two names of one hash would
//! take each other's place, which a cache may do with any entry.

mod front;
mod held;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use origin::StoredEntry;
use placement::slot_hold::Reign;

pub(crate) use held::{Held, is_header};

use front::{Found, Front};

use crate::clock::Moment;
use crate::entry_name::{AskedName, EntryName};
use crate::old_bugs::{OldBug, is_back};

/// What is known of a name: the entry, or that there is none.
pub(crate) type Content = Option<Arc<StoredEntry>>;

/// The cache, bounded by bytes.
pub(crate) struct L1 {
    entries: Cache<u64, Arc<Held>, HashItself>,
    /// Nothing that `entries` does not hold.
    front: Front,
    ttl: Duration,
    negative_ttl: Duration,
}

/// The keys are hashes.
#[derive(Clone, Copy, Default)]
struct HashItself(u64);

impl std::hash::BuildHasher for HashItself {
    type Hasher = HashItself;
    fn build_hasher(&self) -> HashItself {
        *self
    }
}

impl std::hash::Hasher for HashItself {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, self.0);
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// What an entry costs beside its own bytes, in bytes: `Held` and what moka has for each entry, with the allocator's rounding.
const OVERHEAD: usize = 440;
/// How many hits of an entry moka's policy sees at first: enough to tell it from those that are asked for once or twice.
const POLICY_FIRST_HITS: u32 = 8;
/// Of how many hits it sees one from then on: they only keep the entry from growing old.
const POLICY_HITS: u32 = 16;
/// Lifetimes are spread by so much to both sides.
const JITTER: f64 = 0.1;

impl L1 {
    pub(crate) fn new(max_bytes: u64, ttl: Duration, negative_ttl: Duration) -> Self {
        let weigh = |_: &u64, held: &Arc<Held>| u32::try_from(OVERHEAD + held.size()).unwrap_or(u32::MAX);
        let entries = Cache::builder()
            .max_capacity(max_bytes)
            .weigher(weigh)
            // Only frees the memory of what nobody asked for: each entry has its own, shorter lifetime, and keeps it itself.
            // moka's per-entry expiry would cost a timer for each, and a call per look-up.
            .time_to_live(ttl.max(negative_ttl).mul_f64(1.0 + JITTER))
            .build_with_hasher(HashItself::default());
        Self { entries, front: Front::new(max_bytes), ttl, negative_ttl }
    }

    /// The entry if its tag is `reign`, at `now`.
    pub(crate) fn hit(&self, name: &AskedName<'_>, reign: Reign, now: Moment) -> Option<Arc<Held>> {
        let held = match self.front.find(name.hash) {
            Found::Entry(held) => self.seen_by_policy(held, name.hash),
            Found::Nothing(changes) => {
                let held = self.present(name.hash)?;
                self.front.bring(name.hash, &held, changes);
                held
            }
            Found::Taken => self.present(name.hash)?,
        };
        Self::served(held, name, reign, now)
    }

    /// An entry of moka's, which hears of no look-up that finds none: the read goes on and looks again by [`L1::get`], and its
    /// sketch would take that for two requests.
    fn present(&self, hash: u64) -> Option<Arc<Held>> {
        self.entries.contains_key(&hash).then(|| self.entries.get(&hash)).flatten()
    }

    fn served(held: Arc<Held>, name: &AskedName<'_>, reign: Reign, now: Moment) -> Option<Arc<Held>> {
        let right = held.tag == reign || is_back(OldBug::ReturningOwnersEntries);
        if !right || !held.is_good(name, now) {
            return None;
        }
        held.count_hit();
        Some(held)
    }

    /// Lets moka's policy see the first hits of an entry, and then one of so many: what it makes of more is the same.
    fn seen_by_policy(&self, held: Arc<Held>, hash: u64) -> Arc<Held> {
        let hits = held.hits();
        if hits < POLICY_FIRST_HITS || hits.is_multiple_of(POLICY_HITS) {
            self.entries.get(&hash);
        }
        held
    }

    /// The content of the entry if its tag is `reign`; moka's policy hears of the request also if there is none.
    pub(crate) fn get(&self, name: &EntryName, reign: Reign) -> Option<Content> {
        let held = self.entries.get(&name.hash_value())?;
        Self::served(held, &name.asked(), reign, Moment::now()).map(|held| held.content())
    }

    /// The entry if its tag is `reign`, to be handed on; no hit.
    pub(crate) fn to_hand_on(&self, name: &EntryName, reign: Reign) -> Option<Arc<Held>> {
        self.held(&name.asked(), Moment::now()).filter(|held| held.tag == reign)
    }

    /// When the entry was put in, if its tag is `reign`; no hit.
    pub(crate) fn stored_at(&self, name: &EntryName, reign: Reign) -> Option<Moment> {
        let held = self.held(&name.asked(), Moment::now()).filter(|held| held.tag == reign)?;
        Some(held.stored_at)
    }

    fn held(&self, name: &AskedName<'_>, now: Moment) -> Option<Arc<Held>> {
        self.entries.get(&name.hash).filter(|held| held.is_good(name, now))
    }

    /// Stores what a load or write of `reign` found, for at most `at_most`; inside the key's critical section only.
    pub(crate) fn put(&self, name: EntryName, tag: Reign, content: Content, at_most: Option<Duration>) {
        let ttl = if content.is_some() { self.ttl } else { self.negative_ttl };
        let lifetime = at_most.map_or(jittered(ttl), |at_most| jittered(ttl).min(at_most));
        let stored_at = Moment::now();
        match Held::new(&name, tag, &content, stored_at, stored_at.plus(lifetime)) {
            Some(held) => self.entries.insert(name.hash_value(), Arc::new(held)),
            None => self.entries.invalidate(&name.hash_value()),
        }
        self.front.changed(name.hash_value());
    }

    /// Removes the entry whatever its tag; inside the key's critical section only (protocol W1).
    pub(crate) fn remove(&self, name: &EntryName) {
        self.entries.invalidate(&name.hash_value());
        self.front.changed(name.hash_value());
    }

    /// Frees the memory of everything (fenced).
    pub(crate) fn clear(&self) {
        self.entries.invalidate_all();
        self.front.clear();
    }

    /// Entries and bytes now, for metrics; lags a little behind.
    pub(crate) fn size(&self) -> (u64, u64) {
        (self.entries.entry_count(), self.entries.weighted_size())
    }

    /// Calls `visit` with user, tag and payload of each entry.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&str, Reign, usize)) {
        for (_, held) in &self.entries {
            visit(held.user(), held.tag, held.payload());
        }
    }

    /// The entries of these reigns (no two slots share one), those with the most hits first.
    /// Takes time and memory by the number of entries: not on a thread that serves.
    pub(crate) fn hottest(&self, reigns: &HashSet<Reign>) -> Vec<Arc<Held>> {
        let wanted = self.entries.iter().filter(|(_, held)| reigns.contains(&held.tag));
        let mut found: Vec<_> = wanted.map(|(_, held)| (held.hits(), held)).collect();
        found.sort_unstable_by_key(|(hits, _)| std::cmp::Reverse(*hits));
        found.into_iter().map(|(_, held)| held).collect()
    }
}

/// ±10 %, so that entries stored together do not expire together.
pub(crate) fn jittered(ttl: Duration) -> Duration {
    ttl.mul_f64(rand::random_range(1.0 - JITTER..=1.0 + JITTER))
}
