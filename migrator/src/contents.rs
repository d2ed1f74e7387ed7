//! What a node's L1 holds of some slots, as it says itself.

use std::collections::HashSet;
use std::time::Duration;

use client::NodeClient;
use origin::NodeRow;
use placement::Slot;
use tokio::time::timeout;

/// Entries, and their keys and values in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

/// What the node holds of the slots; `None` when it is down, does not answer in time, or is not itself.
pub(crate) async fn of_slots(
    nodes: &NodeClient,
    row: &NodeRow,
    slots: &HashSet<Slot>,
    wait: Duration,
) -> Option<Contents> {
    if row.lease_left_ms == 0 {
        return None;
    }
    let report = timeout(wait, nodes.slots(&row.address)).await.ok()?.ok()?;
    if report.node != row.id {
        return None;
    }
    let of_them = report.slots.iter().filter(|held| slots.contains(&held.slot));
    Some(of_them.fold(Contents::default(), |sum, held| Contents {
        entries: sum.entries + held.entries,
        bytes: sum.bytes + held.bytes,
    }))
}
