//! A ring change: its number and phases. How one leads to the next: `step`.

pub mod step;

use serde::{Deserialize, Serialize};

/// The number of a ring change, unique for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChangeId(pub i64);

impl Phase {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [Self::Copy, Self::Sealed, Self::Flipped, Self::Done, Self::Aborted];
}

impl std::fmt::Display for ChangeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// How far a ring change has come, as journaled in the database (protocol S4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Begun: the receivers are being filled; the old owners serve as before.
    Copy,
    /// The moving slots take no writes; the list of seals is journaled.
    Sealed,
    /// The new owners are in the database; the old ones may not have noticed yet.
    Flipped,
    /// The old owners have confirmed: the change is over.
    Done,
    /// Given up before the flip: everything is as before.
    Aborted,
}
