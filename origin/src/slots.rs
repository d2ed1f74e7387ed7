//! Slot rows (protocol S2).

use placement::{Gained, NodeId, PinnedUsers, Pool, Slot, Tenure};

/// A slot as the database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRow {
    /// The slot.
    pub slot: Slot,
    /// Who owns it.
    pub owner: NodeId,
    /// The tenure that a write must carry.
    pub tenure: Tenure,
    /// The number of the gain.
    pub gained: Gained,
    /// The L2 name space valid for the slot; `None`: L2 not in use.
    pub l2_space: Option<String>,
    /// Users whose home the slot is and who have one of their own.
    pub pinned: PinnedUsers,
    /// Of a user's own slot: the pool that the user is assigned to.
    pub pool: Option<Pool>,
}

/// What a RENEW does to the L2 space of its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum L2SpaceChange {
    /// Leave it (settles unknown writes).
    Keep,
    /// L2 not in use.
    Clear,
    /// A new space per slot: `<identity>/<nextval of one sequence>`.
    New {
        /// `<run_id>/<replid>` of the server.
        identity: String,
    },
}
