//! Runs a change from whatever phase it is in to its end: each turn does what the journaled phase asks for
//! (`placement::change::step`).
//!
//! Before the flip every failure, and a signal, gives the change up, which leaves the ring as it was. After the flip there
//! is no way back: the driver goes on, within bounds, or leaves the change for `resume`.

mod record;

use origin::{AbortOutcome, ChangeRow, NewChange, Origin};
use placement::Phase;
use placement::change::step::{Command, Event, command, step};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::attendance::Attendance;
use crate::copy_order::CopyOrder;
use crate::exit::Failure;
use crate::operator;
use crate::phases::flip_epoch::{self, Flip};
use crate::phases::{StepError, Tools, add_node, by_old_owner, copy_keys, expire_old, patiently};
use crate::progress::Step;
use crate::summary::{Summary, milliseconds};

use record::{Record, cold_slots};

/// Runs one change.
#[derive(Debug)]
pub struct Driver {
    tools: Tools,
    stop: CancellationToken,
    order: CopyOrder,
}

/// How a turn before the flip failed.
#[derive(Debug)]
enum Setback {
    /// The change must be given up, for this reason.
    GiveUp(StepError),
    /// The change is over or left as it is.
    Final(Failure),
}

impl From<StepError> for Setback {
    fn from(error: StepError) -> Self {
        Self::GiveUp(error)
    }
}

/// The change that is not over, or "nothing active".
pub async fn active_change(origin: &Origin) -> Result<ChangeRow, Failure> {
    origin.active_change().await?.ok_or(Failure::NothingActive)
}

impl Driver {
    /// A driver that gives up, while it can, once `stop` is cancelled.
    pub fn new(tools: Tools, stop: CancellationToken) -> Self {
        Self { tools, stop, order: CopyOrder::default() }
    }

    /// The same, copying as ordered; by default as fast as the receivers take it.
    pub fn copying(self, order: CopyOrder) -> Self {
        Self { order, ..self }
    }

    /// Journals a new change and runs it, if all who gain slots are there.
    pub async fn run(&self, new: &NewChange) -> Result<Summary, Failure> {
        add_node::check_receivers(&self.tools, &new.moves).await?;
        let phase = self.tools.progress.phase(Step::AddNode, 1, "change");
        let change = add_node::begin(&self.tools, new).await?;
        phase.advance(1);
        let took = phase.done(&format!("{} is change {}, {} slots move", change.action, change.id, change.moves.len()));
        let mut record = Record::default();
        record.phases_ms.add_node = Some(milliseconds(took));
        self.attended(change, new.operator.clone(), record).await
    }

    /// Carries the active change on.
    pub async fn resume(&self) -> Result<Summary, Failure> {
        let change = active_change(&self.tools.origin).await?;
        let phase = crate::exit::phase_name(change.phase);
        self.tools.progress.note(&format!("resuming change {} ({}) in phase {phase}", change.id, change.action));
        self.attended(change, operator::name(), Record::default()).await
    }

    /// Drives the change, and lets everybody know that somebody does.
    async fn attended(&self, change: ChangeRow, operator: String, record: Record) -> Result<Summary, Failure> {
        let attendance = Attendance::begin(self.tools.origin.clone(), change.id, operator);
        let outcome = self.drive(change, record, &attendance).await;
        attendance.end().await;
        outcome
    }

    /// Phases only ever go forward, so the turns are few.
    async fn drive(
        &self,
        mut change: ChangeRow,
        mut record: Record,
        attendance: &Attendance,
    ) -> Result<Summary, Failure> {
        loop {
            let turn = match command(change.phase) {
                Command::CopyAndSeal => self.copy_and_seal(&mut change, &mut record, attendance).await,
                Command::Flip => {
                    attendance.closely().await;
                    self.flip(&change, &mut record).await
                }
                Command::ExpireOld => self.expire(&change, &mut record).await,
                Command::ReportDone => return Ok(record.summary(&change)),
                Command::ReportAborted => {
                    let reason = change.reason.unwrap_or_else(|| "no reason was journaled".to_owned());
                    return Err(Failure::Aborted { change: change.id, reason });
                }
            };
            match turn {
                Ok(event) => match step(change.phase, event) {
                    Some((phase, _)) => change.phase = phase,
                    None => change = self.read_again(&change).await?,
                },
                Err(Setback::Final(failure)) => return Err(failure),
                Err(Setback::GiveUp(StepError::MovedElsewhere(_))) => change = self.read_again(&change).await?,
                Err(Setback::GiveUp(error)) => change.phase = self.give_up_or_go_on(&change, error).await?,
            }
        }
    }

    async fn copy_and_seal(
        &self,
        change: &mut ChangeRow,
        record: &mut Record,
        attendance: &Attendance,
    ) -> Result<Event, Setback> {
        let copied = async {
            record.before_copy(&self.tools, change, self.order.cold).await;
            let copied = copy_keys::run(&self.tools, change, &self.order, &mut record.load).await?;
            if !self.order.cold {
                record.count_reads(&self.tools, change).await;
            }
            attendance.closely().await;
            Ok::<_, StepError>(copied)
        };
        let (copied, took) = tokio::select! {
            copied = copied => copied?,
            () = self.stop.cancelled() => return Err(StepError::Interrupted.into()),
        };
        record.load.flip_begins();
        record.copied(copied);
        record.phases_ms.copy_keys = Some(milliseconds(took));
        let progress = self.tools.progress.phase(Step::FlipEpoch, change.moves.len() as u64, "slots");
        record.sealed_from = Some(Instant::now());
        let sealed = async {
            let seal = flip_epoch::seal(&self.tools, change, &progress).await?;
            flip_epoch::record(&self.tools, change.id, &seal).await?;
            Ok::<_, StepError>(seal)
        };
        change.seal = tokio::select! {
            sealed = sealed => sealed?,
            () = self.stop.cancelled() => return Err(StepError::Interrupted.into()),
        };
        record.flipping = Some(progress);
        Ok(Event::Sealed)
    }

    async fn flip(&self, change: &ChangeRow, record: &mut Record) -> Result<Event, Setback> {
        if self.stop.is_cancelled() {
            return Err(StepError::Interrupted.into());
        }
        let sealed_by_us = record.flipping.take();
        let by_whom = if sealed_by_us.is_some() { "" } else { ", sealed by an earlier run" };
        let progress = sealed_by_us.unwrap_or_else(|| {
            let moving = change.moves.len() as u64;
            let progress = self.tools.progress.phase(Step::FlipEpoch, moving, "slots");
            progress.advance(moving);
            progress
        });
        match flip_epoch::flip(&self.tools, change).await {
            Flip::Flipped => {
                let took = progress.done(&format!("epoch {} is in force{by_whom}", change.to_epoch));
                record.phases_ms.flip_epoch = Some(milliseconds(took));
                Ok(Event::Flipped)
            }
            Flip::Refused(reason) => {
                expire_old::release_old_owners(&self.tools, change).await;
                Err(Setback::Final(Failure::Aborted { change: change.id, reason }))
            }
            Flip::NotFlipped(error) => Err(error.into()),
            Flip::Unknown(error) => {
                let reason = format!("the database was lost over the flip, which may have happened: {error}");
                Err(Setback::Final(Failure::Left { change: change.id, phase: Phase::Sealed, reason }))
            }
        }
    }

    async fn expire(&self, change: &ChangeRow, record: &mut Record) -> Result<Event, Setback> {
        let owners = by_old_owner(change).len() as u64;
        let progress = self.tools.progress.phase(Step::ExpireOld, owners, "old owners");
        let finished = async {
            // One after the other: writes that the old owner lets go wait for the new one to take them. The old owners have heard
            // of the flip meanwhile, and need not read everything for us once more.
            expire_old::wake_receivers(&self.tools, &change.moves).await;
            record.writes_go_on();
            expire_old::confirm(&self.tools, change, &progress).await?;
            expire_old::finish(&self.tools, change).await?;
            // Only now, for it takes the nodes' time.
            record.after_flip(&self.tools, change).await;
            record.count_reads(&self.tools, change).await;
            Ok::<_, StepError>(())
        };
        match finished.await {
            Ok(()) => {
                let took = progress.done("all old owners have let go");
                record.phases_ms.expire_old = Some(milliseconds(took));
                self.note_cold_slots(change);
                Ok(Event::Released)
            }
            Err(error) => {
                let failure = Failure::Left { change: change.id, phase: Phase::Flipped, reason: error.to_string() };
                Err(Setback::Final(failure))
            }
        }
    }

    fn note_cold_slots(&self, change: &ChangeRow) {
        let cold = cold_slots(change);
        if cold > 0 && !self.order.cold {
            let moving = change.moves.len();
            let line = format!("{cold} of {moving} slots start cold: their streams were not complete at the seal");
            self.tools.progress.note(&line);
        }
    }

    /// Another migrator is at work on the same change: what it made of it.
    async fn read_again(&self, change: &ChangeRow) -> Result<ChangeRow, Failure> {
        let left = |reason: String| Failure::Left { change: change.id, phase: change.phase, reason };
        match patiently(|| self.tools.origin.change(change.id)).await {
            Ok(Some(row)) => Ok(row),
            Ok(None) => Err(left("it is gone from the journal".to_owned())),
            Err(error) => Err(left(error.to_string())),
        }
    }

    /// Gives the change up, unless another migrator has flipped it meanwhile: then answers the phase to go on from.
    async fn give_up_or_go_on(&self, change: &ChangeRow, error: StepError) -> Result<Phase, Failure> {
        let reason = error.to_string();
        match self.give_up(change, &reason).await {
            Ok(()) => Err(Failure::Aborted { change: change.id, reason }),
            Err(Failure::NotAbortable { phase, .. }) => Ok(phase),
            Err(failure) => Err(failure),
        }
    }

    /// Aborts the change while that is possible, and asks its old owners to take writes again (protocol C9).
    pub async fn give_up(&self, change: &ChangeRow, reason: &str) -> Result<(), Failure> {
        let left = |why: String| {
            let reason = format!("{reason}; it could not be aborted: {why}");
            Failure::Left { change: change.id, phase: change.phase, reason }
        };
        match patiently(|| self.tools.origin.abort_change(change.id, reason)).await {
            Ok(AbortOutcome::Aborted | AbortOutcome::NotAbortable(Phase::Aborted)) => {
                expire_old::release_old_owners(&self.tools, change).await;
                Ok(())
            }
            Ok(AbortOutcome::NotAbortable(phase)) => Err(Failure::NotAbortable { change: change.id, phase }),
            Ok(AbortOutcome::Unknown) => Err(left("it is gone from the journal".to_owned())),
            Err(error) => Err(left(error.to_string())),
        }
    }
}
