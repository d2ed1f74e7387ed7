//! A user id: the routing key, as it came in the `X-User-ID` header.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A checked user id: 1 to 256 bytes of visible ASCII, compared byte for byte.
///
/// Cheap to clone. Its `Debug` hides the id: raw user ids never reach a log.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UserId(Arc<str>);

/// Why a byte string is no user id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a user id is 1 to 256 bytes of visible ASCII")]
pub struct UserIdInvalid;

/// The longest user id, in bytes.
pub const USER_ID_MAX_BYTES: usize = 256;

impl UserId {
    /// Checks the bytes of a header value.
    pub fn parse(bytes: &[u8]) -> Result<Self, UserIdInvalid> {
        Self::check(bytes).map(|id| Self(id.into()))
    }

    /// The text of an id, if the bytes are one.
    pub fn check(bytes: &[u8]) -> Result<&str, UserIdInvalid> {
        if bytes.is_empty() || bytes.len() > USER_ID_MAX_BYTES || !bytes.iter().all(u8::is_ascii_graphic) {
            return Err(UserIdInvalid);
        }
        std::str::from_utf8(bytes).map_err(|_| UserIdInvalid)
    }

    /// The id itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for UserId {
    type Error = UserIdInvalid;

    fn try_from(id: String) -> Result<Self, UserIdInvalid> {
        Self::parse(id.as_bytes())
    }
}

impl From<UserId> for String {
    fn from(id: UserId) -> String {
        id.0.as_ref().to_owned()
    }
}

impl std::fmt::Debug for UserId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UserId(…)")
    }
}
