//! How users are named where their ids must not be: by a keyed hash, the same in the access log and in `GET /v1/users/top`.

use std::sync::Arc;

use aws_lc_rs::hmac;

use crate::access_log::LogHashKey;

/// Of the hash, so many bytes are shown: no two of a billion users share them but by a chance of 1 in 10²⁰.
const SHOWN_BYTES: usize = 16;

/// A keyed hash (HMAC-SHA256); cheap to clone.
#[derive(Clone)]
pub(crate) struct UserHash(Arc<hmac::Key>);

impl UserHash {
    /// By this key, or by a random one of this process: ids cannot be guessed and tried without it.
    pub(crate) fn new(key: Option<&LogHashKey>) -> Self {
        let random = LogHashKey::random();
        Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, key.unwrap_or(&random).bytes())))
    }

    /// The user's name in hexadecimal digits.
    pub(crate) fn of(&self, user: &str) -> String {
        let tag = hmac::sign(&self.0, user.as_bytes());
        tag.as_ref().iter().take(SHOWN_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }
}
