//! L1: the entries in this process's memory. A store and no more: what may go in and out is decided elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use moka::sync::Cache;
use origin::StoredEntry;
use placement::slot_hold::Reign;

use crate::clock::Moment;
use crate::entry_name::EntryName;
use crate::old_bugs::{OldBug, is_back};

/// What is known of a name: the entry, or that there is none.
pub(crate) type Content = Option<Arc<StoredEntry>>;

/// An L1 entry with the reign it was stored under; of use only while that is the slot's reign (protocol T7).
#[derive(Clone)]
struct Tagged {
    tag: Reign,
    held: Arc<Held>,
}

struct Held {
    content: Content,
    lifetime: Duration,
    stored_at: Moment,
    expires_at: Moment,
    /// Hits since it was stored: the order in which entries are handed to another node.
    hits: AtomicU32,
}

impl Held {
    fn value_bytes(&self) -> usize {
        self.content.as_ref().map_or(0, |entry| entry.value.len())
    }
}

/// An entry as it is handed on: with the moment at which it must be gone.
#[derive(Clone, Debug)]
pub(crate) struct Expiring {
    pub(crate) content: Content,
    pub(crate) expires_at: Moment,
}

/// The cache, bounded by bytes.
pub(crate) struct L1 {
    entries: Cache<EntryName, Tagged, HashOfName>,
    ttl: Duration,
    negative_ttl: Duration,
}

/// The names carry their hash already.
#[derive(Clone, Copy, Default)]
pub(crate) struct HashOfName(u64);

impl std::hash::BuildHasher for HashOfName {
    type Hasher = HashOfName;
    fn build_hasher(&self) -> HashOfName {
        *self
    }
}

impl std::hash::Hasher for HashOfName {
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

/// What an entry costs beside its own bytes, in bytes: map node, policy queues, reference counts.
const OVERHEAD: usize = 240;

struct Lifetimes;

impl moka::Expiry<EntryName, Tagged> for Lifetimes {
    fn expire_after_create(&self, _: &EntryName, entry: &Tagged, _: Instant) -> Option<Duration> {
        Some(entry.held.lifetime)
    }

    // Without this an overwritten entry would keep the old one's deadline.
    fn expire_after_update(&self, _: &EntryName, entry: &Tagged, _: Instant, _: Option<Duration>) -> Option<Duration> {
        Some(entry.held.lifetime)
    }
}

impl L1 {
    pub(crate) fn new(max_bytes: u64, ttl: Duration, negative_ttl: Duration) -> Self {
        let weigh = |name: &EntryName, entry: &Tagged| {
            let value = entry.held.content.as_ref().map_or(0, |entry| entry.value.len() + entry.content_type.len());
            u32::try_from(OVERHEAD + name.size() + value).unwrap_or(u32::MAX)
        };
        let entries = Cache::builder()
            .max_capacity(max_bytes)
            .weigher(weigh)
            .expire_after(Lifetimes)
            .build_with_hasher(HashOfName::default());
        Self { entries, ttl, negative_ttl }
    }

    /// The entry if its tag is `reign`.
    pub(crate) fn get(&self, name: &EntryName, reign: Reign) -> Option<Content> {
        let right = |entry: &Tagged| entry.tag == reign || is_back(OldBug::ReturningOwnersEntries);
        let entry = self.entries.get(name).filter(right)?;
        entry.held.hits.fetch_add(1, Ordering::Relaxed);
        Some(entry.held.content.clone())
    }

    /// The entry if its tag is `reign`, to be handed on; no hit.
    pub(crate) fn expiring(&self, name: &EntryName, reign: Reign) -> Option<Expiring> {
        let entry = self.entries.get(name).filter(|entry| entry.tag == reign)?;
        Some(Expiring { content: entry.held.content.clone(), expires_at: entry.held.expires_at })
    }

    /// When the entry was put in, if its tag is `reign`; no hit.
    pub(crate) fn stored_at(&self, name: &EntryName, reign: Reign) -> Option<Moment> {
        let entry = self.entries.get(name).filter(|entry| entry.tag == reign)?;
        Some(entry.held.stored_at)
    }

    /// Stores what a load or write of `reign` found, for at most `at_most`; inside the key's critical section only.
    pub(crate) fn put(&self, name: EntryName, tag: Reign, content: Content, at_most: Option<Duration>) {
        let ttl = if content.is_some() { self.ttl } else { self.negative_ttl };
        let lifetime = at_most.map_or(jittered(ttl), |at_most| jittered(ttl).min(at_most));
        let stored_at = Moment::now();
        let expires_at = stored_at.plus(lifetime);
        let held = Arc::new(Held { content, lifetime, stored_at, expires_at, hits: AtomicU32::new(0) });
        self.entries.insert(name, Tagged { tag, held });
    }

    /// Removes the entry whatever its tag; inside the key's critical section only (protocol W1).
    pub(crate) fn remove(&self, name: &EntryName) {
        self.entries.invalidate(name);
    }

    /// Frees the memory of everything (fenced).
    pub(crate) fn clear(&self) {
        self.entries.invalidate_all();
    }

    /// Entries and bytes now, for metrics; lags a little behind.
    pub(crate) fn size(&self) -> (u64, u64) {
        (self.entries.entry_count(), self.entries.weighted_size())
    }

    /// Calls `visit` with name, tag and value size of each entry.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&EntryName, Reign, usize)) {
        for (name, entry) in &self.entries {
            visit(&name, entry.tag, entry.held.value_bytes());
        }
    }

    /// The entries for which `wanted` holds, those with the most hits first, each with the bytes of key and value.
    /// Takes time and memory by the number of entries: not on a thread that serves.
    pub(crate) fn hottest(&self, wanted: impl Fn(&EntryName, Reign) -> bool) -> Vec<(EntryName, u64)> {
        let mut found: Vec<(u32, EntryName, u64)> = Vec::new();
        for (name, entry) in &self.entries {
            if wanted(&name, entry.tag) {
                let bytes = name.size() + entry.held.value_bytes();
                found.push((entry.held.hits.load(Ordering::Relaxed), EntryName::clone(&name), bytes as u64));
            }
        }
        found.sort_unstable_by_key(|(hits, ..)| std::cmp::Reverse(*hits));
        found.into_iter().map(|(_, name, bytes)| (name, bytes)).collect()
    }
}

/// ±10 %, so that entries stored together do not expire together.
pub(crate) fn jittered(ttl: Duration) -> Duration {
    ttl.mul_f64(rand::random_range(0.9..=1.1))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use placement::{EntryKey, UserId};
    use wire::entries::Version;

    use super::*;

    fn name(key: &str) -> EntryName {
        EntryName::new(UserId::parse(b"u").expect("id"), EntryKey::parse(key).expect("key"))
    }

    fn content(bytes: usize) -> Content {
        Some(Arc::new(StoredEntry {
            value: Bytes::from(vec![0; bytes]),
            content_type: "text/plain".into(),
            cache_control: None,
            version: Version(1),
        }))
    }

    fn l1(bytes: u64) -> L1 {
        L1::new(bytes, Duration::from_secs(60), Duration::from_secs(1))
    }

    #[test]
    fn an_entry_is_seen_only_under_its_own_reign() {
        let l1 = l1(1 << 20);
        l1.put(name("a"), Reign::new(1), content(1), None);
        assert!(l1.get(&name("a"), Reign::new(1)).is_some());
        assert!(l1.get(&name("a"), Reign::new(2)).is_none());
    }

    #[test]
    fn absence_is_remembered_as_content() {
        let l1 = l1(1 << 20);
        l1.put(name("a"), Reign::new(1), None, None);
        assert!(matches!(l1.get(&name("a"), Reign::new(1)), Some(None)));
    }

    #[test]
    fn the_hottest_entries_come_first() {
        let l1 = l1(1 << 20);
        for (key, hits) in [("cold", 0), ("hot", 9), ("warm", 3)] {
            l1.put(name(key), Reign::new(1), content(10), None);
            for _ in 0..hits {
                l1.get(&name(key), Reign::new(1));
            }
        }
        l1.put(name("another's"), Reign::new(2), content(10), None);
        let found = l1.hottest(|_, tag| tag == Reign::new(1));
        let keys: Vec<&str> = found.iter().map(|(name, _)| name.key.as_str()).collect();
        assert_eq!(keys, ["hot", "warm", "cold"]);
    }

    #[test]
    fn bytes_bound_the_cache() {
        let l1 = l1(100_000);
        for key in 0..1000 {
            l1.put(name(&key.to_string()), Reign::new(1), content(1000), None);
        }
        l1.entries.run_pending_tasks();
        assert!(l1.size().1 <= 100_000);
    }

    #[test]
    fn lifetimes_are_spread_by_a_tenth() {
        let ttl = Duration::from_secs(100);
        for _ in 0..100 {
            assert!((90..=110).contains(&jittered(ttl).as_secs()));
        }
    }
}
