//! The data plane: paths, versions, and the JSON of listings and multi-gets.

use base64::Engine;
use percent_encoding::percent_decode_str;
use placement::{EntryKey, KeyInvalid};
use serde::{Deserialize, Serialize};

/// The path before a key.
pub const ENTRIES_PREFIX: &str = "/v1/entries/";
/// The listing route.
pub const ENTRIES_LIST: &str = "/v1/entries";
/// The multi-get route.
pub const ENTRIES_MGET: &str = "/v1/entries:mget";
/// The most keys of one multi-get.
pub const MGET_MAX_KEYS: usize = 256;
/// The most entries of one listing page.
pub const LIST_MAX_LIMIT: u32 = 1000;
/// The entries of a listing page when the request names no limit.
pub const LIST_DEFAULT_LIMIT: u32 = 100;

/// The version of an entry: grows for ever, cluster-wide, also across delete and re-create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub i64);

impl Version {
    /// The strong entity tag: the decimal number in quotes.
    pub fn etag(self) -> String {
        format!("\"{}\"", self.0)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The key of a path `/v1/entries/{key}`; `encoded` is what follows the prefix, without the query.
pub fn decode_key(encoded: &str) -> Result<EntryKey, KeyInvalid> {
    let bytes = encoded.as_bytes();
    let whole_escape = |at: usize| bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
    if (0..bytes.len()).any(|at| bytes[at] == b'%' && !whole_escape(at)) {
        return Err(KeyInvalid::Encoding);
    }
    let key = percent_decode_str(encoded).decode_utf8().map_err(|_| KeyInvalid::Encoding)?;
    EntryKey::parse(&key)
}

/// Body of `POST /v1/entries:mget`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MgetRequest {
    /// At most [`MGET_MAX_KEYS`] keys.
    pub keys: Vec<String>,
}

/// Answer of `POST /v1/entries:mget`: one element per key, in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MgetResponse {
    /// `null` where the user has no such entry.
    pub entries: Vec<Option<MgetEntry>>,
}

/// One found entry of a multi-get.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MgetEntry {
    /// The key asked for.
    pub key: String,
    /// The bytes in standard base64.
    pub value: String,
    /// The stored content type.
    pub content_type: String,
    /// The version.
    pub version: Version,
}

impl MgetEntry {
    /// Encodes a value.
    pub fn new(key: &EntryKey, value: &[u8], content_type: &str, version: Version) -> Self {
        Self {
            key: key.as_str().to_owned(),
            value: base64::engine::general_purpose::STANDARD.encode(value),
            content_type: content_type.to_owned(),
            version,
        }
    }
}

/// Answer of `GET /v1/entries`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EntryPage {
    /// In order of the keys' bytes.
    pub entries: Vec<EntryInfo>,
    /// The path of the following page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One entry of a listing, without its value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EntryInfo {
    /// The key.
    pub key: String,
    /// The version.
    pub version: Version,
    /// The size of the value, in bytes.
    pub size: u64,
    /// The stored content type.
    pub content_type: String,
    /// When it was last written, milliseconds since 1970.
    pub updated_ms: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_percent_decoded_once() {
        assert_eq!(decode_key("a%2Fb/c%2525").expect("key").as_str(), "a/b/c%25");
        assert_eq!(decode_key("%F0%9F%A6%80").expect("key").as_str(), "🦀");
    }

    #[test]
    fn broken_escapes_bad_utf8_control_characters_and_long_keys_are_refused() {
        assert_eq!(decode_key(""), Err(KeyInvalid::Empty));
        for broken in ["%", "%4", "a%zz", "%ff", "%C3%28"] {
            assert_eq!(decode_key(broken), Err(KeyInvalid::Encoding), "{broken}");
        }
        assert_eq!(decode_key("a%00"), Err(KeyInvalid::Control));
        assert_eq!(decode_key("a%0A"), Err(KeyInvalid::Control));
        assert_eq!(decode_key(&"x".repeat(1024)).map(|_| ()), Ok(()));
        assert_eq!(decode_key(&"x".repeat(1025)), Err(KeyInvalid::TooLong));
    }
}
