//! How the keys of a change are to be copied.

use std::time::Duration;

use crate::limits::{
    COPY_CONFLICT, COPY_PAUSES_MAX, COPY_POLL, COPY_STALL, COPY_SURVEY, DATABASE_SILENCE_MAX, REOPEN_PAUSE,
};
use crate::pace::Bounds;

/// How the keys of a change are to be copied.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyOrder {
    /// Copy nothing: the receivers start cold.
    pub cold: bool,
    /// The most bytes per second of all streams together; none: as fast as the receivers take them.
    pub max_bytes_per_second: Option<u64>,
    /// What must hold of the cluster, else copying pauses.
    pub bounds: Bounds,
    /// How long what may take.
    pub waits: CopyWaits,
}

/// How often a copy is looked at, and how long it may hang.
#[derive(Clone, Copy, Debug)]
pub struct CopyWaits {
    /// Between two rounds of asking the old owners.
    pub poll: Duration,
    /// Between two looks at leases, journal and load.
    pub survey: Duration,
    /// Before an old owner is asked again after one of its streams broke.
    pub reopen: Duration,
    /// Without a byte more, pauses not counted.
    pub stall: Duration,
    /// For an old owner's refusal to copy for this change.
    pub conflict: Duration,
    /// For all pauses together.
    pub pauses: Duration,
    /// Without an answer of the database.
    pub database: Duration,
}

impl Default for CopyWaits {
    fn default() -> Self {
        Self {
            poll: COPY_POLL,
            survey: COPY_SURVEY,
            reopen: REOPEN_PAUSE,
            stall: COPY_STALL,
            conflict: COPY_CONFLICT,
            pauses: COPY_PAUSES_MAX,
            database: DATABASE_SILENCE_MAX,
        }
    }
}
