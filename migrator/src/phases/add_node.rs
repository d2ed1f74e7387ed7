//! Phase 1, "add node": whoever joins is there and is who it says, and the change is journaled (protocol C1).

use std::collections::BTreeSet;
use std::time::Duration;

use client::NodeClient;
use futures_util::future::try_join_all;
use origin::{BeginOutcome, ChangeRow, NewChange, NodeRow, Origin};
use placement::NodeId;
use placement::ring::SlotMove;
use tokio::time::{Instant, sleep, timeout};

use crate::exit::Failure;
use crate::limits::{CALL_WAIT, REGISTRATION_POLL};
use crate::phases::flip_epoch::describe;
use crate::phases::{Tools, patiently};
use crate::progress::Progress;

/// Waits until all these nodes are registered with a live lease, and answers their rows in the order asked for.
pub async fn wait_registered(
    origin: &Origin,
    ids: &[NodeId],
    wait: Duration,
    progress: &Progress,
) -> Result<Vec<NodeRow>, Failure> {
    let started = Instant::now();
    let mut said = false;
    loop {
        let nodes = origin.nodes().await?;
        let found = |id: &NodeId| nodes.iter().find(|row| &row.id == id && row.lease_left_ms > 0);
        let missing: Vec<NodeId> = ids.iter().filter(|id| found(id).is_none()).cloned().collect();
        if missing.is_empty() {
            return Ok(ids.iter().filter_map(found).cloned().collect());
        }
        if started.elapsed() + REGISTRATION_POLL > wait {
            return Err(Failure::NotRegistered { missing, waited: wait });
        }
        if !said {
            let names = crate::exit::list(&missing);
            progress.note(&format!("waiting up to {wait:?} for {names} to register"));
            said = true;
        }
        sleep(REGISTRATION_POLL).await;
    }
}

/// Makes sure that a cache-node of that name answers at the address it registered with.
pub async fn check_itself(nodes: &NodeClient, joining: &NodeRow) -> Result<(), Failure> {
    let not_itself = |reason: String| Failure::NodeNotItself { node: joining.id.clone(), reason };
    let address = &joining.address;
    match timeout(CALL_WAIT, nodes.slots(address)).await {
        Ok(Ok(report)) if report.node == joining.id => Ok(()),
        Ok(Ok(report)) => Err(not_itself(format!("{address} is the address of {}", report.node))),
        Ok(Err(error)) => Err(not_itself(format!("no cache-node answers at {address}: {}", describe(&error)))),
        Err(_) => Err(not_itself(format!("no answer from {address} within {} s", CALL_WAIT.as_secs()))),
    }
}

/// Makes sure that everyone who gains slots answers as itself, and to us: slots given to a node that refuses our token, or
/// that is not who its address says, would serve nobody.
pub async fn check_receivers(tools: &Tools, moves: &[SlotMove]) -> Result<(), Failure> {
    let nodes = tools.origin.nodes().await?;
    let receivers: BTreeSet<&NodeId> = moves.iter().map(|moving| &moving.to).collect();
    let checks = nodes.iter().filter(|row| receivers.contains(&row.id)).map(|row| check_itself(&tools.nodes, row));
    try_join_all(checks).await.map(drop)
}

/// Journals the change in phase 'copy'.
pub async fn begin(tools: &Tools, new: &NewChange) -> Result<ChangeRow, Failure> {
    let change = match tools.origin.begin_change(new).await {
        Ok(BeginOutcome::Begun(change)) => change,
        Ok(BeginOutcome::Active(other)) => return Err(Failure::AnotherActive(other)),
        Ok(BeginOutcome::StalePlan { epoch }) => {
            return Err(Failure::StalePlan { planned: new.from_epoch, current: epoch });
        }
        Err(error) => return begun_after_all(tools, new).await.ok_or(Failure::BeginUnknown(error)),
    };
    match patiently(|| tools.origin.change(change)).await {
        Ok(Some(row)) => Ok(row),
        Ok(None) => Err(left_in_copy(change, "it is gone from the journal".to_owned())),
        Err(error) => Err(left_in_copy(change, error.to_string())),
    }
}

fn left_in_copy(change: placement::ChangeId, reason: String) -> Failure {
    Failure::Left { change, phase: placement::Phase::Copy, reason }
}

/// After an error of `begin_change`: ours, if it was journaled all the same.
async fn begun_after_all(tools: &Tools, new: &NewChange) -> Option<ChangeRow> {
    let active = patiently(|| tools.origin.active_change()).await.ok().flatten()?;
    let ours = active.operator == new.operator && active.action == new.action && active.from_epoch == new.from_epoch;
    ours.then_some(active)
}
