//! The form of entries in L2 (`cache-node/src/l2/envelope.rs`).

use std::sync::Arc;
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use cache_node::fuzzing::{decode_envelope as decode, encode_envelope as encode, seal_envelope as seal};
use origin::StoredEntry;
use wire::entries::Version;

use crate::names;

/// When everything is read, in milliseconds.
const NOW: u64 = 1_000;
/// The Redis key of what is read, and another.
const KEY: &str = "id/1:3:ada/k";
const OTHER_KEY: &str = "id/1:3:ada/l";

/// Reads the bytes as a stored form, behind a fitting checksum too, and stores and damages an entry made from them.
pub fn envelope(data: &[u8]) {
    only_what_was_written(data.to_vec());
    for kind in *b"va" {
        only_what_was_written(seal(KEY, kind, data));
    }
    let _ = made(&mut Unstructured::new(data));
}

/// Whatever is taken is, byte for byte, what a node would have written.
fn only_what_was_written(stored: Vec<u8>) {
    if let Some((content, left)) = decode(KEY, stored.clone(), NOW) {
        assert_eq!(encode(KEY, &content, NOW + left.as_millis() as u64), stored);
    }
}

/// Versions of entries begin at 1.
fn made(bytes: &mut Unstructured<'_>) -> Result<()> {
    let (expires, change, at) = (bytes.arbitrary()?, bytes.int_in_range(1..=255u8)?, bytes.arbitrary::<u16>()?);
    let content = if bytes.arbitrary()? {
        let content_type = names::text(bytes)?;
        let cache_control = if bytes.arbitrary()? { Some(names::text(bytes)?) } else { None };
        let version = Version(bytes.int_in_range(1..=i64::MAX)?);
        let value = Bytes::copy_from_slice(bytes.bytes(bytes.len())?);
        Some(Arc::new(StoredEntry { value, content_type, cache_control, version }))
    } else {
        None
    };
    let mut stored = encode(KEY, &content, expires);
    let left = expires.checked_sub(NOW).filter(|left| *left > 0).map(Duration::from_millis);
    assert_eq!(decode(KEY, stored.clone(), NOW), left.map(|left| (content, left)));
    assert_eq!(decode(OTHER_KEY, stored.clone(), NOW), None, "stored under another key");
    let at = usize::from(at) % stored.len();
    assert_eq!(decode(KEY, stored[..at].to_vec(), NOW), None, "cut at {at}");
    stored[at] ^= change;
    assert_eq!(decode(KEY, stored, NOW), None, "byte {at} ^ {change}");
    Ok(())
}
