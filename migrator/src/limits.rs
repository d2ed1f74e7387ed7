//! How long and how often the migrator tries. Every wait of a change is bounded by one of these.

use std::time::Duration;

/// Connections to the database: one to work with and one in reserve, so that operators always get a session.
pub const DATABASE_CONNECTIONS: u32 = 2;
/// How long a node may take to seal and drain before the change is aborted: it bounds the write pause of a failed change.
pub const SEAL_WAIT: Duration = Duration::from_secs(10);
/// How long an old owner may take to confirm the flip before the change is left for `resume`.
pub const SETTLE_WAIT: Duration = Duration::from_secs(15);
/// How long one call of a node may take where an answer is due at once.
pub const CALL_WAIT: Duration = Duration::from_secs(2);
/// How long a connection to the database, and then a statement, may take.
pub const DATABASE_WAIT: Duration = Duration::from_secs(3);
/// The pause between two tries of a call that may be repeated.
pub const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// How often a statement that may be repeated is tried while the database does not answer.
pub const DATABASE_TRIES: u32 = 3;
/// How often the database is asked whether a node has registered.
pub const REGISTRATION_POLL: Duration = Duration::from_millis(200);
