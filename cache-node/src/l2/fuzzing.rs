//! The stored form of an entry, as `tests/fuzz` reaches it.

use std::sync::Arc;
use std::time::Duration;

use origin::StoredEntry;
use xxhash_rust::xxh3::xxh3_64;

use super::envelope;

/// The stored form of an entry or a known absence that ends at that time.
pub fn encode_envelope(content: &Option<Arc<StoredEntry>>, expires_ms: u64) -> Vec<u8> {
    envelope::encode(content, expires_ms)
}

/// What a stored form holds, and how long it may still live.
pub fn decode_envelope(stored: Vec<u8>, now_ms: u64) -> Option<(Option<Arc<StoredEntry>>, Duration)> {
    envelope::decode(stored, now_ms)
}

/// A stored form of this kind (`v`, `a`) whose checksum fits, whatever is in it: no damage would get that far.
pub fn seal_envelope(kind: u8, checked: &[u8]) -> Vec<u8> {
    [b"SC\x01".as_slice(), &[kind], &xxh3_64(checked).to_be_bytes(), checked].concat()
}
