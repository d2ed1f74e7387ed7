//! Per key: the guard, the writer, and the load in progress (protocol S8). The critical sections of reads and writes.
//!
//! Keys fall into stripes; the keys of a stripe share a guard, which only costs a cached value now and then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use placement::freshness::{Guard, LoadStart};
use tokio::sync::Notify;

use crate::entry_name::EntryName;
use crate::limits;
use crate::read_path::Outcome;

const STRIPES: usize = 1 << 12;

/// All keys of one node.
pub(crate) struct KeyGuards {
    stripes: Box<[Mutex<Stripe>]>,
}

/// One critical section.
#[derive(Default)]
pub(crate) struct Stripe {
    guard: Guard,
    /// Only keys with a writer, a waiting writer or a load.
    keys: HashMap<EntryName, KeyState>,
}

#[derive(Default)]
struct KeyState {
    writer_active: bool,
    writers_waiting: usize,
    /// Wakes one waiting writer per release, in order. There from the first that has to wait on.
    writer_gone: Option<Arc<Notify>>,
    load: Option<Load>,
}

impl KeyState {
    fn wake_writer(&self) {
        if let Some(writer_gone) = &self.writer_gone {
            writer_gone.notify_one();
        }
    }
}

/// A load in progress.
struct Load {
    start: LoadStart,
    outcome: Arc<Outcome>,
}

impl KeyGuards {
    pub(crate) fn new() -> Self {
        Self { stripes: (0..STRIPES).map(|_| Mutex::default()).collect() }
    }

    /// Enters the key's critical section. Taken before a slot's, never after.
    pub(crate) fn lock(&self, name: &EntryName) -> MutexGuard<'_, Stripe> {
        // The upper bits: the lower ones choose the place inside the hash maps.
        let stripe = (name.hash_value() >> 40) as usize % STRIPES;
        self.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stripe {
    pub(crate) fn guard(&self) -> Guard {
        self.guard
    }

    /// As a write does: no load in progress may store what it finds.
    pub(crate) fn raise_guard(&mut self) {
        self.guard.raise();
    }

    pub(crate) fn writer_active(&self, name: &EntryName) -> bool {
        self.keys.get(name).is_some_and(|key| key.writer_active)
    }

    /// The start of the load in progress.
    pub(crate) fn load_start(&self, name: &EntryName) -> Option<LoadStart> {
        self.keys.get(name).and_then(|key| key.load.as_ref()).map(|load| load.start)
    }

    /// Where the end of the load in progress will be told.
    pub(crate) fn join_load(&self, name: &EntryName) -> Option<Arc<Outcome>> {
        self.keys.get(name).and_then(|key| key.load.as_ref()).map(|load| Arc::clone(&load.outcome))
    }

    /// Registers a load; one that began under another guard or reign is no longer joined by anyone.
    pub(crate) fn begin_load(&mut self, name: &EntryName, start: LoadStart) -> Arc<Outcome> {
        let outcome = Arc::<Outcome>::default();
        self.keys.entry(name.clone()).or_default().load = Some(Load { start, outcome: Arc::clone(&outcome) });
        outcome
    }

    /// Forgets the load of that outcome, unless a younger one has taken its place.
    pub(crate) fn end_load(&mut self, name: &EntryName, outcome: &Arc<Outcome>) {
        if let Some(key) = self.keys.get_mut(name)
            && key.load.as_ref().is_some_and(|load| Arc::ptr_eq(outcome, &load.outcome))
        {
            key.load = None;
            self.tidy(name);
        }
    }

    /// W1: takes the key, which has no writer, for a write.
    pub(crate) fn take_for_write(&mut self, name: &EntryName) {
        self.keys.entry(name.clone()).or_default().writer_active = true;
        self.guard.raise();
    }

    /// Joins the queue behind the key's writer: wait for the notification, then come again. `None`: the queue is full.
    pub(crate) fn wait_for_writer(&mut self, name: &EntryName) -> Option<Arc<Notify>> {
        let key = self.keys.entry(name.clone()).or_default();
        if key.writers_waiting >= limits::WRITERS_WAITING_MAX {
            return None;
        }
        key.writers_waiting += 1;
        Some(Arc::clone(key.writer_gone.get_or_insert_default()))
    }

    /// A writer that waited no longer does, whatever came of it.
    pub(crate) fn stop_waiting(&mut self, name: &EntryName) {
        if let Some(key) = self.keys.get_mut(name) {
            key.writers_waiting = key.writers_waiting.saturating_sub(1);
            self.tidy(name);
        }
    }

    /// The end of a write: raises the guard and lets the next writer come.
    pub(crate) fn release_write(&mut self, name: &EntryName) {
        self.guard.raise();
        if let Some(key) = self.keys.get_mut(name) {
            key.writer_active = false;
            key.wake_writer();
            self.tidy(name);
        }
    }

    /// Passes a wake-up on that a writer got but cannot use.
    pub(crate) fn wake_next_writer(&self, name: &EntryName) {
        if let Some(key) = self.keys.get(name)
            && !key.writer_active
        {
            key.wake_writer();
        }
    }

    fn tidy(&mut self, name: &EntryName) {
        if self.keys.get(name).is_some_and(|key| !key.writer_active && key.writers_waiting == 0 && key.load.is_none()) {
            self.keys.remove(name);
        }
    }
}
