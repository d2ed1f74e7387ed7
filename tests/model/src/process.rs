//! What one process of a node holds in memory: lease, session with Redis, and for each slot its hold, its key and its L1 entry.

use placement::Tenure;
use placement::freshness::{Guard, LoadStart, View};
use placement::handoff_offer::Offer;
use placement::slot_hold::{Reign, SlotHold};

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
    /// What it holds of each slot and its key.
    pub slots: Vec<SlotSide>,
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

/// What a process holds of one slot and of the one key in it.
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
    /// The tenure of the statement whose outcome is unknown (W6).
    pub unsettled: Option<Tenure>,
    /// The key's guard (S8).
    pub guard: Guard,
    /// The key's writer-active mark (S8).
    pub writer_active: bool,
    /// The key's joinable load: whose it is and when it began (S8).
    pub load: Option<(u8, LoadStart)>,
    /// The key's L1 entry.
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
    pub fn fresh(node: u8, slots: usize, up: bool) -> Self {
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
        }
    }

    /// A reign number never used before in this process (I7).
    pub fn fresh_reign(&mut self) -> Reign {
        self.last_reign += 1;
        Reign::new(self.last_reign)
    }

    /// What G1, G4 and G5 decide on.
    pub fn view(&self, slot: usize) -> View {
        let side = &self.slots[slot];
        View {
            mine: side.hold.is_mine(),
            lease_valid: self.lease_valid,
            sealed: side.hold.sealed().is_some(),
            writer_active: side.writer_active,
            now: LoadStart { guard: side.guard, reign: side.reign() },
        }
    }
}

impl SlotSide {
    /// The current reign.
    pub fn reign(&self) -> Reign {
        self.reign_instead.unwrap_or(self.hold.reign())
    }

    /// The end of a write: the guard rises and the key is free.
    pub fn release_key(&mut self) {
        self.guard.raise();
        self.writer_active = false;
        self.registered = self.registered.saturating_sub(1);
    }

    /// Nothing that began before the seal can change entry or tenure any more (C5).
    pub fn is_drained(&self) -> bool {
        self.registered == 0 && self.renewal.is_none()
    }
}
