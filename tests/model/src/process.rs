//! What one process of a node holds in memory: lease, session with Redis, its slots, and its keys with their L1 entries.

use placement::Tenure;
use placement::freshness::{Guard, LoadStart, View};
use placement::handoff_offer::Offer;
use placement::slot_hold::{Reign, SlotHold};
use placement::write_steps::is_settled;

use crate::database::SlotRow;
use crate::redis::Session;
use crate::state::Content;

/// One process. Two processes may be the same node, one after the other or, while the older has not noticed, side by side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// The node that it is.
    pub node: u8,
    /// Whether it runs.
    pub up: bool,
    /// Whether it has claimed its node and has not been fenced since.
    pub claimed: bool,
    /// The incarnation it claimed last.
    pub incarnation: u8,
    /// Whether it counts its lease as valid.
    pub lease_valid: bool,
    /// A heartbeat on its way.
    pub heartbeat: Heartbeat,
    /// The reign number drawn last (I7).
    pub last_reign: u64,
    /// The Redis session in use.
    pub session: Option<Session>,
    /// What it holds of each slot.
    pub slots: Vec<SlotSide>,
    /// What it holds of each key, whatever slot the key is served under.
    pub keys: Vec<KeySide>,
}

/// A heartbeat that the database has taken and whose answer is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heartbeat {
    /// None.
    Idle,
    /// The lease that it made still lasts.
    Accepted,
    /// The lease that it made is over in the database.
    Outdated,
}

/// What a process holds of one slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SlotSide {
    /// What production holds.
    pub hold: SlotHold,
    /// The gain of the hold: some mutations look at it.
    pub gained: u8,
    /// What a stream has brought (C2).
    pub offer: Option<Offer>,
    /// R' that is adopted only after serving has begun (a mutation).
    pub adopt_late: Option<Reign>,
    /// The reign that is counted as current instead of the hold's (mutations).
    pub reign_instead: Option<Reign>,
    /// A RENEW that the database has made and whose answer is on its way (R3).
    pub renewal: Option<SlotRow>,
    /// A row that was read and is not yet applied (T2).
    pub fetched: Option<SlotRow>,
    /// Writes between registration and release, unknown ones included.
    pub registered: u8,
}

/// What a process holds of one key (S8).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeySide {
    /// The statement whose outcome is unknown (W6): its slot and tenure.
    pub unsettled: Option<(u8, Tenure)>,
    /// The guard.
    pub guard: Guard,
    /// The writer-active mark.
    pub writer_active: bool,
    /// The joinable load: whose it is and when it began.
    pub load: Option<(u8, LoadStart)>,
    /// The L1 entry.
    pub l1: Option<L1Entry>,
}

/// An L1 entry and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct L1Entry {
    /// What it says.
    pub content: Content,
    /// The reign it belongs to.
    pub tag: Reign,
}

impl Process {
    /// A process without memory, as it is before its claim.
    pub fn fresh(node: u8, slots: usize, keys: usize, up: bool) -> Self {
        Self {
            node,
            up,
            claimed: false,
            incarnation: 0,
            lease_valid: false,
            heartbeat: Heartbeat::Idle,
            last_reign: 0,
            session: None,
            slots: vec![SlotSide::default(); slots],
            keys: vec![KeySide::default(); keys],
        }
    }

    /// A reign number never used before in this process (I7).
    pub fn fresh_reign(&mut self) -> Reign {
        self.last_reign += 1;
        Reign::new(self.last_reign)
    }

    /// What G1, G4 and G5 decide on, of a key that is served under the slot, and of its user.
    pub fn view(&self, slot: usize, key: usize, user: &str) -> View {
        let (side, key) = (&self.slots[slot], &self.keys[key]);
        View {
            mine: side.hold.serves(user),
            lease_valid: self.lease_valid,
            sealed: side.hold.sealed().is_some(),
            writer_active: key.writer_active,
            now: LoadStart { guard: key.guard, reign: side.reign() },
        }
    }

    /// The end of a write under the slot: the guard rises and the key is free.
    pub fn release_key(&mut self, slot: usize, key: usize) {
        let (side, key) = (&mut self.slots[slot], &mut self.keys[key]);
        key.guard.raise();
        key.writer_active = false;
        side.registered = side.registered.saturating_sub(1);
    }

    /// How many writes under the slot have an unknown outcome (W6).
    pub fn unsettled(&self, slot: usize) -> u8 {
        let of_slot = self.keys.iter().filter_map(|key| key.unsettled).filter(|(under, _)| usize::from(*under) == slot);
        u8::try_from(of_slot.count()).expect("few keys")
    }

    /// T6: unknown writes under the slot that its newest tenure settles.
    pub fn settle(&mut self, slot: usize) {
        let held = self.slots[slot].hold.tenure();
        for key in 0..self.keys.len() {
            let sent = self.keys[key].unsettled.filter(|(under, _)| usize::from(*under) == slot);
            if sent.is_some_and(|(_, tenure)| is_settled(tenure, held)) {
                self.keys[key].unsettled = None;
                self.release_key(slot, key);
            }
        }
    }
}

impl SlotSide {
    /// The current reign.
    pub fn reign(&self) -> Reign {
        self.reign_instead.unwrap_or(self.hold.reign())
    }

    /// Nothing that began before the seal can change entry or tenure any more (C5).
    pub fn is_drained(&self) -> bool {
        self.is_drained_but(0)
    }

    /// The same but for so many registered writes.
    pub fn is_drained_but(&self, writes: u8) -> bool {
        self.registered == writes && self.renewal.is_none()
    }
}
