//! Phase 4, "expire old": every old owner confirms that it holds the new rows, then the change is done (protocol C10).

use std::collections::BTreeSet;

use futures_util::future::join_all;
use origin::ChangeRow;
use placement::ring::SlotMove;
use placement::{NodeId, Phase};
use tokio::time::{Instant, sleep, timeout};

use crate::limits::{CALL_WAIT, RETRY_PAUSE};
use crate::phases::flip_epoch::{describe, phase_of};
use crate::phases::{StepError, Tools, by_old_owner, patiently};
use crate::progress::PhaseProgress;

/// Tells the receivers that slots are theirs, so that they serve at once; they would find out by themselves.
pub async fn wake_receivers(tools: &Tools, moves: &[SlotMove]) {
    let receivers: BTreeSet<&NodeId> = moves.iter().map(|moving| &moving.to).collect();
    let Ok(nodes) = tools.origin.nodes().await else { return };
    let calls = nodes.iter().filter(|row| receivers.contains(&row.id)).map(|row| async {
        let told = timeout(CALL_WAIT, tools.nodes.refresh(&row.address)).await;
        if !matches!(told, Ok(Ok(()))) {
            tracing::debug!(node = %row.id, "the receiver was not told of the flip; it polls");
        }
    });
    join_all(calls).await;
}

/// Waits until all old owners have confirmed; each has the time of [`Waits`](crate::phases::Waits).
pub async fn confirm(tools: &Tools, change: &ChangeRow, progress: &PhaseProgress) -> Result<(), StepError> {
    let owners = by_old_owner(change);
    let confirmations = owners.keys().map(|owner| async {
        confirm_one(tools, change, owner).await?;
        progress.advance(1);
        Ok(())
    });
    // All are heard even when one fails: those that confirm now are quick to confirm at `resume`.
    join_all(confirmations).await.into_iter().collect()
}

async fn confirm_one(tools: &Tools, change: &ChangeRow, owner: &NodeId) -> Result<(), StepError> {
    let deadline = Instant::now() + tools.waits.settle;
    loop {
        let reason = match settle_once(tools, change, owner).await {
            Ok(()) => return Ok(()),
            Err(reason) => reason,
        };
        if Instant::now() + RETRY_PAUSE >= deadline {
            let (node, verb, waited) = (owner.clone(), "confirm the new ring", tools.waits.settle);
            return Err(StepError::NodeFailed { node, verb, waited, reason });
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// One try; the error says why the owner does not count as confirmed yet.
async fn settle_once(tools: &Tools, change: &ChangeRow, owner: &NodeId) -> Result<(), String> {
    let nodes = tools.origin.nodes().await.map_err(|error| error.to_string())?;
    // Without a lease it serves nothing from its caches, and it can come back only by reading the rows anew.
    let Some(row) = nodes.iter().find(|row| &row.id == owner && row.lease_left_ms > 0) else { return Ok(()) };
    match timeout(CALL_WAIT, tools.nodes.settle(&row.address, change.id)).await {
        Ok(Ok(report)) if &report.node != owner => Err("another node answers at its address".to_owned()),
        Ok(Ok(report)) if report.still_sealed => Err("it still holds slots sealed".to_owned()),
        Ok(Ok(report)) if report.epoch < change.to_epoch => Err(format!("it is still at epoch {}", report.epoch)),
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(describe(&error)),
        Err(_) => Err("no answer".to_owned()),
    }
}

/// After an abort: asks the old owners to unseal at once; they would find out by themselves.
pub async fn release_old_owners(tools: &Tools, change: &ChangeRow) {
    let Ok(nodes) = tools.origin.nodes().await else { return };
    let owners = by_old_owner(change);
    let calls = nodes.iter().filter(|row| row.lease_left_ms > 0 && owners.contains_key(&row.id)).map(|row| async {
        let why = match timeout(CALL_WAIT, tools.nodes.settle(&row.address, change.id)).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => describe(&error),
            Err(_) => "no answer".to_owned(),
        };
        tracing::warn!(node = %row.id, change = %change.id, why, "not told of the abort; the node unseals when it polls");
    });
    join_all(calls).await;
}

/// Phase 'done'.
pub async fn finish(tools: &Tools, change: &ChangeRow) -> Result<(), StepError> {
    if patiently(|| tools.origin.finish_change(change.id)).await? {
        return Ok(());
    }
    match phase_of(tools, change.id).await? {
        Phase::Done => Ok(()),
        other => Err(StepError::MovedElsewhere(other)),
    }
}
