//! The failure controller's term, and what it does to a node whose lease is over (protocol L3).

use std::collections::{BTreeMap, BTreeSet};

use placement::ring::SlotMove;
use placement::{ChangeId, Epoch, Incarnation, Member, NodeId, Slot};

use crate::change_journal::ChangeRow;
use crate::error::OriginError;

/// The number of one unbroken possession of the controller's post; a later holder has a greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term(pub i64);

/// The answer to [`crate::Origin::take_control`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// The post is ours, under this term.
    Ours(Term),
    /// Another has it.
    Held {
        /// Who, as it calls itself.
        by: String,
        /// Milliseconds until its term is over, unless renewed.
        left_ms: u64,
    },
}

/// Who has the controller's post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerRow {
    /// Who, as it calls itself.
    pub holder: String,
    /// Its term.
    pub term: Term,
    /// Milliseconds of it left by the database's clock; 0 when over.
    pub left_ms: u64,
    /// What it does or waits for, for operators to read.
    pub note: String,
}

/// Gives all slots of a node whose lease is over to others.
#[derive(Clone, Debug)]
pub struct TakeOver {
    /// The node.
    pub node: NodeId,
    /// The incarnation whose lease was seen to be over.
    pub seen: Incarnation,
    /// The epoch the owners were chosen for.
    pub from_epoch: Epoch,
    /// What to journal: `takeover n3`, `remove-node n3`.
    pub action: String,
    /// Members after it.
    pub members: Vec<Member>,
    /// Every slot of the node with its new owner; may be empty when the node has none. The same line twice counts once; a
    /// slot given to two nodes is refused with an error.
    pub owners: Vec<(Slot, NodeId)>,
    /// Who does it.
    pub operator: String,
    /// Only while this term lasts; `None`: an operator's own decision.
    pub term: Option<Term>,
}

impl TakeOver {
    /// The moves it makes, in slot order, each once.
    pub(crate) fn moves(&self) -> Result<Vec<SlotMove>, OriginError> {
        let mut owners: BTreeMap<Slot, &NodeId> = BTreeMap::new();
        for (slot, owner) in &self.owners {
            if owners.insert(*slot, owner).is_some_and(|other| other != owner) {
                return Err(OriginError::Refused { code: format!("slot {} is given to two nodes", slot.number()) });
            }
        }
        let moves = owners.into_iter().map(|(slot, to)| SlotMove::new(slot, self.node.clone(), to.clone()));
        Ok(moves.collect())
    }

    /// Whoever gets a slot, by name.
    pub(crate) fn receivers(&self) -> BTreeSet<&NodeId> {
        self.owners.iter().map(|(_, owner)| owner).collect()
    }

    /// Why a change that it meets is aborted: the epoch which that change would make is taken.
    pub(crate) fn abort_reason(&self) -> String {
        format!("{} was taken over", self.node)
    }
}

/// The answer to [`crate::Origin::take_over`]; all but `Done` have changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakeOverOutcome {
    /// The slots have their new owners, and the epoch is in force.
    Done {
        /// The change as journaled, in phase 'done'.
        change: ChangeId,
        /// The new epoch.
        epoch: Epoch,
    },
    /// The node's lease holds, or it has another incarnation by now (or is not registered at all).
    NodeIsBack,
    /// The ring is not at `from_epoch`, or the node's slots are not those of `owners`.
    StalePlan {
        /// It is at this one.
        epoch: Epoch,
    },
    /// A change has flipped and must be finished first.
    Active(Box<ChangeRow>),
    /// The term is over.
    TermOver,
    /// This receiver's lease is over.
    ReceiverDown(NodeId),
}
