//! The journal of ring changes (protocol S4, section 9).

use std::time::Duration;

use placement::ring::SlotMove;
use placement::{ChangeId, Epoch, Incarnation, Member, NodeId, Phase, Slot, Tenure};
use serde::{Deserialize, Serialize};
use wire::ring_document::ChangeDocument;

/// How long a change that has just begun counts as attended to: whoever drives it says so every second from then on (see
/// [`crate::Origin::attend_change`]), so this is time for a few of these calls to fail.
pub(crate) const FIRST_ATTENDANCE: Duration = Duration::from_secs(5);

/// A change about to begin.
#[derive(Clone, Debug)]
pub struct NewChange {
    /// The verb and its arguments: `add-node n4`.
    pub action: String,
    /// The epoch the plan was made for.
    pub from_epoch: Epoch,
    /// Members after it.
    pub members: Vec<Member>,
    /// Slots that move.
    pub moves: Vec<SlotMove>,
    /// Who runs it: host and process id, for other operators to read.
    pub operator: String,
}

/// A change as journaled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRow {
    /// Its number.
    pub id: ChangeId,
    /// The verb and its arguments.
    pub action: String,
    /// The epoch it began at.
    pub from_epoch: Epoch,
    /// The epoch it makes.
    pub to_epoch: Epoch,
    /// Members after it.
    pub members: Vec<Member>,
    /// Slots that move.
    pub moves: Vec<SlotMove>,
    /// How far it is.
    pub phase: Phase,
    /// The seal list once 'sealed'.
    pub seal: Vec<SealedSlot>,
    /// The new tenures once 'flipped'.
    pub flip: Vec<(Slot, Tenure)>,
    /// Who runs it.
    pub operator: String,
    /// Whether whoever runs it has said so lately (see [`crate::Origin::attend_change`]).
    pub attended: bool,
    /// Why it was aborted.
    pub reason: Option<String>,
    /// Begun, milliseconds since 1970.
    pub started_ms: i64,
    /// Ended, milliseconds since 1970.
    pub ended_ms: Option<i64>,
}

impl ChangeRow {
    /// What everybody may see of it.
    pub fn document(&self) -> ChangeDocument {
        ChangeDocument {
            id: self.id,
            action: self.action.clone(),
            phase: self.phase,
            from_epoch: self.from_epoch,
            to_epoch: self.to_epoch,
            moving_slots: self.moves.len(),
        }
    }
}

/// One line of the seal list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedSlot {
    /// The slot.
    pub slot: Slot,
    /// The old owner.
    pub owner: NodeId,
    /// Its process at the seal.
    pub owner_incarnation: Incarnation,
    /// The slot's tenure at the end of the drain.
    pub tenure: Tenure,
    /// The stream that filled the receiver; `None`: the receiver starts cold.
    pub stream: Option<String>,
    /// The new owner.
    pub receiver: NodeId,
    /// Its process at the seal.
    pub receiver_incarnation: Incarnation,
}

/// The answer to [`crate::Origin::begin_change`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeginOutcome {
    /// Journaled, in phase 'copy'.
    Begun(ChangeId),
    /// Another change is not over yet.
    Active(Box<ChangeRow>),
    /// The ring is not at `from_epoch`.
    StalePlan {
        /// It is at this one.
        epoch: Epoch,
    },
}

/// The answer to [`crate::Origin::flip_change`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlipOutcome {
    /// The new owners and the new epoch are in force.
    Flipped {
        /// The new epoch.
        epoch: Epoch,
    },
    /// Something moved since the seal: rolled back and aborted, with the reason.
    Refused(String),
    /// The change is not in phase 'sealed' but in this one.
    NotSealed(Phase),
}

/// The answer to [`crate::Origin::abort_change`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbortOutcome {
    /// Aborted by this call.
    Aborted,
    /// It is in this phase and was left there.
    NotAbortable(Phase),
    /// No such change.
    Unknown,
}
