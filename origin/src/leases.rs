//! Nodes and their leases (protocol S1, section 4).

use placement::{Incarnation, NodeId, Pool, Weight};

use crate::slots::SlotRow;

/// A registered node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// The name.
    pub id: NodeId,
    /// `host:port` that gateways and the migrator dial.
    pub address: String,
    /// The weight it was started with (`SHARDCACHE_NODE_WEIGHT`): what `add-node` uses by default.
    pub weight: Weight,
    /// The pool it serves (`SHARDCACHE_NODE_POOL`).
    pub pool: Pool,
    /// Its current process.
    pub incarnation: Incarnation,
    /// Milliseconds of lease left by the database's clock; 0 when over.
    pub lease_left_ms: u64,
    /// Whether this process has asked to give its slots away (`SHARDCACHE_DRAIN=handoff`).
    pub leaving: bool,
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The node is ours, with all slots it owns under new tenures.
    Claimed {
        /// The new incarnation.
        incarnation: Incarnation,
        /// The slots it owns.
        slots: Vec<SlotRow>,
    },
    /// Another process of that name still holds the lease.
    LeaseHeld {
        /// Milliseconds until it is over, unless renewed.
        left_ms: u64,
    },
    /// Another node is registered at that address, with a lease that holds.
    AddressTaken {
        /// By whom.
        by: NodeId,
    },
}
