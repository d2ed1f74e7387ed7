//! Sixty-four bits that stand for a state.
//!
//! Two different states get the same number with odds of about n²/2⁶⁵ for n states: 1 in 38,000 for 31 million. Such a
//! collision could only hide states, never invent a violation, for traces are replayed.

use std::hash::{BuildHasherDefault, Hash, Hasher};

use xxhash_rust::xxh3::xxh3_64;

/// Collects what a state is made of, so that it is hashed in one go: many times faster than field by field.
#[derive(Default)]
pub struct Fingerprints {
    bytes: Bytes,
}

#[derive(Default)]
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn finish(&self) -> u64 {
        xxh3_64(&self.0)
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    // Most numbers of a state are far below 256; two lengths tell a long one from short ones.
    fn write_u8(&mut self, number: u8) {
        self.0.push(number);
    }

    fn write_u64(&mut self, number: u64) {
        self.write_number(number);
    }

    fn write_i64(&mut self, number: i64) {
        self.write_number(number.cast_unsigned());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_number(number as u64);
    }

    // What `derive` writes of an enum's variant.
    fn write_isize(&mut self, number: isize) {
        self.write_number(number as u64);
    }
}

impl Bytes {
    fn write_number(&mut self, number: u64) {
        match u8::try_from(number) {
            Ok(small) if small < u8::MAX => self.0.push(small),
            _ => {
                self.0.push(u8::MAX);
                self.0.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
}

impl Fingerprints {
    /// The state's number; never 0.
    pub fn of(&mut self, state: &impl Hash) -> u64 {
        self.bytes.0.clear();
        state.hash(&mut self.bytes);
        self.bytes.finish().max(1)
    }
}

/// A map by fingerprints: these are hashes already.
pub type ByFingerprint<V> = std::collections::HashMap<u64, V, BuildHasherDefault<Itself>>;

/// Hashes a number to itself.
#[derive(Default)]
pub struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are keys");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}
