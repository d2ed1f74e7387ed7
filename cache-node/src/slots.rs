//! The node's slots: what it holds of each, and who waits for a change of it.
//!
//! Not here: the rules (`placement::slot_hold`). One small mutex per slot; an atomic word per slot serves the hit path.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use origin::SlotRow;
use placement::handoff_offer::{FlippedSlot, Offer};
use placement::slot_hold::{Applied, HoldRow, Reign, SlotHold};
use placement::write_steps::is_settled;
use placement::{ChangeId, NodeId, SLOTS_MAX, Slot, Tenure, UserId};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::clock::Moment;
use crate::entry_name::EntryName;
use crate::handoff::Outgoing;
use crate::old_bugs::{OldBug, is_back};

/// All slots of one node.
pub(crate) struct Slots {
    me: NodeId,
    cells: Box<[SlotCell]>,
    /// Reign in the upper 62 bits, "has pinned users" in the next, "sealed" in the lowest: read without a lock by the hit path. Apart from the cells, so that
    /// the words of all slots stay in a core's cache.
    words: Box<[AtomicU64]>,
    /// Only rises while the process lives (I7).
    last_reign: AtomicU64,
    /// How often everything was forgotten.
    fences: AtomicU64,
}

/// The time between two fences of this process (L2). Rows asked for in an earlier one may be another process's by now, and
/// the slot's newer row need not have been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Era(u64);

struct SlotCell {
    state: Mutex<SlotState>,
    changed: Notify,
}

/// What a slot's mutex protects.
#[derive(Default)]
pub(crate) struct SlotState {
    pub(crate) hold: SlotHold,
    /// Writes between registration and release, unknown ones included: a drain waits for them (C5).
    pub(crate) registered_writes: u32,
    /// A RENEW of the slot is on its way: a drain waits for it too, for it changes the tenure (R3, C5).
    pub(crate) renewing: bool,
    /// Writes of unknown outcome with the tenure their statement carried (W6).
    pub(crate) unsettled: Vec<(EntryName, Tenure)>,
    /// Since when the slot is sealed.
    pub(crate) sealed_at: Option<Moment>,
    /// The stream that hands the slot's entries to another node; it belongs to the reign it was opened under (C3).
    pub(crate) stream: Option<Arc<Outgoing>>,
    /// What a stream of another node has brought of the slot (C2).
    pub(crate) offer: Option<Offer>,
}

/// What applying a row did.
pub(crate) struct RowApplied {
    pub(crate) applied: Applied,
    /// Whether the slot starts with what a stream has brought.
    pub(crate) adopted: bool,
    /// Writes whose outcome was unknown and that cannot commit any more.
    pub(crate) settled: Vec<EntryName>,
}

/// What the hit path sees of a slot, in one atomic read.
#[derive(Clone, Copy)]
pub(crate) struct SlotWord(u64);

impl SlotWord {
    /// The reign, unless there is none or the slot is sealed.
    pub(crate) fn servable(self) -> Option<Reign> {
        let sealed = self.is_sealed() && !is_back(OldBug::OwnerSwitchBeforeAcknowledgement);
        (self.reign() != Reign::NONE && !sealed).then(|| self.reign())
    }

    /// Whether any user whose home the slot is has one of its own, in the very row that the reign and the seal are of.
    pub(crate) fn has_pinned(self) -> bool {
        self.0 & 2 != 0
    }

    fn is_sealed(self) -> bool {
        self.0 & 1 != 0
    }

    fn reign(self) -> Reign {
        Reign::new(self.0 >> 2)
    }

    fn of(hold: &SlotHold) -> u64 {
        hold.reign().number() << 2 | u64::from(hold.has_pinned()) << 1 | u64::from(hold.sealed().is_some())
    }
}

/// A locked slot. Publishes the word for the hit path and wakes those who wait when it goes.
pub(crate) struct LockedSlot<'a> {
    cell: &'a SlotCell,
    word: &'a AtomicU64,
    state: MutexGuard<'a, SlotState>,
}

impl std::ops::Deref for LockedSlot<'_> {
    type Target = SlotState;
    fn deref(&self) -> &SlotState {
        &self.state
    }
}

impl std::ops::DerefMut for LockedSlot<'_> {
    fn deref_mut(&mut self) -> &mut SlotState {
        &mut self.state
    }
}

impl SlotState {
    /// Nothing that began before the seal can change entries or tenure any more (C5).
    pub(crate) fn is_drained(&self) -> bool {
        self.registered_writes == 0 && !self.renewing
    }
}

impl LockedSlot<'_> {
    /// Leaves the critical section after a change that others may wait for.
    pub(crate) fn publish(self) {
        self.word.store(SlotWord::of(&self.state.hold), Ordering::Release);
        drop(self.state);
        self.cell.changed.notify_waiters();
    }
}

impl Slots {
    pub(crate) fn new(me: NodeId) -> Self {
        let cell = || SlotCell { state: Mutex::default(), changed: Notify::new() };
        Self {
            me,
            cells: (0..SLOTS_MAX).map(|_| cell()).collect(),
            words: (0..SLOTS_MAX).map(|_| AtomicU64::new(0)).collect(),
            last_reign: AtomicU64::new(0),
            fences: AtomicU64::new(0),
        }
    }

    /// What the hit path needs.
    pub(crate) fn word(&self, slot: Slot) -> SlotWord {
        SlotWord(self.words[slot.index()].load(Ordering::Acquire))
    }

    /// The slot that a user is served under, as far as the rows held say: its own, or its home.
    pub(crate) fn of_user(&self, user: &str) -> Slot {
        self.served_under(Slot::of_user_text(user), user)
    }

    /// The same where the home is known.
    pub(crate) fn served_under(&self, home: Slot, user: &str) -> Slot {
        if !self.word(home).has_pinned() {
            return home;
        }
        self.lock(home).hold.pinned_slot(user).unwrap_or(home)
    }

    /// The user whose own the slot is; `None`: it is nobody's, as far as the rows held say.
    pub(crate) fn user_of(&self, pinned: Slot) -> Option<UserId> {
        let homes = Slot::all().filter(|&home| self.word(home).has_pinned());
        homes.filter_map(|home| self.lock(home).hold.user_of(pinned)).next()
    }

    /// Enters the slot's critical section. Taken after a key's, never before.
    pub(crate) fn lock(&self, slot: Slot) -> LockedSlot<'_> {
        let (cell, word) = (&self.cells[slot.index()], &self.words[slot.index()]);
        LockedSlot { cell, word, state: cell.state.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Wakes at the next change of the slot; `enable` it before looking, or a change may be missed.
    pub(crate) fn changed(&self, slot: Slot) -> Notified<'_> {
        self.cells[slot.index()].changed.notified()
    }

    /// The present era, to be noted before rows are asked for.
    pub(crate) fn era(&self) -> Era {
        Era(self.fences.load(Ordering::Acquire))
    }

    /// Applies one row (T2–T6, C8) unless the process was fenced since it was asked for; returns what it did and the writes it settles, which the caller must release.
    /// `flipped` is what the journal says of the slot, where there is an offer of it.
    pub(crate) fn apply(&self, row: &SlotRow, asked_in: Era, flipped: Option<&FlippedSlot>) -> RowApplied {
        let hold_row = HoldRow {
            mine: row.owner == self.me,
            tenure: row.tenure,
            gained: row.gained,
            l2_space: row.l2_space.as_deref().map(Arc::from),
            pinned: row.pinned.clone(),
        };
        let mut slot = self.lock(row.slot);
        if self.era() != asked_in {
            return RowApplied { applied: Applied::Stale, adopted: false, settled: Vec::new() };
        }
        let offered = slot.offer.as_ref().zip(flipped).and_then(|(offer, flip)| offer.adopted(flip, row.tenure));
        let applied = slot.hold.apply(hold_row, || offered.unwrap_or_else(|| self.fresh_reign()));
        match applied {
            Applied::Stale => return RowApplied { applied, adopted: false, settled: Vec::new() },
            Applied::SameReign | Applied::NotOurs => {}
            Applied::NewReign | Applied::Lost => {
                if let Some(stream) = slot.stream.take() {
                    stream.end_of_reign();
                }
            }
        }
        // Adopted or not, R' is forgotten once the slot is ours.
        let adopted = applied == Applied::NewReign && offered.is_some();
        if row.owner == self.me {
            slot.offer = None;
        }
        if slot.hold.sealed().is_none() {
            slot.sealed_at = None;
        }
        let tenure = slot.hold.tenure();
        let settled = slot.unsettled.extract_if(.., |(_, sent_under)| is_settled(*sent_under, tenure));
        let settled = settled.map(|(name, _)| name).collect();
        slot.publish();
        RowApplied { applied, adopted, settled }
    }

    /// Fenced: nothing is ours until newer rows say so (L2).
    pub(crate) fn forget_all(&self) {
        // Before the first slot: a row that comes after its slot was forgotten must see it.
        self.fences.fetch_add(1, Ordering::AcqRel);
        for slot in Slot::every() {
            let mut state = self.lock(slot);
            state.hold.forget();
            state.sealed_at = None;
            state.offer = None;
            if let Some(stream) = state.stream.take() {
                stream.break_off("the old owner is fenced");
            }
            state.publish();
        }
    }

    /// Slots for which `wanted` holds, in order.
    pub(crate) fn filter(&self, wanted: impl Fn(Slot, &SlotState) -> bool) -> Vec<Slot> {
        Slot::every().filter(|&slot| wanted(slot, &self.lock(slot))).collect()
    }

    /// How many slots are ours.
    pub(crate) fn owned(&self) -> usize {
        Slot::every().filter(|&slot| self.word(slot).reign() != Reign::NONE).count()
    }

    /// Changes that slots of ours are sealed for, each with the earliest seal.
    pub(crate) fn seals(&self) -> Vec<(ChangeId, Moment)> {
        let mut seals: Vec<(ChangeId, Moment)> = Vec::new();
        for slot in Slot::every().filter(|&slot| self.word(slot).is_sealed()) {
            let state = self.lock(slot);
            let (Some(change), Some(at)) = (state.hold.sealed(), state.sealed_at) else { continue };
            match seals.iter_mut().find(|(known, _)| *known == change) {
                Some((_, earliest)) => *earliest = at.min(*earliest),
                None => seals.push((change, at)),
            }
        }
        seals
    }

    /// A number never used before in this process (I7).
    pub(crate) fn fresh_reign(&self) -> Reign {
        Reign::new(self.last_reign.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
