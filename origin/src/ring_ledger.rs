//! Ring epochs, and the ring as a whole.

use placement::{ChangeId, Epoch, Member, NodeId, Phase, PinnedUser};

use crate::change_journal::ChangeRow;
use crate::leases::NodeRow;
use crate::slots::SlotRow;

/// One epoch of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochRow {
    /// Its number.
    pub epoch: Epoch,
    /// Its members.
    pub members: Vec<Member>,
    /// The change that made it; `None` for epoch 1.
    pub change: Option<ChangeId>,
    /// When, milliseconds since 1970.
    pub created_ms: i64,
}

/// What must differ when anything about the ring does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingDigest {
    /// The newest epoch; 0 for none.
    pub epoch: Epoch,
    /// The sum of all `gained`: rises with every gain, whatever order gains commit in.
    pub gained_sum: i64,
    /// The sum of all nodes' incarnations: rises when a node registers or restarts (and may have a new address).
    pub incarnation_sum: i64,
    /// The newest change and its phase.
    pub change: Option<(ChangeId, Phase)>,
}

/// The whole ring in one snapshot.
#[derive(Clone, Debug)]
pub struct RingState {
    /// The digest of the same snapshot.
    pub digest: RingDigest,
    /// Members of the newest epoch.
    pub members: Vec<Member>,
    /// All rows in slot order, so that each stands at its slot's index: the 4096 by hash, then those of single users.
    pub slots: Vec<SlotRow>,
    /// All registered nodes.
    pub nodes: Vec<NodeRow>,
    /// The active change (phase 'copy', 'sealed' or 'flipped').
    pub change: Option<ChangeRow>,
}

impl RingState {
    /// Users with a slot of their own, in the order of their slots, each with the slot's owner.
    pub fn pinned(&self) -> Vec<(PinnedUser, NodeId)> {
        let mut users: Vec<&PinnedUser> = self.slots.iter().flat_map(|row| row.pinned.iter()).collect();
        users.sort_unstable();
        let owner = |pinned: &PinnedUser| Some(self.slots.get(pinned.slot.index())?.owner.clone());
        users.into_iter().filter_map(|pinned| Some((pinned.clone(), owner(pinned)?))).collect()
    }
}

/// The answer to [`crate::Origin::init_ring`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitOutcome {
    /// Epoch 1 is there now.
    Created,
    /// There was a ring already.
    Exists {
        /// Its newest epoch.
        epoch: Epoch,
        /// Its members.
        members: Vec<Member>,
    },
}
