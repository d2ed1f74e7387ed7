//! The reasons why there is no plan.

use placement::rebalance::RebalanceRefused;
use placement::{NodeId, Pool, Weight};

/// Why there is no plan. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanRefused {
    /// `init` has not run.
    #[error("there is no ring yet")]
    NoRing,
    /// No process of that name ever registered.
    #[error("{0} is not registered: no cache-node of that name has been started against this database")]
    NotRegistered(NodeId),
    /// The node is registered, but its lease is over.
    #[error("{0} is down: its lease is over")]
    LeaseOver(NodeId),
    /// It is in the ring.
    #[error("{0} is a member already")]
    AlreadyMember(NodeId),
    /// It is not in the ring.
    #[error("{0} is not a member")]
    NotMember(NodeId),
    /// Nobody would own the slots.
    #[error("{0} is the last member; a ring needs at least one")]
    LastMember(NodeId),
    /// Nothing would change.
    #[error("{id} has weight {weight} already")]
    SameWeight {
        /// The member.
        id: NodeId,
        /// Its weight.
        weight: Weight,
    },
    /// The address is no `host:port`.
    #[error("{id} registered with the address {address:?}, which is no host:port with a port from 1 to 65535")]
    BadAddress {
        /// The node.
        id: NodeId,
        /// Its address.
        address: String,
    },
    /// Two live nodes share an address.
    #[error("{id} registered with the address {address}, which {by} has as well")]
    AddressTaken {
        /// The joining node.
        id: NodeId,
        /// The address.
        address: String,
        /// The node that has it.
        by: NodeId,
    },
    /// No other member is up and stays.
    #[error("no other member that is up and stays could take the slots of {0}")]
    NoTaker(NodeId),
    /// The user is where it is asked to be.
    #[error("the user is in pool {0} already")]
    AlreadyInPool(Pool),
    /// A node of another pool cannot take the place.
    #[error("{old} is in pool {old_pool} and {new} in pool {new_pool}: a node is replaced by one of its pool")]
    OtherPool {
        /// The member that would leave.
        old: NodeId,
        /// Its pool.
        old_pool: Pool,
        /// The node that would join.
        new: NodeId,
        /// Its pool.
        new_pool: Pool,
    },
    /// No other node that is up and stays serves the pool.
    #[error(
        "no other member that is up and stays is in pool {0}: start a cache-node with SHARDCACHE_NODE_POOL={0} and add it"
    )]
    EmptyPool(Pool),
    /// Each pinned user has a slot of its own, and there are only so many.
    #[error("{} users have a slot of their own, and no more can", placement::PINNED_MAX)]
    TooManyPinned,
    /// Nobody would own the slots that users fall into by hash.
    #[error("no node of pool shared is among them")]
    NoneShared,
    /// It has nothing to give away.
    #[error("{0} owns no slots")]
    NoSlots(NodeId),
    /// Members and owners make no ring.
    #[error("the ring after it is invalid: {0}")]
    Invalid(RebalanceRefused),
}

impl PlanRefused {
    /// The command to run next, where there is a definite one.
    pub fn next(&self) -> Option<String> {
        match self {
            Self::NoRing => Some("migrator init --nodes a,b,c".to_owned()),
            Self::LeaseOver(id) | Self::NotRegistered(id) => {
                Some(format!("start cache-node {id}, then the same command"))
            }
            _ => None,
        }
    }
}
