//! The full name of an entry inside a node: user, key, and the slot and hash that follow from them.

use std::hash::{Hash, Hasher};

use placement::{EntryKey, Slot, UserId};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// User and key; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct EntryName {
    pub(crate) user: UserId,
    pub(crate) key: EntryKey,
    pub(crate) slot: Slot,
    hash: u64,
}

/// A name as it stands in a request, to be looked up: nothing is allocated for it. Checked like an [`EntryName`].
#[derive(Clone, Copy)]
pub(crate) struct AskedName<'a> {
    pub(crate) user: &'a str,
    pub(crate) key: &'a str,
    pub(crate) slot: Slot,
    pub(crate) hash: u64,
}

impl EntryName {
    /// The name of an entry of a user that is served under its home.
    pub(crate) fn new(user: UserId, key: EntryKey) -> Self {
        Self::under(Slot::of_user(&user), user, key)
    }

    /// The name of an entry that is served under this slot: the user's home, or its own.
    pub(crate) fn under(slot: Slot, user: UserId, key: EntryKey) -> Self {
        let hash = hash_of(user.as_str(), key.as_str());
        Self { slot, hash, user, key }
    }

    /// For a look-up.
    pub(crate) fn asked(&self) -> AskedName<'_> {
        AskedName { user: self.user.as_str(), key: self.key.as_str(), slot: self.slot, hash: self.hash }
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
        let (user, key) = (self.user.as_str(), self.key.as_str());
        [space, ":", itoa::Buffer::new().format(user.len()), ":", user, "/", key].concat()
    }
}

impl<'a> AskedName<'a> {
    /// The name of a user header and an encoded key that stand for themselves. `None`: one of them is not valid, or the key has
    /// to be decoded; whoever wants to know goes the way of [`EntryName`].
    pub(crate) fn plain(user: &'a [u8], encoded_key: &'a str) -> Option<Self> {
        // What RFC 3986 lets stand in a path: neither escapes, nor the beginning of a query, nor what hyper would refuse.
        let is_plain =
            encoded_key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte));
        if is_plain { Self::of(user, encoded_key) } else { None }
    }

    /// The name of a user and a decoded key, under the user's home; `None`: one of them is not valid.
    pub(crate) fn of(user: &'a [u8], key: &'a str) -> Option<Self> {
        let user = UserId::check(user).ok()?;
        EntryKey::check(key).ok()?;
        Some(Self { user, key, slot: Slot::of_user_text(user), hash: hash_of(user, key) })
    }

    /// The same name under this slot.
    pub(crate) fn under(self, slot: Slot) -> Self {
        Self { slot, ..self }
    }

    /// The same name, to be kept.
    pub(crate) fn to_entry_name(self) -> EntryName {
        let user = UserId::parse(self.user.as_bytes()).expect("it was checked");
        let key = EntryKey::parse(self.key).expect("it was checked");
        EntryName { user, key, slot: self.slot, hash: self.hash }
    }
}

/// XXH3-64 of user, NUL, key. No user id holds a NUL, so that no two names run together.
fn hash_of(user: &str, key: &str) -> u64 {
    // One call on the joined name takes a fraction of the time of a streaming hasher, whose state alone is larger.
    let mut joined = [0; 256];
    let length = user.len() + 1 + key.len();
    if let Some(joined) = joined.get_mut(..length) {
        joined[..user.len()].copy_from_slice(user.as_bytes());
        joined[user.len() + 1..].copy_from_slice(key.as_bytes());
        return xxh3_64(joined);
    }
    let mut hasher = Xxh3::new();
    hasher.update(user.as_bytes());
    hasher.update(&[0]);
    hasher.update(key.as_bytes());
    hasher.digest()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_user_nul_key_however_long_they_are() {
        for (user_bytes, key_bytes) in [(1, 1), (100, 154), (100, 155), (100, 156), (256, 1024)] {
            let (user, key) = ("u".repeat(user_bytes), "k".repeat(key_bytes));
            assert_eq!(hash_of(&user, &key), xxh3_64(format!("{user}\0{key}").as_bytes()), "{user_bytes}, {key_bytes}");
        }
    }

    #[test]
    fn a_plain_name_is_the_same_as_the_decoded_one() {
        let asked = AskedName::plain(b"ada", "a/b").expect("plain");
        let name = EntryName::new(UserId::parse(b"ada").expect("id"), EntryKey::parse("a/b").expect("key"));
        assert_eq!((asked.slot, asked.hash), (name.slot, name.hash_value()));
        assert_eq!((asked.user, asked.key), (name.asked().user, name.asked().key));
    }

    #[test]
    fn what_is_not_valid_or_has_to_be_decoded_is_not_plain() {
        let long = "x".repeat(1025);
        for (user, key) in [
            ("", "k"),
            ("a b", "k"),
            ("u", ""),
            ("u", "a%20b"),
            ("u", "é"),
            ("u", "a\n"),
            ("u", "a?b"),
            ("u", "a#"),
            ("u", "<"),
            ("u", &long),
        ] {
            assert!(AskedName::plain(user.as_bytes(), key).is_none(), "{user:?} {key:?}");
        }
    }
}
