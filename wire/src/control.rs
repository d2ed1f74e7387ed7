//! The control plane between migrator and node: bodies of `/internal/*`.
//!
//! `POST /internal/changes/{change}/seal`   [`SealRequest`]   → 200 [`SealReport`] | 409 `change_conflict`
//! `POST /internal/changes/{change}/copy`   [`CopyRequest`]   → 200 [`CopyReport`] | 409 `change_conflict`
//! `POST /internal/changes/{change}/settle` no body           → 200 [`SettleReport`]: the node has read its slots anew
//! `POST /internal/refresh`                 no body           → 204: the node has read its slots anew
//! `GET  /internal/slots`                                     → 200 [`SlotsReport`]
//! `GET  /internal/load`                                      → 200 [`LoadReport`]
//! `GET  /internal/users/top?limit=N`                         → 200 [`crate::users::UsersReport`]
//! `GET  /internal/handoffs/{stream}` with `Upgrade`           → 101: the stream of [`crate::handoff`], from an old owner

use placement::{ChangeId, Epoch, Incarnation, NodeId, PinnedUser, Slot, Tenure};
use serde::{Deserialize, Serialize};

/// Asks an old owner to seal slots for a change: park their writes, drain, report (protocol C5).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SealRequest {
    /// The slots that leave this node.
    pub slots: Vec<Slot>,
}

/// Asks an old owner to copy what its L1 holds of slots to their receivers, and how far it is (protocol C2). Asked again
/// it goes on with the streams it has and opens those that are missing or broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyRequest {
    /// One stream for each.
    pub receivers: Vec<CopyReceiver>,
    /// The most bytes per second of all streams of this node together; 0: pause; none: as fast as the receivers take them.
    pub max_bytes_per_second: Option<u64>,
}

/// Who gets which slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyReceiver {
    /// The new owner.
    pub node: NodeId,
    /// `host:port` to dial.
    pub address: String,
    /// The slots that move there.
    pub slots: Vec<Slot>,
    /// Only the entries of this user move, out of the one slot, its home, to a slot of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<PinnedUser>,
}

/// How far an old owner's streams are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyReport {
    /// Who reports.
    pub node: NodeId,
    /// Its process.
    pub incarnation: Incarnation,
    /// One per receiver.
    pub streams: Vec<CopyStream>,
}

/// How far one stream is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyStream {
    /// Its id: a new one each time it is opened.
    pub stream: String,
    /// The receiver.
    pub receiver: NodeId,
    /// Where it stands.
    pub state: CopyState,
    /// Entries held at its beginning.
    pub entries_total: u64,
    /// Entries of those the receiver has acknowledged.
    pub entries_copied: u64,
    /// Bytes of keys and values held at its beginning.
    pub bytes_total: u64,
    /// Bytes of those the receiver has acknowledged.
    pub bytes_copied: u64,
}

/// Where a stream stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyState {
    /// Entries are on their way.
    Copying,
    /// All entries held at the beginning are there; only writes follow.
    CaughtUp,
    /// Nothing of it will ever be served; why.
    Broken(String),
}

/// What an old owner reports once sealed and drained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealReport {
    /// Who reports.
    pub node: NodeId,
    /// Its process.
    pub incarnation: Incarnation,
    /// The tenure of each slot at the end of the drain.
    pub slots: Vec<SealedTenure>,
    /// The streams whose receivers have confirmed that they are complete, with their slots.
    pub streams: Vec<CompleteStream>,
}

/// A stream that ended with everything in place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompleteStream {
    /// Its id.
    pub stream: String,
    /// The receiver.
    pub receiver: NodeId,
    /// The slots it filled.
    pub slots: Vec<Slot>,
}

/// A sealed slot and its tenure at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedTenure {
    /// The slot.
    pub slot: Slot,
    /// The tenure at the end of the drain.
    pub tenure: Tenure,
}

/// What a node holds after it has read its slots anew (protocol C7, C10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettleReport {
    /// Who reports.
    pub node: NodeId,
    /// Its process.
    pub incarnation: Incarnation,
    /// The ring epoch it holds.
    pub epoch: Epoch,
    /// Whether any slot is still sealed for the change asked about.
    pub still_sealed: bool,
}

/// What a node's L1 holds, per slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotsReport {
    /// Who reports.
    pub node: NodeId,
    /// Slots it owns.
    pub owned: usize,
    /// Only slots with at least one entry.
    pub slots: Vec<SlotContents>,
}

/// What a node has done since its start: two reports tell the rates in between.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Who reports.
    pub node: NodeId,
    /// Its process.
    pub incarnation: Incarnation,
    /// Data-plane requests by how long they took.
    pub durations: Vec<DurationBucket>,
    /// Read statements sent to the database.
    pub origin_reads: u64,
}

/// Data-plane requests that took at most so long, and longer than the bucket before says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurationBucket {
    /// The upper bound in microseconds; none: no bound.
    pub at_most_us: Option<u64>,
    /// How many.
    pub requests: u64,
}

/// The L1 entries of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotContents {
    /// The slot.
    pub slot: Slot,
    /// Entries in L1 under the current reign.
    pub entries: u64,
    /// Their keys and values, in bytes.
    pub bytes: u64,
}

/// The path that seals.
pub fn seal_path(change: ChangeId) -> String {
    format!("/internal/changes/{change}/seal")
}

/// The path that copies.
pub fn copy_path(change: ChangeId) -> String {
    format!("/internal/changes/{change}/copy")
}

/// The path of a stream at its receiver.
pub fn handoff_path(stream: &str) -> String {
    format!("/internal/handoffs/{stream}")
}

/// The path that settles.
pub fn settle_path(change: ChangeId) -> String {
    format!("/internal/changes/{change}/settle")
}

/// The path that makes a node read its slots anew.
pub const REFRESH_PATH: &str = "/internal/refresh";
/// The path that reports L1 contents.
pub const SLOTS_PATH: &str = "/internal/slots";
/// The path that reports load.
pub const LOAD_PATH: &str = "/internal/load";
