//! What may happen in a run and how often: every environment is the whole protocol, only the budgets differ.

use std::fmt;
use std::rc::Rc;

use placement::slot_hold::HoldRow;
use placement::{Gained, PinnedUsers, Tenure};

use crate::database::{CHANGES_MAX, Database, NOBODY, NodeRow, SPACES_MAX, SlotRow, UNCOMMITTED};
use crate::pinning::OWN;
use crate::process::{L1Entry, Process};
use crate::redis::Redis;
use crate::state::{KEYS_MAX, NODES_MAX, OPERATIONS_MAX, Operation, SLOTS_MAX, State};
use crate::step::Model;

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// GET.
    Read,
    /// PUT.
    Put,
    /// DELETE.
    Delete,
}

impl Kind {
    /// Whether it changes the entry.
    pub fn is_write(self) -> bool {
        self != Self::Read
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Put => "write",
            Self::Delete => "deletion",
        })
    }
}

/// What a ring change moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// Slot 0, with all its users.
    Slot,
    /// The user of key 0, out of slot 0, its home, into slot 1, from then on its own (P2).
    User,
    /// Slot 1, that user's own.
    OwnSlot,
}

/// How often something may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// An L1 entry is evicted.
    pub l1_evictions: u8,
    /// A Redis key is evicted or expires.
    pub l2_evictions: u8,
    /// A node's lease ends on its own side: a pause, a partition.
    pub expiries: u8,
    /// A process dies.
    pub crashes: u8,
    /// The controller takes a dead node's slots over.
    pub takeovers: u8,
    /// A ring change begins.
    pub changes: u8,
    /// A SEAL is late: the node has looked at the journal, and seals at any later time, or never (C5).
    pub late_seals: u8,
    /// A stream breaks.
    pub breaks: u8,
    /// A value is left out of a stream, for the queue is long (C4).
    pub left_out: u8,
    /// A write's outcome stays unknown.
    pub unknown_writes: u8,
    /// A void is not confirmed.
    pub lost_voids: u8,
    /// A slot is renewed for another of its keys.
    pub renewals: u8,
    /// The answer to a RENEW is lost, or the statement lands late.
    pub lost_renewals: u8,
    /// The task of a write is dropped.
    pub dropped_writes: u8,
    /// The Redis replica takes over.
    pub failovers: u8,
    /// A Redis server that nodes are connected to copies the primary and takes over, and keeps its clients (R1).
    pub quiet_demotions: u8,
    /// Redis restarts empty.
    pub redis_restarts: u8,
}

/// One bounded world.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Its short name.
    pub name: &'static str,
    /// What happens in it.
    pub about: &'static str,
    /// What clients do, and to which key.
    pub operations: Vec<(Kind, usize)>,
    /// What may go wrong.
    pub budget: Budget,
    /// Nodes, one process each.
    pub nodes: usize,
    /// Slots, all owned by node 0 at first, each with the key of its number. Where users can leave slot 0, all keys are of slot 0
    /// and slot 1 is nobody's at first.
    pub slots: usize,
    /// What changes may move.
    pub moves: &'static [Moves],
    /// A second process of node 0 waits for its turn.
    pub twin: bool,
    /// Redis is in use.
    pub l2: bool,
    /// L1 of node 0 is empty at first.
    pub cold: bool,
    /// Changes open streams; without, they are cold.
    pub streams: bool,
    /// Somebody may abort a change.
    pub aborts: bool,
    /// Gateways also read through nodes that are not the owner (G6).
    pub detached: bool,
    /// Processes pause inside G1 and W2.
    pub pauses: bool,
    /// Rows are read in one step and applied in a later one.
    pub late_rows: bool,
}

impl Environment {
    /// Two nodes, one slot, a warm owner, no Redis, and nothing that goes wrong.
    pub fn new(name: &'static str, about: &'static str, writes: usize, reads: usize) -> Self {
        let write = std::iter::repeat_n((Kind::Put, 0), writes);
        let read = std::iter::repeat_n((Kind::Read, 0), reads);
        Self {
            name,
            about,
            operations: write.chain(read).collect(),
            budget: Budget::default(),
            nodes: 2,
            slots: 1,
            moves: &[Moves::Slot],
            twin: false,
            l2: false,
            cold: false,
            streams: true,
            aborts: true,
            detached: true,
            pauses: false,
            late_rows: false,
        }
    }

    /// With these budgets.
    pub fn with(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// Whether a user may get a slot of its own.
    pub fn pins(&self) -> bool {
        self.moves.contains(&Moves::User)
    }

    /// How many keys there are.
    pub fn keys(&self) -> usize {
        let asked_for = || self.operations.iter().map(|(_, key)| key + 1).max().unwrap_or(1);
        if self.pins() { asked_for() } else { self.slots }
    }

    /// The slot that the key's user falls into by hash.
    pub fn home(&self, key: usize) -> usize {
        if self.pins() { 0 } else { key }
    }

    /// Whether the operation may begin as far as the order goes: of alike operations the first begins first, which loses
    /// nothing and halves the states.
    pub fn is_next(&self, state: &State, operation: usize) -> bool {
        let alike = |earlier: &usize| self.operations[*earlier] == self.operations[operation];
        let before = (0..operation).rev().find(alike);
        before.is_none_or(|before| state.operations[before].stage != crate::state::Stage::Waiting)
    }
}

impl Model {
    /// The state at the beginning: node 0 owns everything, with a lease and, unless cold, with the entries in L1.
    pub fn beginning(&self) -> State {
        let environment = &self.environment;
        assert!(environment.operations.len() <= OPERATIONS_MAX, "too many operations");
        let mut ranks = [UNCOMMITTED; OPERATIONS_MAX + 1];
        ranks[0] = 0;
        let space = u8::from(environment.l2);
        let mut slots = [SlotRow::default(); SLOTS_MAX];
        slots[..environment.slots].fill(SlotRow { owner: 0, tenure: 1, gained: 1, space, pinned: false });
        if environment.pins() {
            slots[OWN] = SlotRow { owner: NOBODY, ..SlotRow::default() };
        }
        let mut nodes = [NodeRow::default(); NODES_MAX];
        nodes[..environment.nodes].fill(NodeRow { incarnation: 1, leased: true });
        let mut spaces = [0; SPACES_MAX];
        spaces[1] = 1;
        let database = Database {
            slots,
            nodes,
            changes: [None; CHANGES_MAX],
            entries: [0; KEYS_MAX],
            ranks,
            commits: 0,
            last_tenure: 1,
            spaces,
            last_space: space,
            late_renewal: None,
        };
        let redis = Redis::one_primary();
        let mut processes: Vec<_> = (0..environment.nodes).map(|node| self.serving(node, &redis)).collect();
        if environment.twin {
            processes.push(Process::fresh(0, environment.slots, environment.keys(), true));
        }
        State {
            database,
            processes: processes.into_iter().map(Rc::new).collect(),
            redis,
            operations: [Operation::default(); OPERATIONS_MAX],
            stream: None,
            report: None,
            late_seal: None,
            budget: environment.budget,
            seen: [0; KEYS_MAX],
            violation: None,
        }
    }

    fn serving(&self, node: usize, redis: &Redis) -> Process {
        let environment = &self.environment;
        let number = u8::try_from(node).expect("few nodes");
        let mut process = Process::fresh(number, environment.slots, environment.keys(), true);
        process.claimed = true;
        process.incarnation = 1;
        process.lease_valid = true;
        process.session = environment.l2.then(|| redis.connect());
        if node == 0 {
            for slot in (0..environment.slots).filter(|slot| *slot != OWN || !environment.pins()) {
                let reign = process.fresh_reign();
                let l2_space = self.space(1, u8::from(environment.l2));
                let pinned = PinnedUsers::NONE;
                let row = HoldRow { mine: true, tenure: Tenure(1), gained: Gained(1), l2_space, pinned };
                process.slots[slot].hold.apply(row, || reign);
                process.slots[slot].gained = 1;
                for key in (0..environment.keys()).filter(|key| environment.home(*key) == slot) {
                    process.keys[key].l1 = (!environment.cold).then_some(L1Entry { content: 0, tag: reign });
                }
            }
        }
        process
    }
}
