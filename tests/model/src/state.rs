//! One state of the whole cluster: the database, the processes, Redis, the clients' operations and what is on its way between them.
//!
//! Everything a step may depend on is in here, so that two equal states have the same future. Numbers are small on purpose:
//! a search holds millions of states.

use std::rc::Rc;

use placement::ChangeId;
use placement::freshness::LoadStart;
use placement::slot_hold::Reign;
use placement::write_steps::WriteStart;

use crate::database::Database;
use crate::environment::Budget;
use crate::process::Process;
use crate::properties::Violation;
use crate::redis::Redis;
use crate::streams::{Report, Stream};

/// At most so many slots.
pub const SLOTS_MAX: usize = 2;
/// At most so many keys.
pub const KEYS_MAX: usize = 2;
/// At most so many nodes.
pub const NODES_MAX: usize = 3;
/// At most so many operations of clients.
pub const OPERATIONS_MAX: usize = 6;

/// What an entry holds: 0 is what it held at the beginning, `n` + 1 is what operation `n` has written (a deletion leaves
/// "absent", which caches hold like any value: R5).
pub type Content = u8;

/// The cluster at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Slots, nodes, changes, entries.
    pub database: Database,
    /// Nodes' processes. Shared between states: a step copies only the process that it changes.
    pub processes: Vec<Rc<Process>>,
    /// The L2 servers.
    pub redis: Redis,
    /// Requests of clients, begun or not.
    pub operations: [Operation; OPERATIONS_MAX],
    /// The stream of what moves (C2), opened last.
    pub stream: Option<Stream>,
    /// What the migrator has heard from the old owner (C5) and not yet journaled.
    pub report: Option<Report>,
    /// A SEAL that is late (C5).
    pub late_seal: Option<LateSeal>,
    /// What may still go wrong.
    pub budget: Budget,
    /// For each key the rank of the newest commit that some client knows of.
    pub seen: [u8; KEYS_MAX],
    /// What the step to this state has broken.
    pub violation: Option<Violation>,
}

impl State {
    /// The process, to be changed.
    pub fn process_mut(&mut self, process: usize) -> &mut Process {
        Rc::make_mut(&mut self.processes[process])
    }

    /// The operation on the key comes to the process, to be served under the slot.
    pub(crate) fn invoke(&mut self, number: usize, key: usize, slot: usize, process: usize) {
        let bound = self.seen[key];
        let operation = &mut self.operations[number];
        operation.process = u8::try_from(process).expect("few processes");
        operation.slot = u8::try_from(slot).expect("few slots");
        operation.bound = bound;
    }
}

/// A read or write of a client, wherever a gateway has sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operation {
    /// The process that serves it.
    pub process: u8,
    /// The slot that it is served under there.
    pub slot: u8,
    /// How far it has come.
    pub stage: Stage,
    /// Rank of the newest commit that anybody knew of when it began.
    pub bound: u8,
    /// A redeem that was sent: it may land at any later time, or never (R8).
    pub redeem: Option<Redeem>,
    /// Its write statement, on a broken connection: it may land at any later time, or never (W6).
    pub late: Option<Late>,
}

/// How far an operation has come; its next step is named first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Not begun.
    #[default]
    Waiting,
    /// P4, G1, W1: the slot is settled on by the rows held, and not yet entered.
    Resolved,
    /// G1 without a lock, paused after its look at reign and seal.
    Looking(Reign),
    /// G1 without a lock, paused after its look at the lease.
    LeaseSeen(Reign),
    /// G2 in this L2 space; without one G3 is next.
    Asking(LoadStart, u8),
    /// G2, the identity of the server looked at (only where that comes first).
    Trusting(LoadStart, u8),
    /// R1, with a value found there (only where a server may be demoted unnoticed).
    Found(LoadStart, Leased, Content),
    /// G3, perhaps with the lease on an L2 key.
    Loading(LoadStart, Option<Leased>),
    /// G4 and G5 with what was found.
    Loaded(LoadStart, Option<Leased>, Content),
    /// Waits for the load of that operation.
    Joined(u8),
    /// G6.
    Direct,
    /// Owner and writer looked at, not yet registered (only where W1 is not one critical section).
    Checked,
    /// W2; the reign is that of W1.
    Registered(Reign),
    /// W2, the void in this L2 space on its way.
    Voiding(WriteStart, u8),
    /// The stream is told of the write (only where W1 does not tell it).
    Untold(Prepared),
    /// W3.
    Prepared(Prepared),
    /// The fence looked at, the row not yet written (only where the fence takes no row lock).
    FenceSeen(Prepared),
    /// L2 is voided (only where W2 does not do it).
    Unvoided(Prepared),
    /// W5.
    Committed(Prepared),
    /// Over.
    Over,
}

/// What W2 has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prepared {
    /// Tenure and reign as noted.
    pub start: WriteStart,
    /// The gain noted beside it, for the fence that compares gains.
    pub gained: u8,
    /// The lease on L2 that the void has left.
    pub lease: Option<Leased>,
}

/// Where an operation holds the lease on an L2 key. Its nonce is the operation's number: an operation redeems only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leased {
    /// The server.
    pub server: u8,
    /// The number of the L2 space.
    pub space: u8,
}

/// A redeem on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Redeem {
    /// Where to.
    pub leased: Leased,
    /// With what.
    pub content: Content,
}

/// A write statement on its way, with nobody waiting for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Late {
    /// The slot whose row fences it.
    pub slot: u8,
    /// The tenure it carries.
    pub tenure: u8,
    /// The gain, for the fence that compares gains.
    pub gained: u8,
    /// Its fence has been looked at already (only where the fence takes no row lock).
    pub fence_seen: bool,
}

/// A SEAL that a node has found right by the journal and not yet acted on: the change may be over when it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LateSeal {
    /// The change that it is for.
    pub change: ChangeId,
    /// The process that has it.
    pub process: u8,
}

impl Operation {
    /// The operation is over; what it has sent stays on its way.
    pub fn end(&mut self) {
        *self = Self { stage: Stage::Over, redeem: self.redeem, late: self.late, ..Self::default() };
    }

    /// A registered write that has not ended.
    pub fn is_registered(&self) -> bool {
        matches!(
            self.stage,
            Stage::Registered(_)
                | Stage::Voiding(..)
                | Stage::Untold(_)
                | Stage::Prepared(_)
                | Stage::FenceSeen(_)
                | Stage::Unvoided(_)
                | Stage::Committed(_)
        )
    }

    /// Whether it runs at a process.
    pub fn is_running(&self) -> bool {
        !matches!(self.stage, Stage::Waiting | Stage::Over)
    }
}
