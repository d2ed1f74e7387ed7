//! The JSON of `GET /v1/ring` and `GET /v1/ring/locate`.

use placement::{ChangeId, Epoch, NodeId, Phase, Pool, Slot, Weight};
use serde::{Deserialize, Serialize};

/// Answer of `GET /v1/ring`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingDocument {
    /// The epoch; 0 before `migrator init`.
    pub epoch: Epoch,
    /// Always 4096.
    pub slots: usize,
    /// Sorted by name.
    pub members: Vec<MemberDocument>,
    /// Users with a slot of their own.
    pub pinned_users: usize,
    /// The active ring change.
    pub change: Option<ChangeDocument>,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberDocument {
    /// The name.
    pub id: NodeId,
    /// `host:port` that gateways dial.
    pub address: String,
    /// The pool it serves.
    pub pool: Pool,
    /// Share relative to the others.
    pub weight: Weight,
    /// Slots owned now, those of single users among them.
    pub slots: usize,
    /// Whether its lease holds.
    pub state: MemberState,
}

/// Whether a member is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberState {
    /// Its lease holds.
    Up,
    /// Its lease is over.
    Down,
}

/// The active ring change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeDocument {
    /// Its number.
    pub id: ChangeId,
    /// What it does, as the verb and its arguments: `add-node n4`.
    pub action: String,
    /// How far it is.
    pub phase: Phase,
    /// The epoch it began at.
    pub from_epoch: Epoch,
    /// The epoch it leads to.
    pub to_epoch: Epoch,
    /// Slots that move.
    pub moving_slots: usize,
}

/// Answer of `GET /v1/ring/locate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// The user's slot: 0 to 4095 by hash, from 4096 on its own.
    pub slot: Slot,
    /// Its owner.
    pub owner: NodeId,
    /// The owner's pool.
    pub pool: Pool,
    /// By the ring of this epoch.
    pub epoch: Epoch,
}
