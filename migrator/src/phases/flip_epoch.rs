//! Phase 3, "flip ring epoch": seal the moving slots at their old owners, journal the seals, then make the new owners
//! true in one transaction (protocol C5, C6). Upholds I6: the flip names the tenures at the end of the drain.

use std::collections::HashMap;

use client::ControlError;
use futures_util::future::try_join_all;
use origin::{ChangeRow, FlipOutcome, NodeRow, OriginError, SealedSlot};
use placement::{ChangeId, NodeId, Phase, Slot};
use tokio::time::{Instant, sleep, timeout_at};
use wire::control::{CompleteStream, SealReport, SealRequest};

use crate::limits::RETRY_PAUSE;
use crate::phases::{StepError, Tools, by_old_owner, live, may_pass, patiently};
use crate::progress::PhaseProgress;

/// How the flip ended.
#[derive(Debug)]
pub enum Flip {
    /// The new owners and the new epoch are in force.
    Flipped,
    /// The database refused it, for this reason, and has aborted the change.
    Refused(String),
    /// It has not happened, and the change is not aborted.
    NotFlipped(StepError),
    /// Nobody can say: the database was lost over it.
    Unknown(OriginError),
}

/// Seals all old owners at the same time and answers the seal list; each has the time of [`Waits`](crate::phases::Waits).
pub async fn seal(tools: &Tools, change: &ChangeRow, progress: &PhaseProgress) -> Result<Vec<SealedSlot>, StepError> {
    let nodes = patiently(|| tools.origin.nodes()).await?;
    let deadline = Instant::now() + tools.waits.seal;
    let seals = by_old_owner(change).into_iter().map(|(owner, slots)| {
        let nodes = &nodes;
        async move {
            let row = live(nodes, &owner, "owns moving slots")?;
            let moving = slots.len() as u64;
            let report = seal_one(tools, change.id, row, SealRequest { slots }, deadline).await?;
            progress.advance(moving);
            Ok::<_, StepError>((owner, report))
        }
    });
    let reports: HashMap<NodeId, SealReport> = try_join_all(seals).await?.into_iter().collect();
    // Read after the drain: the flip wants the receivers' processes of now.
    let nodes = patiently(|| tools.origin.nodes()).await?;
    seal_list(change, &reports, &nodes)
}

async fn seal_one(
    tools: &Tools,
    change: ChangeId,
    owner: &NodeRow,
    request: SealRequest,
    deadline: Instant,
) -> Result<SealReport, StepError> {
    let failed = |reason: String| StepError::NodeFailed {
        node: owner.id.clone(),
        verb: "seal its slots",
        waited: tools.waits.seal,
        reason,
    };
    let mut last = "no answer".to_owned();
    loop {
        match timeout_at(deadline, tools.nodes.seal(&owner.address, change, &request)).await {
            Ok(Ok(report)) => return Ok(report),
            Ok(Err(error)) if may_pass(&error) => last = describe(&error),
            Ok(Err(error)) => return Err(failed(describe(&error))),
            Err(_) => return Err(failed(last)),
        }
        if deadline.saturating_duration_since(Instant::now()) <= RETRY_PAUSE {
            return Err(failed(last));
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// An error of a node in one line.
pub(crate) fn describe(error: &ControlError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {}", innermost(source)),
        None => error.to_string(),
    }
}

/// The cause at the bottom: the texts above it repeat addresses and say less.
fn innermost<'a>(mut error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

/// Puts reports and receivers together, one line for each moving slot. A slot whose stream is not complete, or went to
/// another, has none: its receiver starts cold.
fn seal_list(
    change: &ChangeRow,
    reports: &HashMap<NodeId, SealReport>,
    nodes: &[NodeRow],
) -> Result<Vec<SealedSlot>, StepError> {
    let mut tenures = HashMap::with_capacity(change.moves.len());
    let mut streams: HashMap<(&NodeId, Slot), &CompleteStream> = HashMap::new();
    for (owner, report) in reports {
        if &report.node != owner {
            return Err(StepError::WrongReport { node: owner.clone(), what: "it calls itself by another name" });
        }
        tenures.extend(report.slots.iter().map(|sealed| ((owner, sealed.slot), (sealed.tenure, report.incarnation))));
        for stream in &report.streams {
            streams.extend(stream.slots.iter().map(|&slot| ((owner, slot), stream)));
        }
    }
    let line = |slot: Slot, from: &NodeId, to: &NodeId| {
        let (tenure, owner_incarnation) = *tenures
            .get(&(from, slot))
            .ok_or_else(|| StepError::WrongReport { node: from.clone(), what: "a moving slot is missing" })?;
        let receiver = live(nodes, to, "receives slots")?;
        Ok(SealedSlot {
            slot,
            owner: from.clone(),
            owner_incarnation,
            tenure,
            stream: streams
                .get(&(from, slot))
                .filter(|stream| stream.receiver == *to)
                .map(|stream| stream.stream.clone()),
            receiver: to.clone(),
            receiver_incarnation: receiver.incarnation,
        })
    };
    change.moves.iter().map(|moving| line(moving.slot, &moving.from, &moving.to)).collect()
}

/// Journals the seal list: phase 'sealed'.
pub async fn record(tools: &Tools, change: ChangeId, seal: &[SealedSlot]) -> Result<(), StepError> {
    if patiently(|| tools.origin.record_seal(change, seal)).await? {
        return Ok(());
    }
    // Not in 'copy' any more: our own lost first try, or another migrator.
    match phase_of(tools, change).await? {
        Phase::Sealed => Ok(()),
        other => Err(StepError::MovedElsewhere(other)),
    }
}

/// The flip itself. After an error the journal is asked what became of it, for the transaction may have been committed.
pub async fn flip(tools: &Tools, change: &ChangeRow) -> Flip {
    let error = match tools.origin.flip_change(change.id).await {
        Ok(FlipOutcome::Flipped { .. } | FlipOutcome::NotSealed(Phase::Flipped | Phase::Done)) => return Flip::Flipped,
        Ok(FlipOutcome::NotSealed(phase)) => return Flip::NotFlipped(StepError::MovedElsewhere(phase)),
        Ok(FlipOutcome::Refused(reason)) => return Flip::Refused(reason),
        Err(error) => error,
    };
    match phase_of(tools, change.id).await {
        Ok(Phase::Flipped | Phase::Done) => Flip::Flipped,
        // The statement may still be on its way: the abort that follows fences it off.
        Ok(_) => Flip::NotFlipped(StepError::Origin(error)),
        Err(_) => Flip::Unknown(error),
    }
}

/// The phase of a change as the journal has it now.
pub(crate) async fn phase_of(tools: &Tools, change: ChangeId) -> Result<Phase, OriginError> {
    let row = patiently(|| tools.origin.change(change)).await?;
    row.map(|row| row.phase).ok_or_else(|| OriginError::Corrupt(format!("change {change} is gone from the journal")))
}
