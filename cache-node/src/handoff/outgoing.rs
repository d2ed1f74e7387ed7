//! One stream to a receiver as reads and writes see it: a bounded queue that they append to inside the key's critical
//! section and never wait for.
//!
//! What cannot be kept up with is left out (a value) or ends the stream (an invalidation): the data plane goes first.

mod item;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use placement::slot_hold::Reign;
use placement::{ChangeId, NodeId, PinnedUser, Slot};
use tokio::sync::Notify;
use wire::control::{CopyState, CopyStream, SealedTenure};

use crate::entry_name::EntryName;
use crate::l1::Held;
use crate::limits;
pub(super) use item::Item;

/// A stream, from its opening to its end.
pub(crate) struct Outgoing {
    pub(super) id: String,
    pub(super) change: ChangeId,
    pub(super) receiver: NodeId,
    /// `host:port` to dial.
    pub(super) address: String,
    /// Its slots, each with the reign it was opened under (C3).
    pub(super) slots: HashMap<Slot, Reign>,
    /// Only this user's entries go, out of the one slot to one of its own.
    pub(super) leaves: Option<PinnedUser>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Item>,
    /// Bytes of queued copies, and of queued writes.
    queued_copies: usize,
    queued_writes: usize,
    /// Bytes that may be sent; a frame may be begun while it is above 0.
    credit: i64,
    /// What has been sent and not been taken in.
    in_flight: VecDeque<Option<u64>>,
    progress: Progress,
    end: End,
    broken: Option<String>,
}

#[derive(Default)]
struct Progress {
    entries_total: u64,
    bytes_total: u64,
    entries_copied: u64,
    bytes_copied: u64,
    /// Everything held at the beginning has been queued or was gone.
    all_queued: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    /// Its last frame is queued; nothing is appended any more.
    Appended,
    /// The receiver has everything.
    Complete,
    /// Complete, and the slots are gone: the connection may be closed.
    Over,
}

/// What the sender does next.
pub(super) enum Next {
    Send(Vec<Item>),
    Wait,
    Over,
}

/// The stream is broken: nothing of it will ever be served.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Broken(pub(super) String);

impl Outgoing {
    pub(super) fn new(
        id: String,
        change: ChangeId,
        receiver: NodeId,
        address: String,
        slots: HashMap<Slot, Reign>,
        leaves: Option<PinnedUser>,
    ) -> Self {
        Self { id, change, receiver, address, slots, leaves, state: Mutex::default(), changed: Notify::new() }
    }

    /// Whether entries of the user go.
    pub(super) fn carries(&self, user: &str) -> bool {
        self.leaves.as_ref().is_none_or(|leaving| leaving.user.as_str() == user)
    }

    /// The slot that the receiver gains in the place of one of the stream's.
    pub(super) fn gained_slot(&self, slot: Slot) -> Slot {
        self.leaves.as_ref().map_or(slot, |leaving| leaving.slot)
    }

    /// W1: a write of the name begins.
    pub(crate) fn invalidate(&self, name: &EntryName) {
        if !self.carries(name.user.as_str()) {
            return;
        }
        let mut state = self.lock();
        state.append(Item::Invalidate(name.clone()));
        if state.queued_writes > limits::HANDOFF_QUEUE_MAX {
            state.break_off("the receiver does not keep up with the writes");
        }
        self.unlock(state);
    }

    /// W5, G5: the entry as it is now. Left out when the queue is long: the invalidation before it is enough.
    pub(super) fn value(&self, entry: Arc<Held>) {
        let mut state = self.lock();
        let item = Item::Value(entry);
        if state.queued_writes + item.bytes() <= limits::HANDOFF_VALUES_QUEUE {
            state.append(item);
            self.unlock(state);
        }
    }

    /// An entry held at the beginning, as it is now; `None`: it is gone. Nobody is told before [`Outgoing::copies_appended`]:
    /// a sender that is woken for each of them sends each by itself.
    pub(super) fn copy(&self, entry: Option<Arc<Held>>, bytes: u64) {
        let mut state = self.lock();
        match entry {
            Some(entry) => state.append(Item::Copy(entry, bytes)),
            None => state.progress.copied(bytes),
        }
    }

    pub(super) fn copies_appended(&self) {
        self.changed.notify_waiters();
    }

    /// How much there is to copy.
    pub(super) fn begin_copy(&self, entries: u64, bytes: u64) {
        let mut state = self.lock();
        (state.progress.entries_total, state.progress.bytes_total) = (entries, bytes);
    }

    /// Everything held at the beginning has been appended.
    pub(super) fn copy_queued(&self) {
        self.lock().progress.all_queued = true;
    }

    /// Returns when a copy may be appended; `false`: no more, the stream has ended or is broken.
    pub(super) async fn room(&self) -> bool {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let state = self.lock();
                if !state.is_open() {
                    return false;
                }
                if state.queued_copies < limits::HANDOFF_COPY_QUEUE {
                    return true;
                }
            }
            changed.await;
        }
    }

    /// Returns when no copy can be appended any more.
    pub(super) async fn ended(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if !self.lock().is_open() {
                return;
            }
            changed.await;
        }
    }

    /// C5: the slots take no writes any more. Appended once, always last.
    pub(super) fn append_end(&self, slots: Vec<SealedTenure>) {
        let mut state = self.lock();
        if state.end == End::Open {
            state.append(Item::End(slots));
            state.end = End::Appended;
        }
        self.unlock(state);
    }

    /// Returns when the receiver has everything (`true`) or the stream is broken.
    pub(super) async fn complete(&self) -> bool {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let state = self.lock();
                match state.end {
                    End::Complete | End::Over => return true,
                    End::Open | End::Appended if state.broken.is_some() => return false,
                    End::Open | End::Appended => {}
                }
            }
            changed.await;
        }
    }

    /// The slots are another's, or ours by a new gain (C3): a stream that is not complete is dead.
    pub(crate) fn end_of_reign(&self) {
        let mut state = self.lock();
        match state.end {
            End::Complete | End::Over => state.end = End::Over,
            End::Open | End::Appended => state.break_off("the old owner lost the slots or gained them anew"),
        }
        self.unlock(state);
    }

    /// The change is given up, complete or not: the connection may be closed.
    pub(super) fn abort(&self) {
        let mut state = self.lock();
        state.break_off("the ring change was aborted");
        if state.end == End::Complete {
            state.end = End::Over;
        }
        self.unlock(state);
    }

    /// Nothing of the stream will ever be served. The first reason stays.
    pub(crate) fn break_off(&self, reason: &str) {
        let mut state = self.lock();
        state.break_off(reason);
        self.unlock(state);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.lock().broken.is_some()
    }

    /// Whether nothing is left to do for it: its slots are the receiver's, or nobody's concern any more.
    pub(super) fn is_over(&self) -> bool {
        self.lock().end == End::Over
    }

    /// How far it is.
    pub(super) fn report(&self) -> CopyStream {
        let state = self.lock();
        let progress = &state.progress;
        let all_there = progress.all_queued && progress.entries_copied >= progress.entries_total;
        CopyStream {
            stream: self.id.clone(),
            receiver: self.receiver.clone(),
            state: match &state.broken {
                Some(reason) => CopyState::Broken(reason.clone()),
                None if all_there || state.end != End::Open => CopyState::CaughtUp,
                None => CopyState::Copying,
            },
            entries_total: progress.entries_total,
            entries_copied: progress.entries_copied,
            bytes_total: progress.bytes_total,
            bytes_copied: progress.bytes_copied,
        }
    }

    /// What the sender does next.
    pub(super) fn next(&self) -> Result<Next, Broken> {
        let mut state = self.lock();
        if let Some(reason) = &state.broken {
            return Err(Broken(reason.clone()));
        }
        if state.end == End::Over {
            return Ok(Next::Over);
        }
        let (mut items, mut bytes) = (Vec::new(), 0);
        let allowed = usize::try_from(state.credit).unwrap_or(0).min(limits::HANDOFF_BATCH);
        while bytes < allowed
            && let Some(item) = state.queue.pop_front()
        {
            bytes += item.bytes();
            *state.queued(&item) -= item.bytes();
            items.push(item);
        }
        if items.is_empty() {
            return Ok(Next::Wait);
        }
        self.unlock(state);
        Ok(Next::Send(items))
    }

    /// Whether the receiver lets us send, so that a beat may go.
    pub(super) fn has_credit(&self) -> bool {
        self.lock().credit > 0
    }

    /// Frames of so many bytes together are about to be handed to the connection: one for each item, or one without.
    pub(super) fn sent<'a>(&self, items: impl IntoIterator<Item = Option<&'a Item>>, bytes: usize) {
        let mut state = self.lock();
        state.credit -= bytes as i64;
        state.in_flight.extend(items.into_iter().map(|item| item.and_then(Item::copied)));
    }

    /// The receiver has taken frames in and lets us send more. `false`: more than were sent.
    pub(super) fn credited(&self, frames: u32, bytes: u32) -> bool {
        let mut state = self.lock();
        for _ in 0..frames {
            match state.in_flight.pop_front() {
                Some(Some(copied)) => state.progress.copied(copied),
                Some(None) => {}
                None => return false,
            }
        }
        state.credit += i64::from(bytes);
        self.unlock(state);
        true
    }

    /// The receiver says that it has everything. `false`: it cannot, for the end has not been sent.
    pub(super) fn completed(&self) -> bool {
        let mut state = self.lock();
        let ended = state.end == End::Appended && state.queue.is_empty();
        if ended && state.broken.is_none() {
            state.end = End::Complete;
        }
        self.unlock(state);
        ended
    }

    /// Wakes at the next change; `enable` it before looking.
    pub(super) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unlock(&self, state: MutexGuard<'_, State>) {
        drop(state);
        self.changed.notify_waiters();
    }
}

impl State {
    fn is_open(&self) -> bool {
        self.broken.is_none() && self.end == End::Open
    }

    /// Nothing is appended to a stream that has ended or is broken.
    fn append(&mut self, item: Item) {
        if self.is_open() {
            *self.queued(&item) += item.bytes();
            self.queue.push_back(item);
        }
    }

    fn queued(&mut self, item: &Item) -> &mut usize {
        if matches!(item, Item::Copy(..)) { &mut self.queued_copies } else { &mut self.queued_writes }
    }

    fn break_off(&mut self, reason: &str) {
        // What is complete stays so: the receiver's copy no longer depends on the stream.
        if self.broken.is_none() && !matches!(self.end, End::Complete | End::Over) {
            self.broken = Some(reason.to_owned());
            self.queue = VecDeque::new();
            (self.queued_copies, self.queued_writes) = (0, 0);
        }
    }
}

impl Progress {
    fn copied(&mut self, bytes: u64) {
        self.entries_copied += 1;
        self.bytes_copied += bytes;
    }
}

#[cfg(test)]
mod tests;
