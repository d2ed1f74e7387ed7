//! Leases that an earlier run left: after `kill -9` they hold for a few seconds, and a node cannot start before they are over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use origin::{NodeRow, Origin};
use placement::NodeId;
use tokio::time::{Instant, sleep};

/// How often the leases are looked at.
const POLL: Duration = Duration::from_millis(100);
/// The longest wait: no lease of ours lasts longer, see `cache_node::Config`.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Waits until every one of these nodes' leases is over or known to be held by a living process; answers the latter.
///
/// A lease that grows between two looks is being renewed.
pub async fn wait_until_free(origin: &Origin, nodes: &BTreeSet<NodeId>) -> anyhow::Result<BTreeSet<NodeId>> {
    let started = Instant::now();
    let mut before: BTreeMap<NodeId, u64> = BTreeMap::new();
    let mut renewed: BTreeSet<NodeId> = BTreeSet::new();
    loop {
        let held: BTreeMap<NodeId, u64> = held(origin.nodes().await?, nodes);
        renewed.extend(
            held.iter().filter(|(id, left)| before.get(*id).is_some_and(|b| *left > b)).map(|(id, _)| id.clone()),
        );
        renewed.retain(|id| held.contains_key(id));
        let waiting: BTreeMap<&NodeId, &u64> = held.iter().filter(|(id, _)| !renewed.contains(*id)).collect();
        let Some(longest) = waiting.values().max() else { return Ok(renewed) };
        if started.elapsed() > WAIT_MAX {
            return Ok(held.into_keys().collect());
        }
        if before.is_empty() {
            let names: Vec<&str> = waiting.keys().map(|id| id.as_str()).collect();
            tracing::info!(
                nodes = names.join(","),
                wait_ms = longest,
                "waiting for the leases of an earlier run to end"
            );
        }
        before = held;
        sleep(POLL).await;
    }
}

fn held(rows: Vec<NodeRow>, nodes: &BTreeSet<NodeId>) -> BTreeMap<NodeId, u64> {
    let held = rows.into_iter().filter(|row| row.lease_left_ms > 0 && nodes.contains(&row.id));
    held.map(|row| (row.id, row.lease_left_ms)).collect()
}
