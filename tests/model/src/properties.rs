//! What must hold: the client's history is linearizable (I8), the invariants I1–I7, and no key and no slot is blocked for ever.
//!
//! Linearizability of one register whose commits are ordered by the database: every answer is a committed content, and its
//! commit is no older than any that was acknowledged or answered to anybody before the read began; a write takes effect once,
//! between its beginning and its acknowledgement.

use std::fmt;

use placement::Phase;

use crate::database::UNCOMMITTED;
use crate::pinning::user;
use crate::process::Process;
use crate::redis::Cell;
use crate::state::{Content, Late, State};
use crate::step::Model;
use crate::streams::SenderEnd;
use crate::writes::Write;

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Violation {
    /// I8: a read has answered what was overwritten before it began, or what was never committed.
    StaleRead,
    /// A write has taken effect a second time, over a newer one.
    CommittedTwice,
    /// A write was acknowledged that has not committed.
    EmptyAcknowledgement,
    /// A key is writer-active, and nobody will ever free it.
    BlockedKey,
    /// A slot is sealed for a change that is over, and its owner will never unseal it.
    BlockedSlot,
    /// The invariant of that name.
    Invariant(&'static str),
}

impl Violation {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::StaleRead => "I8",
            Self::CommittedTwice => "once",
            Self::EmptyAcknowledgement => "acknowledged",
            Self::BlockedKey | Self::BlockedSlot => "blocked",
            Self::Invariant(name) => name,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StaleRead => f.write_str("I8: a read has answered what was overwritten before it began"),
            Self::CommittedTwice => f.write_str("a write has taken effect twice"),
            Self::EmptyAcknowledgement => f.write_str("a write was acknowledged that has not committed"),
            Self::BlockedKey => f.write_str("a key is writer-active, and nobody will ever free it"),
            Self::BlockedSlot => {
                f.write_str("a slot is sealed for a change that is over, and nobody will ever unseal it")
            }
            Self::Invariant(name) => write!(f, "{name} does not hold"),
        }
    }
}

/// A read is answered.
pub(crate) fn answered(after: &mut State, operation: usize, key: usize, content: Content) {
    let rank = after.database.rank(content);
    if rank == UNCOMMITTED || rank < after.operations[operation].bound {
        after.violation = Some(Violation::StaleRead);
    } else {
        after.seen[key] = after.seen[key].max(rank);
    }
    after.operations[operation].end();
}

/// A write is acknowledged.
pub(crate) fn acknowledged(after: &mut State, operation: usize, key: usize, content: Content) {
    let rank = after.database.rank(content);
    if rank == UNCOMMITTED {
        after.violation = Some(Violation::EmptyAcknowledgement);
    } else {
        after.seen[key] = after.seen[key].max(rank);
    }
    after.operations[operation].end();
}

/// A write statement of that tenure commits.
pub(crate) fn committed(model: &Model, after: &mut State, write: Write, tenure: i64) {
    let Write { key, slot, .. } = write;
    let content = write.content();
    let before = after.database.entries[key];
    let first = after.database.commit(key, content);
    if !first && before != content {
        after.violation = Some(Violation::CommittedTwice);
    } else if model.looks_at_invariants {
        let present = i64::from(after.database.slots[slot].tenure);
        if tenure != present || slot != model.slot_of(after, key) {
            after.violation = Some(Violation::Invariant("I1"));
        } else if is_sealed_under(after, slot, tenure) {
            after.violation = Some(Violation::Invariant("I6"));
        }
    }
}

/// I6: whether the end of a seal of the slot has been appended or reported under that tenure, and the change is neither flipped nor aborted.
fn is_sealed_under(state: &State, slot: usize, tenure: i64) -> bool {
    let active = |id| {
        let change = state.database.change(id).filter(|change| usize::from(change.slot) == slot);
        matches!(change.map(|change| change.phase), Some(Phase::Copy | Phase::Sealed))
    };
    let same = |sealed: u8| i64::from(sealed) == tenure;
    let ended = state.stream.is_some_and(|stream| match stream.sender {
        SenderEnd::Ended { tenure, .. } | SenderEnd::Complete { tenure } => active(stream.change) && same(tenure),
        SenderEnd::Open | SenderEnd::Broken => false,
    });
    let reported = state.report.is_some_and(|report| active(report.change) && same(report.tenure));
    let newest = state.database.newest_change();
    let journaled = newest.is_some_and(|(id, row)| active(id) && row.seal.is_some_and(|seal| same(seal.tenure)));
    ended || reported || journaled
}

/// What is broken in the state, beside what the step to it has found itself.
pub(crate) fn broken_by(model: &Model, after: &State) -> Option<Violation> {
    for (index, process) in after.processes.iter().enumerate() {
        for key in 0..process.keys.len() {
            if is_blocked(model, after, index, key) {
                return Some(Violation::BlockedKey);
            }
        }
        if (0..process.slots.len()).any(|slot| model.is_sealed_for_ever(after, index, slot)) {
            return Some(Violation::BlockedSlot);
        }
    }
    if !model.looks_at_invariants {
        return None;
    }
    let keys = 0..model.environment.keys();
    let two_owners = (0..model.environment.slots).any(|slot| has_two_owners(after, slot)).then_some("I2");
    let broken = two_owners.or_else(|| keys.clone().find_map(|key| key_invariants(model, after, key)));
    let name = broken.or_else(|| after.processes.iter().find_map(|process| reigns(process)))?;
    Some(Violation::Invariant(name))
}

/// S8: a writer-active key belongs to a write in progress or to one that a RENEW will settle.
fn is_blocked(model: &Model, state: &State, process: usize, key: usize) -> bool {
    let side = &state.processes[process].keys[key];
    let planned = model.environment.operations.iter().zip(&state.operations);
    let mut writers = planned.filter(|((_, of), operation)| {
        *of == key && operation.is_registered() && usize::from(operation.process) == process
    });
    side.writer_active && side.unsettled.is_none() && writers.next().is_none()
}

/// I2.
fn has_two_owners(state: &State, slot: usize) -> bool {
    let gained = state.database.slots[slot].gained;
    let owners = state.processes.iter().filter(|process| {
        let side = &process.slots[slot];
        side.hold.is_mine() && side.gained == gained
    });
    owners.count() > 1
}

fn key_invariants(model: &Model, state: &State, key: usize) -> Option<&'static str> {
    let entry = state.database.entries[key];
    for slot in 0..model.environment.slots {
        let tenure = state.database.slots[slot].tenure;
        let can_land = |late: Late| usize::from(late.slot) == slot && late.tenure == tenure;
        let planned = model.environment.operations.iter().zip(&state.operations);
        let mut of_key = planned.filter(|((_, of), _)| *of == key).filter_map(|(_, operation)| operation.late);
        let late = of_key.any(can_land);
        for process in &state.processes {
            let hold = &process.slots[slot].hold;
            let view = process.view(slot, key, user(key));
            // Beside a writer too: the hit path without a lock does not look for one.
            let serves = view.mine && view.lease_valid && !view.sealed;
            let hit = process.keys[key].l1.filter(|hit| serves && hit.tag == view.now.reign);
            if hit.is_some_and(|hit| hit.content != entry || late && !view.writer_active) {
                return Some("I3");
            }
            let same_tenure = hold.is_mine() && hold.tenure().0 == i64::from(tenure);
            if same_tenure && !view.writer_active && late {
                return Some("I5");
            }
        }
    }
    is_old_in_l2(model, state, key).then_some("I4")
}

/// I4: an older value can be read under the L2 space of the key's slot, now or once a redeem on its way has landed.
fn is_old_in_l2(model: &Model, state: &State, key: usize) -> bool {
    let row = state.database.slots[model.slot_of(state, key)];
    let entry = state.database.entries[key];
    if row.space == 0 {
        return false;
    }
    let identity = state.database.spaces[usize::from(row.space)];
    state.redis.servers.iter().filter(|server| server.identity == identity).any(|server| {
        match server.cells[usize::from(row.space)][key] {
            Cell::Value(content) => content != entry,
            Cell::Empty => false,
            Cell::Lease(operation) => {
                let number = usize::from(operation);
                let redeem = state.operations[number].redeem.filter(|redeem| redeem.leased.space == row.space);
                model.environment.operations[number].1 == key && redeem.is_some_and(|redeem| redeem.content != entry)
            }
        }
    })
}

/// I7.
fn reigns(process: &Process) -> Option<&'static str> {
    let broken = process.slots.iter().any(|side| {
        let current = side.hold.reign();
        let offered = side.offer.as_ref().map(|offer| offer.reign);
        let newest = current.number().max(offered.map_or(0, |reign| reign.number()));
        offered == Some(current) || newest > process.last_reign
    });
    broken.then_some("I7")
}

impl Model {
    /// Drops what can have no effect any more, so that fewer states differ: statements under an old tenure, redeems whose
    /// nonce is gone for good.
    pub(crate) fn forget_the_powerless(&self, after: &mut State) {
        use crate::mutation::Mutation;
        let by_tenure =
            [Mutation::NoFence, Mutation::FenceByGained, Mutation::FenceWithoutRowLock, Mutation::PinKeepsFence];
        let fenced = !by_tenure.iter().any(|mutation| self.rules.lack(*mutation));
        let compared = !self.rules.lack(Mutation::RedeemWithoutCompare) && self.environment.budget.failovers == 0;
        for number in 0..self.environment.operations.len() {
            let key = self.environment.operations[number].1;
            let slots = after.database.slots;
            let operation = &mut after.operations[number];
            if fenced && operation.late.is_some_and(|late| late.tenure != slots[usize::from(late.slot)].tenure) {
                operation.late = None;
            }
            let ours = |redeem: crate::state::Redeem| {
                after.redis.cell(redeem.leased, key) == Cell::Lease(u8::try_from(number).expect("few operations"))
            };
            if compared && operation.redeem.is_some_and(|redeem| !ours(redeem)) {
                operation.redeem = None;
            }
        }
    }
}
