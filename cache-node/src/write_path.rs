//! WRITE (protocol sections 7 and 8): register, void L2, the fenced statement, refill, release.
//!
//! From registration on a write runs in a task of its own that no client can drop (X1). However that task ends, the key
//! is released rightly by [`Registered`]'s drop (X2).

use std::sync::Arc;

use origin::{FencedWrite, OriginError, Precondition, StoredEntry, WriteAnswer, WriteError, WriteKind};
use placement::slot_hold::Reign;
use placement::write_steps::{
    KeyAtEnd, PrepareStep, RegisterStep, SlotBusy, WriteStage, WriteStart, may_store_written, prepare_step,
    register_step,
};
use placement::{Epoch, Tenure};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::entry_name::EntryName;
use crate::l1::Content;
use crate::l2::L2Lease;
use crate::limits;
use crate::metrics::{WriteLabels, WriteOutcome};
use crate::node::{Node, Refreshed};
use crate::old_bugs::{OldBug, is_back};
use crate::renewals::Want;

/// Why a write was not done, or may not have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteRefused {
    /// The slot is another's; our epoch, for the gateway. Not executed.
    NotOwner(Epoch),
    /// The slot takes no writes for too long. Not executed.
    Parked(&'static str),
    /// Too many writes wait for this key. Not executed.
    QueueFull,
    /// The origin could not be used. Not executed.
    Origin(OriginError),
    /// The statement was sent and no answer seen (W6).
    Unknown,
}

/// A write as asked for.
pub(crate) struct WriteRequest {
    pub(crate) name: EntryName,
    pub(crate) kind: WriteKind,
    pub(crate) precondition: Precondition,
    /// Until when it may wait to be registered, if not for as long as any write; no write is given up after that.
    pub(crate) until: Option<Instant>,
}

impl Node {
    /// Writes one entry as the owner of its slot. Dropping the future drops the write only before it is registered.
    pub(crate) async fn write(self: &Arc<Self>, request: WriteRequest) -> Result<WriteAnswer, WriteRefused> {
        let registered = self.register(&request.name, request.until).await?;
        let (answer_tx, answer) = oneshot::channel();
        self.work.spawn(registered.run(request, answer_tx));
        // A task that ended without an answer panicked: then the outcome is in doubt.
        answer.await.unwrap_or(Err(WriteRefused::Unknown))
    }

    /// W1, waiting for seals, unknown writes of the slot and other writers of the key.
    async fn register(self: &Arc<Self>, name: &EntryName, until: Option<Instant>) -> Result<Registered, WriteRefused> {
        let deadline = Instant::now() + limits::WRITE_PARK;
        let deadline = until.map_or(deadline, |until| deadline.min(until));
        loop {
            let mut slot_changed = std::pin::pin!(self.slots.changed(name.slot));
            slot_changed.as_mut().enable();
            match self.try_register(name)? {
                Attempt::Registered(registered) => return Ok(registered),
                Attempt::SlotBusy(why) => {
                    let waited = timeout_at(deadline, slot_changed).await;
                    waited.map_err(|_| WriteRefused::Parked(busy_reason(why)))?;
                }
                Attempt::KeyBusy(waiting) => {
                    let gone = Arc::clone(&waiting.writer_gone);
                    let woken = timeout_at(deadline, gone.notified()).await;
                    drop(waiting);
                    woken.map_err(|_| WriteRefused::Parked("another write of the key is still in progress"))?;
                }
            }
        }
    }

    /// U3: what a write does to the caches before its statement, and no statement: the L1 entry out, the guard up, L2 voided
    /// or left behind. For a task that no client can drop (X1).
    pub(crate) async fn drop_cached(self: &Arc<Self>, name: &EntryName) -> Result<(), WriteRefused> {
        let registered = self.register(name, None).await?;
        registered.prepare(Instant::now() + limits::WRITE_PREPARE).await.map(drop)
    }

    fn try_register(self: &Arc<Self>, name: &EntryName) -> Result<Attempt, WriteRefused> {
        let mut stripe = self.keys.lock(name);
        let mut slot = self.slots.lock(name.slot);
        match register_step(&slot.hold, name.user.as_str(), !slot.unsettled.is_empty(), stripe.writer_active(name)) {
            RegisterStep::NotOwner => Err(WriteRefused::NotOwner(self.status.epoch())),
            RegisterStep::SlotBusy(why) => Ok(Attempt::SlotBusy(why)),
            RegisterStep::KeyBusy => match stripe.wait_for_writer(name) {
                None => Err(WriteRefused::QueueFull),
                Some(writer_gone) => {
                    let waiting = WaitingWriter { node: Arc::clone(self), name: name.clone(), writer_gone };
                    Ok(Attempt::KeyBusy(waiting))
                }
            },
            RegisterStep::Register => {
                stripe.take_for_write(name);
                self.l1.remove(name);
                if let Some(stream) = slot.stream.as_ref().filter(|_| !is_back(OldBug::CopyOvertakesWrite)) {
                    stream.invalidate(name);
                }
                slot.registered_writes += 1;
                Ok(Attempt::Registered(Registered {
                    node: Arc::clone(self),
                    name: name.clone(),
                    reign: slot.hold.reign(),
                    stage: WriteStage::Registered,
                }))
            }
        }
    }
}

enum Attempt {
    Registered(Registered),
    SlotBusy(SlotBusy),
    KeyBusy(WaitingWriter),
}

fn busy_reason(why: SlotBusy) -> &'static str {
    match why {
        SlotBusy::Sealed => "the slot is being handed to another node",
        SlotBusy::Unsettled => "a write of unknown outcome is being settled",
    }
}

/// A place in a key's queue; leaving it passes an unused wake-up on.
struct WaitingWriter {
    node: Arc<Node>,
    name: EntryName,
    writer_gone: Arc<Notify>,
}

impl Drop for WaitingWriter {
    fn drop(&mut self) {
        let mut stripe = self.node.keys.lock(&self.name);
        stripe.wake_next_writer(&self.name);
        stripe.stop_waiting(&self.name);
    }
}

/// A registered write: the key is writer-active until this is dropped, and longer if the outcome is unknown.
struct Registered {
    node: Arc<Node>,
    name: EntryName,
    /// The slot's reign at W1.
    reign: Reign,
    stage: WriteStage,
}

/// What W2 noted, with the lease on L2 if a void was confirmed.
struct Prepared {
    start: WriteStart,
    lease: Option<L2Lease>,
}

impl Registered {
    /// W2 to W6, telling the answer as soon as it is known.
    async fn run(mut self, request: WriteRequest, answer_tx: oneshot::Sender<Result<WriteAnswer, WriteRefused>>) {
        let deadline = Instant::now() + limits::WRITE_PREPARE;
        let (answer, refill) = match self.commit(&request, deadline).await {
            Ok((answer, prepared)) => {
                let refill = self.finish(&request.kind, &answer, prepared);
                (Ok(answer), refill)
            }
            Err(refused) => (Err(refused), None),
        };
        self.count(&answer);
        let node = Arc::clone(&self.node);
        // Released (or handed on for settling) before the client learns of it, so that its next request finds the key free.
        drop(self);
        let _ = answer_tx.send(answer);
        if let Some((lease, content)) = refill {
            node.l2.redeem(lease, &content).await;
        }
    }

    /// W2 to W4, again as long as the tenure moves under it.
    async fn commit(
        &mut self,
        request: &WriteRequest,
        deadline: Instant,
    ) -> Result<(WriteAnswer, Prepared), WriteRefused> {
        loop {
            let prepared = self.prepare(deadline).await?;
            let write = FencedWrite {
                slot: self.name.slot,
                tenure: prepared.start.tenure,
                user: self.name.user.clone(),
                key: self.name.key.clone(),
                kind: request.kind.clone(),
                precondition: request.precondition.clone(),
            };
            self.stage = WriteStage::Sent(prepared.start.tenure);
            let answer = self.node.origin_writes.write(write).await;
            match answer {
                Err(WriteError::Unknown(error)) => {
                    tracing::warn!(slot = %self.name.slot, tenure = %prepared.start.tenure, %error, "write of unknown outcome");
                    return Err(WriteRefused::Unknown);
                }
                Err(WriteError::NotExecuted(error)) => {
                    self.stage = WriteStage::Registered;
                    return Err(WriteRefused::Origin(error));
                }
                Ok(WriteAnswer::Fenced) => {
                    self.stage = WriteStage::Registered;
                    self.learn_newer_tenure(prepared.start.tenure, deadline).await?;
                }
                Ok(answer) => {
                    self.stage = WriteStage::Registered;
                    return Ok((answer, prepared));
                }
            }
        }
    }

    /// W2: L2 holds nothing of the key that can be read, or is off for the slot.
    async fn prepare(&self, deadline: Instant) -> Result<Prepared, WriteRefused> {
        let node = &self.node;
        loop {
            let mut changed = std::pin::pin!(node.slots.changed(self.name.slot));
            changed.as_mut().enable();
            let step = prepare_step(&node.slots.lock(self.name.slot).hold, self.reign);
            let (start, voided) = match step {
                PrepareStep::NotOwner => return Err(WriteRefused::NotOwner(node.status.epoch())),
                PrepareStep::Commit(start) => return Ok(Prepared { start, lease: None }),
                PrepareStep::Void(start, space) => (start, node.l2.void(&space, &self.name).await),
                PrepareStep::Renew(start) => (start, None),
            };
            if let Some(lease) = voided {
                return Ok(Prepared { start, lease: Some(lease) });
            }
            if is_back(OldBug::FailedDropTakenForDone) {
                return Ok(Prepared { start, lease: None });
            }
            // R4: unless the slot has moved on meanwhile, bar the space and have it replaced before anything commits.
            {
                let mut slot = node.slots.lock(self.name.slot);
                if slot.hold.tenure() != start.tenure {
                    continue;
                }
                slot.hold.mark_void_unconfirmed();
            }
            node.renewals.ask(self.name.slot, Want::Clear, start.tenure);
            let waited = timeout_at(deadline, changed).await;
            waited.map_err(|_| WriteRefused::Parked("the slot's tenure could not be renewed in time"))?;
        }
    }

    /// W4: the statement was fenced, so a newer tenure is in the database.
    async fn learn_newer_tenure(&self, fenced: Tenure, deadline: Instant) -> Result<(), WriteRefused> {
        let node = &self.node;
        while node.slots.lock(self.name.slot).hold.tenure() <= fenced {
            match node.refresh_slots().await {
                Ok(Refreshed::Current) => {}
                Ok(Refreshed::Fenced) => return Err(WriteRefused::NotOwner(node.status.epoch())),
                Err(error) if Instant::now() >= deadline => return Err(WriteRefused::Origin(error)),
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
        }
        if Instant::now() >= deadline {
            return Err(WriteRefused::Parked("the slot's tenure changed too often"));
        }
        Ok(())
    }

    /// W5: one critical section; gives back what to redeem.
    fn finish(&mut self, kind: &WriteKind, answer: &WriteAnswer, prepared: Prepared) -> Option<(L2Lease, Content)> {
        let content = committed_content(kind, answer);
        let node = Arc::clone(&self.node);
        let mut stripe = node.keys.lock(&self.name);
        let mut slot = node.slots.lock(self.name.slot);
        let reign = prepared.start.reign;
        if let Some(content) = &content
            && may_store_written(reign, slot.hold.reign())
        {
            node.l1.put(self.name.clone(), reign, content.clone(), None);
            // Not under another reign: this write may be older than what the stream's reign began with.
            node.hand_on(&slot, &self.name, reign);
        }
        stripe.release_write(&self.name);
        slot.registered_writes -= 1;
        self.stage = WriteStage::Released;
        slot.publish();
        Some((prepared.lease?, content?))
    }

    fn count(&self, answer: &Result<WriteAnswer, WriteRefused>) {
        let outcome = match answer {
            Ok(WriteAnswer::Created(_) | WriteAnswer::Replaced(_) | WriteAnswer::Deleted(_)) => WriteOutcome::committed,
            Ok(WriteAnswer::PreconditionFailed(_)) => WriteOutcome::precondition_failed,
            Ok(WriteAnswer::Absent) => WriteOutcome::absent,
            Ok(WriteAnswer::Fenced) => WriteOutcome::not_executed,
            Err(WriteRefused::Unknown) => WriteOutcome::unknown,
            Err(_) => WriteOutcome::not_executed,
        };
        self.node.metrics.writes.get_or_create(&WriteLabels { outcome }).inc();
    }
}

/// What the entry is after the write; `None` when the answer does not tell.
fn committed_content(kind: &WriteKind, answer: &WriteAnswer) -> Option<Content> {
    match (kind, answer) {
        (
            WriteKind::Put { value, content_type, cache_control },
            WriteAnswer::Created(version) | WriteAnswer::Replaced(version),
        ) => Some(Some(Arc::new(StoredEntry {
            value: value.clone(),
            content_type: content_type.clone(),
            cache_control: cache_control.clone(),
            version: *version,
        }))),
        (WriteKind::Delete, WriteAnswer::Deleted(_) | WriteAnswer::Absent) => Some(None),
        _ => None,
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut slot = self.node.slots.lock(self.name.slot);
        match self.stage.key_at_end(slot.hold.tenure()) {
            KeyAtEnd::Released => {}
            KeyAtEnd::Release => {
                drop(slot);
                self.node.release_key(&self.name);
            }
            KeyAtEnd::Settle(tenure) => {
                slot.unsettled.push((self.name.clone(), tenure));
                drop(slot);
                self.node.renewals.ask(self.name.slot, Want::Keep, tenure);
            }
        }
    }
}

#[cfg(test)]
impl Node {
    /// A registered write that a test drives by hand.
    pub(crate) fn register_for_test(self: &Arc<Self>, name: &EntryName) -> RegisteredByHand {
        match self.try_register(name) {
            Ok(Attempt::Registered(registered)) => RegisteredByHand(registered),
            _ => panic!("the key is not free"),
        }
    }
}

#[cfg(test)]
pub(crate) struct RegisteredByHand(Registered);

#[cfg(test)]
impl RegisteredByHand {
    /// W2.
    pub(crate) async fn prepare_for_test(self) -> Result<(), WriteRefused> {
        self.0.prepare(Instant::now() + limits::WRITE_PREPARE).await.map(|_| ())
    }

    /// As if the statement had been handed to the driver.
    pub(crate) fn sent_for_test(mut self) -> Self {
        let tenure = self.0.node.slots.lock(self.0.name.slot).hold.tenure();
        self.0.stage = WriteStage::Sent(tenure);
        self
    }
}
