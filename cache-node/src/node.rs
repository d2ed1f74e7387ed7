//! The node as a whole: its parts, and the table reads that keep its slots true.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use http::HeaderValue;
use origin::{Origin, OriginError, SlotRow};
use placement::freshness::{LoadStart, View};
use placement::handoff_offer::FlippedSlot;
use placement::slot_hold::Applied;
use placement::{Epoch, Incarnation, Slot};
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::TaskTracker;
use wire::line::SharedHeaders;

use crate::accounting::Accounting;
use crate::audit::Auditor;
use crate::clock::Moment;
use crate::config::Config;
use crate::entry_name::EntryName;
use crate::handoff::Handoff;
use crate::key_guard::{KeyGuards, Stripe};
use crate::l1::L1;
use crate::l2::L2;
use crate::lease::Lease;
use crate::limits;
use crate::line::Lines;
use crate::metrics::Metrics;
use crate::origin_reads::OriginReads;
use crate::origin_writes::OriginWrites;
use crate::renewals::Renewals;
use crate::slots::{Era, LockedSlot, Slots};

/// Everything a request or a background task of one node needs. Shared; nothing is global.
pub(crate) struct Node {
    pub(crate) config: Config,
    /// The node's name as `X-Cache-Node` says it on every answer.
    pub(crate) name_header: HeaderValue,
    pub(crate) origin: Origin,
    pub(crate) origin_reads: OriginReads,
    pub(crate) origin_writes: OriginWrites,
    pub(crate) slots: Slots,
    pub(crate) keys: KeyGuards,
    pub(crate) l1: L1,
    pub(crate) l2: L2,
    pub(crate) lease: Lease,
    pub(crate) renewals: Renewals,
    pub(crate) handoff: Handoff,
    pub(crate) lines: Lines,
    pub(crate) auditor: Auditor,
    pub(crate) accounting: Accounting,
    pub(crate) metrics: Arc<Metrics>,
    /// Loads and their round trips, registered writes and audits: a stop waits for them (protocol X4).
    pub(crate) work: TaskTracker,
    pub(crate) in_progress: Semaphore,
    /// Wakes the heartbeat when a statement said that this incarnation is no longer the node's.
    pub(crate) fenced: Notify,
    pub(crate) status: Status,
    /// Table reads begun so far: whoever asks before one begins may take its outcome.
    refreshes: AtomicU64,
    /// `None` while one is under way, and after one that was dropped half-way.
    last_refresh: tokio::sync::Mutex<Option<Result<Refreshed, OriginError>>>,
}

/// What the health routes tell.
#[derive(Default)]
pub(crate) struct Status {
    incarnation: AtomicI64,
    epoch: ArcSwap<SeenEpoch>,
    pub(crate) claimed: AtomicBool,
    pub(crate) draining: AtomicBool,
    pub(crate) origin_reached: AtomicBool,
}

/// A ring epoch, and what answers say of it.
#[derive(Default)]
pub(crate) struct SeenEpoch {
    pub(crate) epoch: Epoch,
    /// The lines that all answers from L1 under this epoch have, put together for the first.
    pub(crate) hit_lines: OnceLock<Box<[u8]>>,
    /// The same for answers on lines.
    pub(crate) hit_headers: OnceLock<SharedHeaders>,
}

impl Status {
    /// The current incarnation; 0 before the first claim.
    pub(crate) fn incarnation(&self) -> Incarnation {
        Incarnation(self.incarnation.load(Ordering::Acquire))
    }

    pub(crate) fn set_incarnation(&self, incarnation: Incarnation) {
        self.incarnation.store(incarnation.0, Ordering::Release);
    }

    /// The ring epoch seen last.
    pub(crate) fn epoch(&self) -> Epoch {
        self.seen().epoch
    }

    pub(crate) fn seen(&self) -> Guard<Arc<SeenEpoch>> {
        self.epoch.load()
    }

    pub(crate) fn set_epoch(&self, epoch: Epoch) {
        if self.epoch() < epoch {
            let newer = Arc::new(SeenEpoch { epoch, ..SeenEpoch::default() });
            self.epoch.rcu(|seen| Arc::clone(if seen.epoch < epoch { &newer } else { seen }));
        }
    }
}

/// What a table read came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refreshed {
    /// The slots are as the database had them, or newer; or the process was fenced since it asked, and no row was applied (T2).
    Current,
    /// This incarnation is no longer the node's.
    Fenced,
}

impl Node {
    pub(crate) fn new(config: Config, origin: Origin) -> Self {
        let metrics = Arc::new(Metrics::new());
        let work = TaskTracker::new();
        let name = HeaderValue::try_from(config.node_id.as_str());
        Self {
            name_header: name.expect("node ids are letters, digits, '.', '_' and '-'"),
            slots: Slots::new(config.node_id.clone()),
            keys: KeyGuards::new(),
            l1: L1::new(config.l1_bytes, config.l1_ttl, config.negative_ttl),
            l2: L2::new(&config.redis_urls, config.l2_ttl, config.negative_ttl, &metrics, &work),
            origin_reads: OriginReads::new(origin.clone(), &metrics, work.clone()),
            origin_writes: OriginWrites::new(origin.clone(), work.clone()),
            lease: Lease::default(),
            renewals: Renewals::default(),
            handoff: Handoff::default(),
            lines: Lines::default(),
            auditor: Auditor::new(config.audit_every, rand::random()),
            accounting: Accounting::new(Moment::now()),
            metrics,
            work,
            in_progress: Semaphore::new(limits::REQUESTS_IN_PROGRESS_MAX),
            fenced: Notify::new(),
            status: Status::default(),
            refreshes: AtomicU64::new(0),
            last_refresh: tokio::sync::Mutex::default(),
            origin,
            config,
        }
    }

    /// Table read (protocol T1). Callers that wait for one in progress share the next: after a flip every write of the
    /// moved slots is fenced at the same time.
    pub(crate) async fn refresh_slots(&self) -> Result<Refreshed, OriginError> {
        let begun = self.refreshes.load(Ordering::Acquire);
        let mut last = self.last_refresh.lock().await;
        let begun_since = self.refreshes.load(Ordering::Acquire) != begun;
        if let Some(outcome) = last.as_ref().filter(|_| begun_since) {
            return outcome.clone();
        }
        self.refreshes.fetch_add(1, Ordering::AcqRel);
        *last = None;
        let outcome = self.read_table().await;
        *last = Some(outcome.clone());
        outcome
    }

    #[cfg(test)]
    pub(crate) fn refreshes(&self) -> u64 {
        self.refreshes.load(Ordering::Acquire)
    }

    async fn read_table(&self) -> Result<Refreshed, OriginError> {
        let (era, incarnation) = (self.slots.era(), self.status.incarnation());
        match self.origin.read_slots(&self.config.node_id, incarnation).await? {
            Some(rows) => {
                let flipped = self.flipped_offers(&rows).await;
                self.apply_rows_with(&rows, era, &flipped);
                Ok(Refreshed::Current)
            }
            None => {
                // Before the first claim there is nothing to be fenced from.
                if incarnation != Incarnation(0) {
                    self.fenced.notify_one();
                }
                Ok(Refreshed::Fenced)
            }
        }
    }

    /// Applies rows and releases the keys of unknown writes that they settle (protocol T2–T6, W6). `asked_in` was noted before
    /// they were asked for.
    pub(crate) fn apply_rows(&self, rows: &[SlotRow], asked_in: Era) {
        self.apply_rows_with(rows, asked_in, &HashMap::new());
    }

    /// [`Node::apply_rows`], with what the journal says of slots that are offered to us (C8).
    fn apply_rows_with(&self, rows: &[SlotRow], asked_in: Era, flipped: &HashMap<Slot, FlippedSlot>) {
        let (mut gained, mut lost, mut adopted) = (0u32, 0u32, 0u32);
        for row in rows {
            let applied = self.slots.apply(row, asked_in, flipped.get(&row.slot));
            adopted += u32::from(applied.adopted);
            match applied.applied {
                Applied::NewReign => gained += 1,
                Applied::Lost => lost += 1,
                Applied::Stale | Applied::SameReign | Applied::NotOurs => {}
            }
            for name in applied.settled {
                self.release_key(&name);
            }
        }
        if gained + lost > 0 {
            self.metrics.adopted_slots.inc_by(u64::from(adopted));
            tracing::info!(gained, adopted, lost, owned = self.slots.owned(), "slots changed");
        }
    }

    /// The end of a write's critical section: the key is free for the next, and the slot's drain sees it.
    pub(crate) fn release_key(&self, name: &EntryName) {
        let mut stripe = self.keys.lock(name);
        let mut slot = self.slots.lock(name.slot);
        stripe.release_write(name);
        slot.registered_writes -= 1;
        slot.publish();
    }

    /// What G1, G4 and G5 decide on; the caller is inside both critical sections. The clock is read here (S9).
    pub(crate) fn view(&self, name: &EntryName, stripe: &Stripe, slot: &LockedSlot<'_>) -> View {
        View {
            mine: slot.hold.serves(name.user.as_str()),
            lease_valid: self.lease.is_valid(Moment::now()),
            sealed: slot.hold.sealed().is_some(),
            writer_active: stripe.writer_active(name),
            now: LoadStart { guard: stripe.guard(), reign: slot.hold.reign() },
        }
    }
}
