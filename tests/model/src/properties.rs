//! What must hold: the client's history is linearizable (I8), the invariants I1–I7, and no key and no slot is blocked for ever.
//!
//! Linearizability of one register whose commits are ordered by the database: every answer is a committed content, and its
//! commit is no older than any that was acknowledged or answered to anybody before the read began; a write takes effect once,
//! between its beginning and its acknowledgement.

use std::fmt;

use placement::Phase;

use crate::database::UNCOMMITTED;
use crate::handoff::MOVING;
use crate::process::Process;
use crate::redis::Cell;
use crate::state::{Content, State};
use crate::step::Model;
use crate::streams::SenderEnd;

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
pub(crate) fn answered(after: &mut State, operation: usize, slot: usize, content: Content) {
    let rank = after.database.rank(content);
    if rank == UNCOMMITTED || rank < after.operations[operation].bound {
        after.violation = Some(Violation::StaleRead);
    } else {
        after.seen[slot] = after.seen[slot].max(rank);
    }
    after.operations[operation].end();
}

/// A write is acknowledged.
pub(crate) fn acknowledged(after: &mut State, operation: usize, slot: usize, content: Content) {
    let rank = after.database.rank(content);
    if rank == UNCOMMITTED {
        after.violation = Some(Violation::EmptyAcknowledgement);
    } else {
        after.seen[slot] = after.seen[slot].max(rank);
    }
    after.operations[operation].end();
}

/// A write statement of that tenure commits.
pub(crate) fn committed(model: &Model, after: &mut State, slot: usize, content: Content, tenure: i64) {
    let before = after.database.entries[slot];
    let first = after.database.commit(slot, content);
    if !first && before != content {
        after.violation = Some(Violation::CommittedTwice);
    } else if model.looks_at_invariants {
        let present = i64::from(after.database.slots[slot].tenure);
        if tenure != present {
            after.violation = Some(Violation::Invariant("I1"));
        } else if slot == MOVING && is_sealed_under(after, tenure) {
            after.violation = Some(Violation::Invariant("I6"));
        }
    }
}

/// I6: whether the end of a seal has been appended or reported under that tenure, and the change is neither flipped nor aborted.
fn is_sealed_under(state: &State, tenure: i64) -> bool {
    let active = |id| {
        let phase = state.database.change(id).map(|change| change.phase);
        matches!(phase, Some(Phase::Copy | Phase::Sealed))
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
        for slot in 0..process.slots.len() {
            if is_blocked(model, after, index, slot) {
                return Some(Violation::BlockedKey);
            }
        }
        if model.is_sealed_for_ever(after, index) {
            return Some(Violation::BlockedSlot);
        }
    }
    if !model.looks_at_invariants {
        return None;
    }
    let slots = 0..model.environment.slots;
    let broken = slots.clone().find_map(|slot| slot_invariants(model, after, slot));
    let name = broken.or_else(|| after.processes.iter().find_map(|process| reigns(process)))?;
    Some(Violation::Invariant(name))
}

/// S8: a writer-active key belongs to a write in progress or to one that a RENEW will settle.
fn is_blocked(model: &Model, state: &State, process: usize, slot: usize) -> bool {
    let side = &state.processes[process].slots[slot];
    let planned = model.environment.operations.iter().zip(&state.operations);
    let mut writers = planned.filter(|((_, at), operation)| {
        *at == slot && operation.is_registered() && usize::from(operation.process) == process
    });
    side.writer_active && side.unsettled.is_none() && writers.next().is_none()
}

fn slot_invariants(model: &Model, state: &State, slot: usize) -> Option<&'static str> {
    let row = state.database.slots[slot];
    let entry = state.database.entries[slot];
    let planned = model.environment.operations.iter().zip(&state.operations);
    let of_slot = || planned.clone().filter(|((_, at), _)| *at == slot).map(|(_, operation)| operation);
    let late = || of_slot().filter_map(|operation| operation.late).filter(|late| late.tenure == row.tenure);
    let owners = state.processes.iter().filter(|process| {
        let side = &process.slots[slot];
        side.hold.is_mine() && side.gained == row.gained
    });
    if owners.count() > 1 {
        return Some("I2");
    }
    for process in &state.processes {
        let side = &process.slots[slot];
        let view = process.view(slot);
        // Beside a writer too: the hit path without a lock does not look for one.
        let serves = view.mine && view.lease_valid && !view.sealed;
        let hit = side.l1.filter(|hit| serves && hit.tag == view.now.reign);
        let settled = view.writer_active || late().next().is_none();
        if hit.is_some_and(|hit| hit.content != entry || !settled) {
            return Some("I3");
        }
        let same_tenure = side.hold.is_mine() && side.hold.tenure().0 == i64::from(row.tenure);
        if same_tenure && !side.writer_active && late().next().is_some() {
            return Some("I5");
        }
    }
    is_old_in_l2(model, state, slot).then_some("I4")
}

/// I4: an older value can be read under the slot's L2 space, now or once a redeem on its way has landed.
fn is_old_in_l2(model: &Model, state: &State, slot: usize) -> bool {
    let row = state.database.slots[slot];
    let entry = state.database.entries[slot];
    if row.space == 0 {
        return false;
    }
    let identity = state.database.spaces[usize::from(row.space)];
    state.redis.servers.iter().filter(|server| server.identity == identity).any(|server| {
        match server.cells[usize::from(row.space)][slot] {
            Cell::Value(content) => content != entry,
            Cell::Empty => false,
            Cell::Lease(operation) => {
                let number = usize::from(operation);
                let redeem = state.operations[number].redeem.filter(|redeem| redeem.leased.space == row.space);
                model.environment.operations[number].1 == slot && redeem.is_some_and(|redeem| redeem.content != entry)
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
        let by_tenure = [Mutation::NoFence, Mutation::FenceByGained, Mutation::FenceWithoutRowLock];
        let fenced = !by_tenure.iter().any(|mutation| self.rules.lack(*mutation));
        let compared = !self.rules.lack(Mutation::RedeemWithoutCompare) && self.environment.budget.failovers == 0;
        for number in 0..self.environment.operations.len() {
            let slot = self.environment.operations[number].1;
            let operation = &mut after.operations[number];
            if fenced && operation.late.is_some_and(|late| late.tenure != after.database.slots[slot].tenure) {
                operation.late = None;
            }
            let ours = |redeem: crate::state::Redeem| {
                after.redis.cell(redeem.leased, slot) == Cell::Lease(u8::try_from(number).expect("few operations"))
            };
            if compared && operation.redeem.is_some_and(|redeem| !ours(redeem)) {
                operation.redeem = None;
            }
        }
    }
}
