//! Values that describe themselves, so that a reader can tell whose they are and which write made them.

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 4] = *b"SCL1";
/// Magic, run, sequence, user, key.
const HEAD_BYTES: usize = 4 + 8 + 4 + 4 + 4;
const CHECKSUM_BYTES: usize = 8;
/// The smallest value.
pub(crate) const VALUE_MIN_BYTES: usize = HEAD_BYTES + CHECKSUM_BYTES;

/// What a value says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Which run of the load generator wrote it.
    pub(crate) run: u64,
    /// Which write of the key it was in that run, from 1.
    pub(crate) sequence: u32,
    /// The number of the user.
    pub(crate) user: u32,
    /// The number of the key.
    pub(crate) key: u32,
}

/// A value of `length` bytes: the stamp, padding that does not compress, and a checksum over both.
pub(crate) fn encode(stamp: Stamp, length: usize) -> Bytes {
    let length = length.max(VALUE_MIN_BYTES);
    let mut value = Vec::with_capacity(length);
    value.extend_from_slice(&MAGIC);
    value.extend_from_slice(&stamp.run.to_be_bytes());
    for part in [stamp.sequence, stamp.user, stamp.key] {
        value.extend_from_slice(&part.to_be_bytes());
    }
    let padded = length - CHECKSUM_BYTES;
    value.resize(padded, 0);
    SmallRng::seed_from_u64(xxh3_64(&value[..HEAD_BYTES])).fill_bytes(&mut value[HEAD_BYTES..]);
    value.extend_from_slice(&xxh3_64(&value).to_be_bytes());
    value.into()
}

/// The stamp of a whole, undamaged value.
pub(crate) fn decode(value: &[u8]) -> Option<Stamp> {
    let (body, checksum) = value.split_last_chunk::<CHECKSUM_BYTES>()?;
    if xxh3_64(body) != u64::from_be_bytes(*checksum) {
        return None;
    }
    let body = body.strip_prefix(&MAGIC)?;
    let (run, body) = body.split_first_chunk::<8>()?;
    let (sequence, body) = body.split_first_chunk::<4>()?;
    let (user, body) = body.split_first_chunk::<4>()?;
    let (key, _padding) = body.split_first_chunk::<4>()?;
    Some(Stamp {
        run: u64::from_be_bytes(*run),
        sequence: u32::from_be_bytes(*sequence),
        user: u32::from_be_bytes(*user),
        key: u32::from_be_bytes(*key),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { run: 77, sequence: 3, user: 12, key: 500 };

    #[test]
    fn a_value_of_any_length_gives_its_stamp_back() {
        for length in [VALUE_MIN_BYTES, VALUE_MIN_BYTES + 1, 256, 4096] {
            let value = encode(STAMP, length);
            assert_eq!((value.len(), decode(&value)), (length, Some(STAMP)));
        }
    }

    #[test]
    fn a_changed_shortened_or_lengthened_value_is_damaged() {
        let value = encode(STAMP, 256);
        for at in 0..value.len() {
            let mut changed = value.to_vec();
            changed[at] ^= 1;
            assert_eq!(decode(&changed), None, "byte {at}");
            assert_eq!(decode(&value[..at]), None, "cut at {at}");
        }
        assert_eq!(decode(&[&value[..], b"x"].concat()), None);
    }
}
