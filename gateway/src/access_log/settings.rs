//! The settings of the access log.

use std::sync::Arc;

/// Whether there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum AccessLogKind {
    /// None.
    #[default]
    Off,
    /// JSON lines on stdout.
    Json,
}

/// The settings of the access log.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AccessLogSettings {
    /// A line on stdout for each request of the data plane.
    #[arg(long, env = "SHARDCACHE_ACCESS_LOG", default_value = "off")]
    pub access_log: AccessLogKind,
    /// The secret that users are hashed with in the access log; by default a random one of each process.
    #[arg(long, env = "SHARDCACHE_LOG_HASH_KEY", hide_env_values = true)]
    pub log_hash_key: Option<LogHashKey>,
}

/// What users are hashed with: with the same key, a user has the same hash at every gateway. `Debug` hides it.
#[derive(Clone)]
pub struct LogHashKey(Arc<[u8]>);

/// A text that is no key; never repeats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a hash key has at least 16 bytes")]
pub struct LogHashKeyInvalid;

/// Below this, users could be found by trying keys.
const KEY_MIN_BYTES: usize = 16;

impl LogHashKey {
    /// One that nobody else has.
    pub(crate) fn random() -> Self {
        Self(Arc::new(rand::random::<[u8; 32]>()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::str::FromStr for LogHashKey {
    type Err = LogHashKeyInvalid;

    fn from_str(text: &str) -> Result<Self, LogHashKeyInvalid> {
        if text.len() < KEY_MIN_BYTES { Err(LogHashKeyInvalid) } else { Ok(Self(text.as_bytes().into())) }
    }
}

impl std::fmt::Debug for LogHashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogHashKey(…)")
    }
}
