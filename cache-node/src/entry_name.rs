//! The full name of an entry inside a node: user, key, and the slot and hash that follow from them.

use std::hash::{Hash, Hasher};

use placement::{EntryKey, Slot, UserId};
use xxhash_rust::xxh3::Xxh3;

/// User and key; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct EntryName {
    pub(crate) user: UserId,
    pub(crate) key: EntryKey,
    pub(crate) slot: Slot,
    hash: u64,
}

impl EntryName {
    pub(crate) fn new(user: UserId, key: EntryKey) -> Self {
        let mut hasher = Xxh3::new();
        hasher.update(user.as_str().as_bytes());
        // No user id holds a NUL, so that no two names run together.
        hasher.update(&[0]);
        hasher.update(key.as_str().as_bytes());
        Self { slot: Slot::of_user(&user), hash: hasher.digest(), user, key }
    }

    /// A stable hash of user and key.
    pub(crate) fn hash_value(&self) -> u64 {
        self.hash
    }

    /// Bytes of user and key.
    pub(crate) fn size(&self) -> usize {
        self.user.as_str().len() + self.key.as_str().len()
    }

    /// The Redis key in an L2 space. The user's length keeps `a/b` + `c` apart from `a` + `b/c`.
    pub(crate) fn l2_key(&self, space: &str) -> String {
        let user = self.user.as_str();
        format!("{space}:{}:{user}/{}", user.len(), self.key.as_str())
    }
}

impl PartialEq for EntryName {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.user == other.user && self.key == other.key
    }
}

impl Eq for EntryName {}

impl Hash for EntryName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}
