//! The stored form of an entry, as `tests/fuzz` reaches it.

use std::sync::Arc;
use std::time::Duration;

use origin::StoredEntry;

use super::envelope;

/// The form stored under a Redis key of an entry or a known absence that ends at that time.
pub fn encode_envelope(redis_key: &str, content: &Option<Arc<StoredEntry>>, expires_ms: u64) -> Vec<u8> {
    envelope::encode(redis_key, content, expires_ms)
}

/// What a form stored under a Redis key holds, and how long it may still live.
pub fn decode_envelope(redis_key: &str, stored: Vec<u8>, now_ms: u64) -> Option<(Option<Arc<StoredEntry>>, Duration)> {
    envelope::decode(redis_key, stored, now_ms).ok()
}

/// A stored form of this kind (`v`, `a`) whose checksum fits, whatever is in it: no damage would get that far.
pub fn seal_envelope(redis_key: &str, kind: u8, checked: &[u8]) -> Vec<u8> {
    [b"SC\x02".as_slice(), &[kind], &envelope::checksum(redis_key, checked).to_be_bytes(), checked].concat()
}
