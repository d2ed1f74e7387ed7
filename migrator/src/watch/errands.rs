//! Carries decisions out: a takeover is one statement, an errand a whole ring change in a task of its own.

use client::ControlError;
use futures_util::future::join_all;
use origin::{RingState, TakeOver, TakeOverOutcome};
use placement::{Incarnation, NodeId};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::decide::Errand;
use crate::copy_order::CopyOrder;
use crate::driver::{Driver, active_change};
use crate::exit::Failure;
use crate::limits::{CALL_WAIT, READMIT_P99_MAX};
use crate::pace::Bounds;
use crate::phases::Tools;
use crate::plan::{self, Plan};
use crate::summary::Summary;

/// An errand that is being run.
#[derive(Debug)]
pub struct UnderWay {
    /// Which.
    pub errand: Errand,
    task: JoinHandle<bool>,
}

/// How a takeover ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TookOver {
    /// The slots have new owners.
    Done,
    /// Nothing has changed; look again.
    NotNow(String),
    /// The term is over.
    TermOver,
}

impl UnderWay {
    /// Begins the errand on the ring as it was seen. It is given up, where that is possible, once `over` is cancelled.
    pub fn begin(tools: &Tools, errand: Errand, ring: RingState, operator: String, over: CancellationToken) -> Self {
        let (tools, what) = (tools.clone(), errand.clone());
        let task = tokio::spawn(async move {
            let ended = run(&tools, &what, ring, operator, over).await;
            ended.unwrap_or_else(|failure| {
                tracing::warn!("{what}: {failure}");
                false
            })
        });
        Self { errand, task }
    }

    /// Returns when it has ended: whether well. May be dropped and called again.
    pub async fn ended(&mut self) -> bool {
        // A panic is a bug of ours and logged as such; the errand has not ended well.
        (&mut self.task).await.unwrap_or(false)
    }

    /// Drops it where it is. A change that has flipped is carried on by whoever leads next.
    pub fn abandon(self) {
        self.task.abort();
    }
}

/// Whether it ended well; where it did not, it is worth trying again later.
async fn run(
    tools: &Tools,
    errand: &Errand,
    ring: RingState,
    operator: String,
    over: CancellationToken,
) -> Result<bool, Failure> {
    let driver = Driver::new(tools.clone(), over);
    let summary = match errand {
        Errand::Readmit(id) => {
            let Some(plan) = readmission(ring, id) else {
                tracing::info!("no slot can be given to {id} now");
                return Ok(false);
            };
            // Nobody waits for it: it may pause while the cluster is busy. A node that wants to stop does wait.
            let bounds = Bounds { max_p99: Some(READMIT_P99_MAX), ..Bounds::default() };
            let order = CopyOrder { bounds, ..CopyOrder::default() };
            driver.copying(order).run(&plan.change(operator)).await?
        }
        Errand::Drain(id) => driver.run(&plan::emptying(&ring, id)?.change(operator)).await?,
        Errand::CarryOn(_) => driver.resume().await?,
        Errand::GiveUp(change) => {
            let active = active_change(&tools.origin).await?;
            if active.id == *change {
                driver.give_up(&active, &format!("its migrator died, and {operator} could not carry it on")).await?;
            }
            return Ok(true);
        }
    };
    let Summary { change, epoch, moved_slots, copied_entries, action, .. } = summary;
    tracing::info!(%change, %epoch, moved_slots, copied_entries, action, "done");
    Ok(true)
}

/// The readmission of exactly this member: others that are back too have their turn after it.
fn readmission(mut ring: RingState, id: &NodeId) -> Option<Plan> {
    let waits: Vec<bool> = ring.nodes.iter().map(|row| row.id != *id && plan::lacks_share(&ring, &row.id)).collect();
    // Like one that leaves: it takes nothing now.
    for (row, waits) in ring.nodes.iter_mut().zip(waits) {
        row.leaving |= waits;
    }
    plan::readmission(&ring)
}

/// The ring in which members that refuse our token, or are not who their address says, take nothing: slots given to them
/// would serve nobody. One that does not answer in time may take: its lease says that it lives.
async fn without_strangers(tools: &Tools, ring: &RingState) -> RingState {
    let asked = ring.nodes.iter().map(|row| async {
        if row.lease_left_ms == 0 {
            return false;
        }
        match timeout(CALL_WAIT, tools.nodes.slots(&row.address)).await {
            Ok(Ok(report)) => report.node != row.id,
            Ok(Err(ControlError::Refused(_))) => true,
            Ok(Err(ControlError::Unreachable(_) | ControlError::Malformed(_))) | Err(_) => false,
        }
    });
    let strangers = join_all(asked).await;
    let mut ring = ring.clone();
    for (row, stranger) in ring.nodes.iter_mut().zip(strangers) {
        if stranger {
            tracing::warn!(node = %row.id, "takes no slots over: it refuses our token or is not who its address says");
        }
        // Like one that leaves.
        row.leaving |= stranger;
    }
    ring
}

/// Takes the slots of a node whose lease is over for the others.
pub async fn take_over(
    tools: &Tools,
    ring: &RingState,
    node: &NodeId,
    seen: Incarnation,
    operator: &str,
    term: origin::Term,
) -> TookOver {
    let ring = &without_strangers(tools, ring).await;
    let owners = match plan::takeover(ring, node) {
        Ok(owners) => owners,
        Err(refused) => return TookOver::NotNow(refused.to_string()),
    };
    let slots = owners.len();
    let take_over = TakeOver {
        node: node.clone(),
        seen,
        from_epoch: ring.digest.epoch,
        action: format!("takeover {node}"),
        members: ring.members.clone(),
        owners,
        operator: operator.to_owned(),
        term: Some(term),
    };
    match tools.origin.take_over(&take_over).await {
        Ok(TakeOverOutcome::Done { change, epoch }) => {
            tracing::warn!(%node, slots, %change, %epoch, "the slots of a node that is down are taken over");
            TookOver::Done
        }
        Ok(TakeOverOutcome::TermOver) => TookOver::TermOver,
        Ok(TakeOverOutcome::NodeIsBack) => TookOver::NotNow("the node is back".to_owned()),
        Ok(TakeOverOutcome::StalePlan { epoch }) => TookOver::NotNow(format!("the ring is at epoch {epoch} by now")),
        Ok(TakeOverOutcome::Active(change)) => TookOver::NotNow(format!("change {} has flipped", change.id)),
        Ok(TakeOverOutcome::ReceiverDown(receiver)) => TookOver::NotNow(format!("{receiver} is down too")),
        Err(error) => TookOver::NotNow(error.to_string()),
    }
}
