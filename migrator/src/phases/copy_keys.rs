//! Phase 2, "copy keys": the old owners copy what their L1 holds of the moving slots to the receivers, all at once, until
//! every stream has caught up (protocol C2, C3). They go on sending each write until the seal.
//!
//! What the answers mean, `ledger` decides; when to pause, `pace`. Here they are asked and told.

mod ledger;

use std::collections::BTreeMap;
use std::time::Duration;

use client::ControlError;
use futures_util::future::join_all;
use origin::{ChangeRow, NodeRow};
use placement::{NodeId, Phase, PinnedUser, Slot};
use tokio::time::{Instant, sleep, timeout};
use wire::control::{CopyReceiver, CopyReport, CopyRequest};

use crate::cluster_load::ClusterLoad;
use crate::copy_order::CopyOrder;
use crate::limits::COPY_CALL_WAIT;
use crate::meter::{Amounts, Meter, size};
use crate::pace::{Governor, Turn};
use crate::phases::flip_epoch::phase_of;
use crate::phases::{StepError, Tools, live};
use crate::progress::{CopyProgress, Step};

use ledger::Ledger;

/// The slots of each receiver, by old owner.
type Routes = BTreeMap<NodeId, BTreeMap<NodeId, Vec<Slot>>>;

/// A copy under way.
struct Copying<'a> {
    tools: &'a Tools,
    change: &'a ChangeRow,
    order: &'a CopyOrder,
    routes: Routes,
    rows: Vec<NodeRow>,
    surveyed: Option<Instant>,
    heard_database: Instant,
    ledger: Ledger,
    governor: Governor,
}

/// Copies until all receivers have everything; answers what was copied and how long it took. Dropping it stops the asking,
/// not the streams: these end with the change.
pub async fn run(
    tools: &Tools,
    change: &ChangeRow,
    order: &CopyOrder,
    load: &mut ClusterLoad,
) -> Result<(Amounts, Duration), StepError> {
    let routes = routes(change);
    if order.cold || routes.is_empty() {
        let phase = tools.progress.phase(Step::CopyKeys, 0, "entries");
        let took = phase.done(&format!("nothing copied: {} slots move", change.moves.len()));
        return Ok((Amounts::default(), took));
    }
    let now = Instant::now();
    let pairs = routes.iter().flat_map(|(owner, to)| to.keys().map(|receiver| (owner.clone(), receiver.clone())));
    let ledger = Ledger::new(pairs, order.waits, now);
    let governor = Governor::new(order.bounds);
    let (rows, surveyed, heard_database) = (Vec::new(), None, now);
    let copying = Copying { tools, change, order, routes, rows, surveyed, heard_database, ledger, governor };
    copying.until_complete(load).await
}

fn routes(change: &ChangeRow) -> Routes {
    let mut routes = Routes::new();
    for moving in &change.moves {
        let of_owner = routes.entry(moving.from.clone()).or_default();
        of_owner.entry(moving.to.clone()).or_default().push(moving.slot);
    }
    routes
}

impl Copying<'_> {
    async fn until_complete(mut self, load: &mut ClusterLoad) -> Result<(Amounts, Duration), StepError> {
        let mut progress = CopyProgress::begin(&self.tools.progress);
        let mut meter = Meter::default();
        loop {
            self.round(load).await?;
            let now = Instant::now();
            let complete = self.ledger.is_complete();
            let reading = meter.read(now, self.ledger.amounts(), complete);
            progress.show(now, &reading);
            // Not while paused: the flip is the hardest moment for a cluster that is over its bounds already.
            if complete && self.governor.paused().is_none() {
                let Amounts { entries, bytes, .. } = reading.amounts;
                let result = format!("{entries} entries, {} copied", size(bytes as f64));
                return Ok((reading.amounts, progress.done(&reading, &result)));
            }
            self.check_waits(now)?;
            sleep(self.order.waits.poll).await;
        }
    }

    /// Asks all old owners that are due, and now and then looks whether the change still wants to be copied, everybody is
    /// there, and the cluster bears it. All at the same time: a node that hangs should not hide what happens to others.
    async fn round(&mut self, load: &mut ClusterLoad) -> Result<(), StepError> {
        let survey = self.surveyed.is_none_or(|at| at.elapsed() >= self.order.waits.survey);
        if survey {
            self.surveyed = Some(Instant::now());
            self.survey_database().await?;
        }
        let due = self.ledger.to_ask(Instant::now());
        let asked = join_all(due.iter().map(|owner| self.ask(owner)));
        let surveyed = async { if survey { load.round(self.tools, self.change, &self.rows).await } else { None } };
        let (answers, window) = tokio::join!(asked, surveyed);
        let now = Instant::now();
        for (owner, answer) in due.iter().zip(answers) {
            let Some(answer) = answer? else {
                self.ledger.unanswered(owner);
                continue;
            };
            for broken in self.ledger.answered(now, owner, answer)? {
                let (owner, receiver, reason) = (broken.owner, broken.receiver, broken.reason);
                self.tools.progress.note(&format!("{owner} to {receiver}: the stream broke, trying again: {reason}"));
            }
        }
        match window.and_then(|window| self.governor.judge(now, &window)) {
            Some(Turn::Pause(over)) => self.tools.progress.paused(&over),
            Some(Turn::Resume) => self.tools.progress.resumed(),
            None => {}
        }
        Ok(())
    }

    /// `None`: no answer in time.
    async fn ask(&self, owner: &NodeId) -> Result<Option<Result<CopyReport, ControlError>>, StepError> {
        let row = live(&self.rows, owner, GIVES)?;
        let receivers = self.routes[owner].iter().map(|(node, slots)| {
            let address = live(&self.rows, node, TAKES)?.address.clone();
            Ok(CopyReceiver { node: node.clone(), address, slots: slots.clone(), leaves: self.leaving() })
        });
        let receivers = receivers.collect::<Result<Vec<_>, StepError>>()?;
        let request = CopyRequest { receivers, max_bytes_per_second: self.rate_of_one() };
        Ok(timeout(COPY_CALL_WAIT, self.tools.nodes.copy(&row.address, self.change.id, &request)).await.ok())
    }

    /// The one user that a change is about which leaves all other entries where they are.
    fn leaving(&self) -> Option<PinnedUser> {
        self.change.moves.iter().find_map(|moving| moving.leaves.clone())
    }

    /// The most bytes per second of each old owner; 0 while paused.
    fn rate_of_one(&self) -> Option<u64> {
        match self.governor.paused() {
            Some(_) => Some(0),
            None => self.order.max_bytes_per_second.map(|all| (all / self.routes.len() as u64).max(1)),
        }
    }

    fn check_waits(&mut self, now: Instant) -> Result<(), StepError> {
        let Some(because) = self.governor.paused() else { return self.ledger.check_progress(now) };
        self.ledger.paused(now);
        let allowed = self.order.waits.pauses;
        if self.governor.paused_for(now) > allowed {
            return Err(StepError::PausedTooLong { allowed, because });
        }
        Ok(())
    }

    async fn survey_database(&mut self) -> Result<(), StepError> {
        match self.look_at_database().await {
            Ok(()) => self.heard_database = Instant::now(),
            // The nodes go on without the database for a while, and so does the copy.
            Err(StepError::Origin(error)) if self.has_rows() => tracing::warn!(%error, "copying goes on"),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn has_rows(&self) -> bool {
        !self.rows.is_empty() && self.heard_database.elapsed() < self.order.waits.database
    }

    async fn look_at_database(&mut self) -> Result<(), StepError> {
        match phase_of(self.tools, self.change.id).await? {
            Phase::Copy => {}
            other => return Err(StepError::MovedElsewhere(other)),
        }
        self.rows = self.tools.origin.nodes().await?;
        for (owner, receivers) in &self.routes {
            live(&self.rows, owner, GIVES)?;
            for receiver in receivers.keys() {
                live(&self.rows, receiver, TAKES)?;
            }
        }
        Ok(())
    }
}

const GIVES: &str = "owns moving slots";
const TAKES: &str = "receives slots";
