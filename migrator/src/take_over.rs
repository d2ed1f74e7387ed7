//! A member that is down leaves: its slots are taken over in one transaction of the database (protocol L3). There is nothing
//! to copy and nobody to seal; the node itself is never talked to.

use origin::{ChangeRow, Origin, RingState, TakeOver, TakeOverOutcome};
use placement::{ChangeId, Epoch, Phase};
use tokio_util::sync::CancellationToken;

use crate::driver::Driver;
use crate::exit::Failure;
use crate::limits::TAKE_OVER_TRIES;
use crate::operator;
use crate::phases::{Tools, add_node, expire_old, patiently};
use crate::plan::{Plan, PlanRefused};
use crate::summary::{PhaseTimes, Summary};

/// Carries out a plan whose leaving member is down, and plans anew, by `replan`, where the ring moved under it. A change
/// that has flipped is finished first; one before its flip that somebody attends to is left to them, unless it waits for
/// the dead node.
pub async fn run(
    tools: &Tools,
    mut plan: Plan,
    replan: impl Fn(&RingState) -> Result<Plan, Failure>,
) -> Result<Summary, Failure> {
    let Some(gone) = plan.gone.as_ref().map(|gone| gone.id.clone()) else {
        return Err(Failure::Usage("only the slots of a member that is down are taken over".to_owned()));
    };
    let mut last = "no try".to_owned();
    for _ in 0..TAKE_OVER_TRIES {
        let Some(order) = plan.take_over(operator::name()) else { return Err(Failure::NodeIsBack(gone)) };
        leave_to_others(&tools.origin, &order).await?;
        add_node::check_receivers(tools, &plan.moves).await?;
        match tools.origin.take_over(&order).await {
            Ok(TakeOverOutcome::Done { change, epoch }) => return done(tools, &plan, order, change, epoch).await,
            Ok(TakeOverOutcome::NodeIsBack) => return Err(Failure::NodeIsBack(order.node)),
            Ok(TakeOverOutcome::Active(change)) => finish_first(tools, &change).await?,
            Ok(TakeOverOutcome::StalePlan { epoch }) => last = format!("the ring is at epoch {epoch}"),
            Ok(TakeOverOutcome::ReceiverDown(id)) => last = format!("{id} is down as well"),
            Ok(TakeOverOutcome::TermOver) => last = "the database asks for a controller's term".to_owned(),
            Err(error) => match done_after_all(&tools.origin, &order).await {
                Some(row) => return done(tools, &plan, order, row.id, row.to_epoch).await,
                None => return Err(Failure::BeginUnknown(error)),
            },
        }
        let ring = tools.origin.ring_state().await?.ok_or(PlanRefused::NoRing)?;
        plan = replan(&ring)?;
    }
    Err(Failure::NotTakenOver { node: gone, reason: last })
}

async fn leave_to_others(origin: &Origin, order: &TakeOver) -> Result<(), Failure> {
    let Some(active) = origin.active_change().await? else { return Ok(()) };
    let waits_for_it = active.moves.iter().any(|moving| moving.from == order.node || moving.to == order.node);
    if active.phase != Phase::Flipped && active.attended && !waits_for_it {
        return Err(Failure::AnotherActive(Box::new(active)));
    }
    Ok(())
}

async fn finish_first(tools: &Tools, change: &ChangeRow) -> Result<(), Failure> {
    tools.progress.note(&format!("change {} ({}) has flipped: it is finished first", change.id, change.action));
    match Driver::new(tools.clone(), CancellationToken::new()).resume().await {
        Ok(_) | Err(Failure::NothingActive) => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// After an error: ours, if it was committed all the same.
async fn done_after_all(origin: &Origin, order: &TakeOver) -> Option<ChangeRow> {
    let newest = patiently(|| origin.changes(1)).await.ok()?.pop()?;
    let ours = newest.operator == order.operator && newest.action == order.action;
    (ours && newest.from_epoch == order.from_epoch && newest.phase == Phase::Done).then_some(newest)
}

async fn done(tools: &Tools, plan: &Plan, order: TakeOver, change: ChangeId, epoch: Epoch) -> Result<Summary, Failure> {
    expire_old::wake_receivers(tools, &plan.moves).await;
    Ok(Summary {
        outcome: "done",
        change,
        action: order.action,
        epoch,
        moved_slots: order.owners.len(),
        copied_entries: 0,
        copied_bytes: 0,
        cold_slots: order.owners.len(),
        warm_share: None,
        write_pause_ms: None,
        origin_reads: None,
        origin_reads_per_second_before: None,
        taken_over_from: Some(order.node),
        phases_ms: PhaseTimes::default(),
    })
}
