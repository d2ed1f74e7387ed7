//! How an entry, or a known absence, is stored in Redis.
//!
//! `SC`, format version 2, kind (`v` value, `a` absent), then, checked by an XXH3-64 of all that follows it, seeded by the
//! Redis key: expiry (ms since 1970, u64), version (i64), lengths of content type and cache control (u16; 0xffff: none),
//! both, value. Numbers are big-endian.
//!
//! For the seed, what was stored under another key is refused, be it copied by hand or the late reply to another command.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use origin::StoredEntry;
use wire::entries::Version;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::l1::Content;
use crate::old_bugs::{OldBug, is_back};

const VALUE: [u8; 4] = *b"SC\x02v";
const ABSENT: [u8; 4] = *b"SC\x02a";
const HEAD: usize = 4 + 8;
const FIXED: usize = 8 + 8 + 2 + 2;
const NO_TEXT: u16 = u16::MAX;

/// The form stored under `redis_key`; `expires_ms` is when the entry ends everywhere, whatever tier copies it.
pub(super) fn encode(redis_key: &str, content: &Content, expires_ms: u64) -> Vec<u8> {
    let mut checked = Vec::with_capacity(FIXED + content.as_ref().map_or(0, |entry| entry.value.len() + 64));
    checked.put_u64(expires_ms);
    let kind = match content {
        None => {
            checked.put_i64(0);
            checked.put_u16(0);
            checked.put_u16(NO_TEXT);
            ABSENT
        }
        Some(entry) => {
            checked.put_i64(entry.version.0);
            // Stored headers are bounded far below 64 KiB on their way in.
            checked.put_u16(entry.content_type.len() as u16);
            checked.put_u16(entry.cache_control.as_ref().map_or(NO_TEXT, |text| text.len() as u16));
            checked.put_slice(entry.content_type.as_bytes());
            checked.put_slice(entry.cache_control.as_deref().unwrap_or_default().as_bytes());
            checked.put_slice(&entry.value);
            VALUE
        }
    };
    let mut stored = Vec::with_capacity(HEAD + checked.len());
    stored.put_slice(&kind);
    stored.put_u64(checksum(redis_key, &checked));
    stored.put_slice(&checked);
    stored
}

/// Why something stored is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Useless {
    /// We did not write it under this key, or wrote it and it was damaged.
    Unreadable,
    /// Its time is over.
    Over,
}

/// The content and how long it may still live.
pub(super) fn decode(redis_key: &str, stored: Vec<u8>, now_ms: u64) -> Result<(Content, Duration), Useless> {
    let (content, expires_ms) = read(redis_key, stored).ok_or(Useless::Unreadable)?;
    let left = expires_ms.checked_sub(now_ms).filter(|&left| left > 0).ok_or(Useless::Over)?;
    Ok((content, Duration::from_millis(left)))
}

/// The content and when it ends.
fn read(redis_key: &str, stored: Vec<u8>) -> Option<(Content, u64)> {
    if stored.len() < HEAD + FIXED {
        return None;
    }
    let mut stored = Bytes::from(stored);
    let kind = stored.split_to(4);
    let stated = stored.get_u64();
    if checksum(redis_key, &stored) != stated {
        return None;
    }
    let expires_ms = stored.get_u64();
    let version = Version(stored.get_i64());
    let content_type_len = stored.get_u16();
    let cache_control_len = stored.get_u16();
    let content = if *kind == ABSENT {
        // An absence has one form: what else is under a fitting checksum is not ours.
        let ours = (version, content_type_len, cache_control_len) == (Version(0), 0, NO_TEXT) && stored.is_empty();
        ours.then_some(None)?
    } else if *kind == VALUE && version > Version(0) {
        // The kind is outside of the checksum, but the version tells it too: those of entries begin at 1.
        let content_type = text(&mut stored, content_type_len)?;
        let cache_control =
            if cache_control_len == NO_TEXT { None } else { Some(text(&mut stored, cache_control_len)?) };
        Some(Arc::new(StoredEntry { value: stored, content_type, cache_control, version }))
    } else {
        return None;
    };
    Some((content, expires_ms))
}

pub(super) fn checksum(redis_key: &str, checked: &[u8]) -> u64 {
    let key = if is_back(OldBug::LateReply) { "" } else { redis_key };
    xxh3_64_with_seed(checked, xxh3_64(key.as_bytes()))
}

fn text(stored: &mut Bytes, len: u16) -> Option<String> {
    let len = usize::from(len);
    if stored.len() < len {
        return None;
    }
    String::from_utf8(stored.split_to(len).to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(cache_control: Option<&str>) -> Content {
        Some(Arc::new(StoredEntry {
            value: Bytes::from_static(b"\x00value"),
            content_type: "text/plain".into(),
            cache_control: cache_control.map(str::to_owned),
            version: Version(7),
        }))
    }

    #[test]
    fn values_and_absences_come_back_with_the_time_they_have_left() {
        for content in [entry(None), entry(Some("private")), entry(Some("")), None] {
            assert_eq!(decode("k", encode("k", &content, 1500), 1000), Ok((content, Duration::from_millis(500))));
        }
    }

    #[test]
    fn what_is_over_is_not_served() {
        assert_eq!(decode("k", encode("k", &entry(None), 1000), 1000), Err(Useless::Over));
    }

    #[test]
    fn what_was_stored_under_another_key_is_refused() {
        for content in [entry(Some("private")), None] {
            assert_eq!(decode("space:1:u/k2", encode("space:1:u/k1", &content, 1500), 1000), Err(Useless::Unreadable));
        }
    }

    #[test]
    fn the_format_without_the_key_is_refused() {
        let stored = encode("k", &entry(None), 1500);
        let mut older = b"SC\x01v".to_vec();
        older.put_u64(xxh3_64(&stored[HEAD..]));
        older.put_slice(&stored[HEAD..]);
        assert_eq!(decode("k", older, 1000), Err(Useless::Unreadable));
    }

    #[test]
    fn an_absence_with_anything_in_it_is_refused() {
        let absence = encode("k", &None, 1500);
        for (at, byte) in [(HEAD + 15, 1), (HEAD + 17, 1), (HEAD + 19, 0), (HEAD + FIXED, 1)] {
            let mut checked = absence[HEAD..].to_vec();
            checked.resize(checked.len().max(at - HEAD + 1), 0);
            checked[at - HEAD] = byte;
            let stored = [&ABSENT[..], &checksum("k", &checked).to_be_bytes(), &checked].concat();
            assert_eq!(decode("k", stored, 1000), Err(Useless::Unreadable), "byte {at}");
        }
    }

    #[test]
    fn a_value_and_an_absence_are_never_taken_for_each_other() {
        for (content, other) in [(entry(None), b'a'), (None, b'v')] {
            let mut stored = encode("k", &content, 1500);
            stored[3] = other;
            assert_eq!(decode("k", stored, 1000), Err(Useless::Unreadable), "{content:?}");
        }
    }

    #[test]
    fn any_flipped_or_missing_byte_is_refused() {
        let stored = encode("k", &entry(Some("private")), 1500);
        for at in 0..stored.len() {
            let mut damaged = stored.clone();
            damaged[at] ^= 1;
            // The kind byte is outside the checksum; every other value of it is unknown.
            assert_eq!(decode("k", damaged, 1000), Err(Useless::Unreadable), "byte {at}");
            assert_eq!(decode("k", stored[..at].to_vec(), 1000), Err(Useless::Unreadable), "cut at {at}");
        }
    }
}
