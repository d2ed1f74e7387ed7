//! The verbs that change the ring: from the command line to a plan all of whose conditions hold, and to its end.

use std::time::Duration;

use origin::{Origin, RingState};
use placement::{Epoch, NodeId};
use tokio_util::sync::CancellationToken;

use crate::copy_order::CopyOrder;
use crate::driver::Driver;
use crate::exit::Failure;
use crate::phases::Tools;
use crate::phases::add_node::wait_registered;
use crate::plan::{self, Plan, PlanRefused, Verb};
use crate::summary::Summary;
use crate::{operator, take_over};

/// A change as asked for on the command line.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What.
    pub verb: Verb,
    /// How long to wait until a joining node has registered.
    pub wait: Duration,
    /// Only at this epoch.
    pub at_epoch: Option<Epoch>,
    /// How to copy.
    pub copy: CopyOrder,
}

/// Plans the change for the ring as it is now, and runs it. A signal through `stop` gives it up while that is possible.
pub async fn run(tools: &Tools, asked: &Asked, stop: CancellationToken) -> Result<Summary, Failure> {
    let plan = tokio::select! {
        plan = prepared(tools, asked) => plan?,
        () = stop.cancelled() => return Err(Failure::InterruptedBefore),
    };
    for id in &plan.left_out {
        tools.progress.note(&format!("{id} is down and left out: what slots it has stay, and it gets none"));
    }
    if plan.gone.is_some() {
        return take_over::run(tools, plan, |ring| planned(ring, asked)).await;
    }
    Driver::new(tools.clone(), stop).copying(asked.copy).run(&plan.change(operator::name())).await
}

/// The ring, or "no ring yet".
pub(crate) async fn ring_state(origin: &Origin) -> Result<RingState, Failure> {
    origin.ring_state().await?.ok_or(Failure::Refused(PlanRefused::NoRing))
}

/// A plan all of whose conditions hold now.
async fn prepared(tools: &Tools, asked: &Asked) -> Result<Plan, Failure> {
    let ring = ring_state(&tools.origin).await?;
    let Some(id) = asked.verb.joiner() else { return planned_when_free(&ring, asked) };
    // Before any wait: a wrong name should not take its time to be refused, nor a busy ring or a stale plan.
    if ring.members.iter().any(|member| &member.id == id) {
        return Err(PlanRefused::AlreadyMember(id.clone()).into());
    }
    check_free(&ring, asked.verb.leaver().is_some_and(|id| is_down(&ring, id)))?;
    check_epoch(&ring, asked)?;
    wait_registered(&tools.origin, std::slice::from_ref(id), asked.wait, &tools.progress).await?;
    let ring = ring_state(&tools.origin).await?;
    planned_when_free(&ring, asked)
}

fn is_down(ring: &RingState, id: &NodeId) -> bool {
    ring.nodes.iter().all(|row| &row.id != id || row.lease_left_ms == 0)
}

fn planned_when_free(ring: &RingState, asked: &Asked) -> Result<Plan, Failure> {
    check_free(ring, asked.verb.leaver().is_some_and(|id| is_down(ring, id)))?;
    planned(ring, asked)
}

/// A takeover looks after active changes itself: a dead node may be what they hang on.
fn check_free(ring: &RingState, takes_over: bool) -> Result<(), Failure> {
    match &ring.change {
        Some(active) if !takes_over => Err(Failure::AnotherActive(Box::new(active.clone()))),
        _ => Ok(()),
    }
}

fn check_epoch(ring: &RingState, asked: &Asked) -> Result<(), Failure> {
    let current = ring.digest.epoch;
    match asked.at_epoch {
        Some(asked) if asked != current => Err(Failure::OtherEpoch { asked, current }),
        _ => Ok(()),
    }
}

fn planned(ring: &RingState, asked: &Asked) -> Result<Plan, Failure> {
    check_epoch(ring, asked)?;
    Ok(plan::make(ring, &asked.verb)?)
}
