//! What the node may own and serve: its lease and its slots, kept true in the background.

pub(crate) mod follow_ring;
pub(crate) mod lease_renewal;
