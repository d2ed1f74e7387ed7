//! The control plane between migrator and node: bodies of `/internal/*`.
//!
//! `POST /internal/changes/{change}/seal`   [`SealRequest`]   → 200 [`SealReport`] | 409 `change_conflict`
//! `POST /internal/changes/{change}/settle` no body           → 200 [`SettleReport`]: the node has read its slots anew
//! `POST /internal/refresh`                 no body           → 204: the node has read its slots anew
//! `GET  /internal/slots`                                     → 200 [`SlotsReport`]

use placement::{ChangeId, Epoch, Incarnation, NodeId, Slot, Tenure};
use serde::{Deserialize, Serialize};

/// Asks an old owner to seal slots for a change: park their writes, drain, report (protocol C5).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SealRequest {
    /// The slots that leave this node.
    pub slots: Vec<Slot>,
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

/// The path that settles.
pub fn settle_path(change: ChangeId) -> String {
    format!("/internal/changes/{change}/settle")
}

/// The path that makes a node read its slots anew.
pub const REFRESH_PATH: &str = "/internal/refresh";
/// The path that reports L1 contents.
pub const SLOTS_PATH: &str = "/internal/slots";
