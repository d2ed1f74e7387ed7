//! The stream of a ring change as both ends have it, and what the migrator hears of it (C2–C5).

use placement::ChangeId;
use placement::slot_hold::Reign;

/// The stream opened last. What is appended is at the receiver at once: until the end nobody looks at it there, and the
/// order is kept, so a delay would show nowhere. Its end is a step of its own at either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    /// Its id, never used again.
    pub id: u8,
    /// The ring change.
    pub change: ChangeId,
    /// The sender's process.
    pub from: u8,
    /// The receiver's process.
    pub to: u8,
    /// The slot that it copies out of.
    pub slot: u8,
    /// The slot that the receiver gains: the same, or the own one of the user whose entries alone are copied (P2).
    pub gains: u8,
    /// The reign it was opened under (C3).
    pub reign: Reign,
    /// How far the sender is.
    pub sender: SenderEnd,
    /// What was looked up and not yet appended (only where copying is not one critical section).
    pub looked_up: Option<u8>,
}

/// The sender's end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SenderEnd {
    /// Entries are appended.
    Open,
    /// The end is appended, with this tenure; the receiver may have it or not.
    Ended {
        /// The tenure at the end of the drain.
        tenure: u8,
        /// Whether the receiver has taken the end.
        taken: bool,
    },
    /// The receiver's confirmation has come.
    Complete {
        /// The tenure at the end of the drain.
        tenure: u8,
    },
    /// Nothing gets through any more.
    Broken,
}

/// What an old owner reports once its slot is drained (C5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Report {
    /// The ring change.
    pub change: ChangeId,
    /// The tenure at the end of the drain.
    pub tenure: u8,
    /// The gain then, for the flip that compares gains.
    pub gained: u8,
    /// The stream, if it is complete.
    pub stream: Option<u8>,
}
