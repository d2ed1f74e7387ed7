//! Names and values that follow from a key's number alone, in Rust and in SQL, so that no table is needed to check a body.

use std::io::Write;

/// Numbered keys of users: key `k` belongs to user `k mod users`, and its value says so, over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpace {
    /// How many users the keys are spread over.
    pub users: u64,
    /// The size of each value, in bytes.
    pub value_bytes: usize,
}

impl KeySpace {
    /// The user of a key. The size is part of the name, so that values of two sizes belong to two entries.
    pub fn user(self, key: u64) -> String {
        format!("b{}-{}", self.value_bytes, key % self.users)
    }

    /// The name of a key.
    pub fn key(key: u64) -> String {
        format!("item/{key}")
    }

    /// The value of a key.
    pub fn value(self, key: u64) -> Vec<u8> {
        let mut value = self.unit(key);
        let unit = value.clone();
        while value.len() < self.value_bytes {
            value.extend_from_slice(&unit);
        }
        value.truncate(self.value_bytes);
        value
    }

    /// Whether `body` is the value of the key.
    pub fn is_value(self, key: u64, body: &[u8]) -> bool {
        let unit = self.unit(key);
        let head = unit.len().min(self.value_bytes);
        // What begins with the unit and repeats itself at its distance is the unit over and over.
        body.len() == self.value_bytes && body[..head] == unit[..head] && body[head..] == body[..body.len() - head]
    }

    /// What a value repeats.
    fn unit(self, key: u64) -> Vec<u8> {
        let mut unit = Vec::with_capacity(48);
        // Writing to a Vec cannot fail.
        let _ = write!(unit, "b{}-{}/item/{key};", self.value_bytes, key % self.users);
        unit
    }

    /// SQL that selects `usr, key, value` of the keys `from..to`.
    pub fn select(self, from: u64, to: u64) -> String {
        let Self { users, value_bytes } = self;
        let units = value_bytes / "b1-0/item/0;".len() + 1;
        let last = to.saturating_sub(1);
        format!(
            "SELECT usr, key, convert_to(left(repeat(usr || '/' || key || ';', {units}), {value_bytes}), 'UTF8') AS value \
             FROM (SELECT 'b{value_bytes}-' || (k % {users}) AS usr, 'item/' || k AS key FROM generate_series({from}, {last}) AS k) AS names"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: KeySpace = KeySpace { users: 7, value_bytes: 40 };

    #[test]
    fn a_value_repeats_its_owner_and_key() {
        assert_eq!(SPACE.value(9), b"b40-2/item/9;b40-2/item/9;b40-2/item/9;b");
        assert_eq!((SPACE.user(9), KeySpace::key(9)), ("b40-2".to_owned(), "item/9".to_owned()));
    }

    #[test]
    fn only_the_very_value_passes_for_it() {
        for size in [3, 12, 13, 256, 4096] {
            let space = KeySpace { users: 7, value_bytes: size };
            let value = space.value(9);
            assert!(space.is_value(9, &value), "{size}");
            assert!(!space.is_value(9, &value[1..]), "{size}");
            for at in 0..value.len() {
                let mut changed = value.clone();
                changed[at] ^= 1;
                assert!(!space.is_value(9, &changed), "{size}: byte {at}");
            }
        }
        assert!(!SPACE.is_value(9, &SPACE.value(16)));
    }
}
