//! An entry key: the name of one value among those of a user.

use std::sync::Arc;

/// A checked key: 1 to 1024 bytes of UTF-8 without control characters.
///
/// Cheap to clone. Its `Debug` hides the key: keys never reach a log.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey(Arc<str>);

/// Why a text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyInvalid {
    /// Nothing after the prefix.
    #[error("a key has at least 1 byte")]
    Empty,
    /// Over 1024 bytes.
    #[error("a key has at most 1024 bytes")]
    TooLong,
    /// A control character, U+0000 included.
    #[error("a key has no control characters")]
    Control,
    /// Not UTF-8 once percent-decoded, or a broken percent escape.
    #[error("a key is percent-encoded UTF-8")]
    Encoding,
}

/// The longest key, in bytes after percent-decoding.
pub const KEY_MAX_BYTES: usize = 1024;

impl EntryKey {
    /// Checks an already decoded key.
    pub fn parse(key: &str) -> Result<Self, KeyInvalid> {
        Self::check(key)?;
        Ok(Self(key.into()))
    }

    /// Whether an already decoded text is a key.
    pub fn check(key: &str) -> Result<(), KeyInvalid> {
        if key.is_empty() {
            return Err(KeyInvalid::Empty);
        }
        if key.len() > KEY_MAX_BYTES {
            return Err(KeyInvalid::TooLong);
        }
        if key.chars().any(char::is_control) {
            return Err(KeyInvalid::Control);
        }
        Ok(())
    }

    /// The key itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for EntryKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EntryKey(…)")
    }
}
