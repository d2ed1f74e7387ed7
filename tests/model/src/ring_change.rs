//! The steps of a ring change (C1, C5–C7, C9, C10), by a migrator that may stop anywhere and be followed by another: its steps
//! are simply done late, or never. Which event leads to which phase is decided by `placement::change::step`.

use placement::change::step::Event;
use placement::slot_hold::SlotHold;
use placement::{ChangeId, Phase, Tenure};

use crate::database::{ChangeRow, Flip, Seal};
use crate::environment::Moves;
use crate::handoff::break_off;
use crate::mutation::Mutation;
use crate::pinning::OWN;
use crate::state::{LateSeal, State};
use crate::step::{Label, Model, Steps};
use crate::streams::{Report, SenderEnd};

/// All steps of ring changes.
pub(crate) fn steps(steps: &mut Steps<'_>) {
    begin(steps);
    if let Some((id, &change)) = steps.state.database.newest_change() {
        for process in steps.processes() {
            let running = &steps.state.processes[process];
            let hold = &running.slots[usize::from(change.slot)].hold;
            if running.up && running.node == change.from && hold.is_mine() {
                seal(steps, id, change, process);
                report(steps, id, change, process);
            }
        }
        journal_seal(steps, id, change);
        flip(steps, id, change);
        finish(steps, id, change);
        let may_abort = steps.model.environment.aborts;
        if may_abort && steps.state.database.phase_after(Event::GivenUp).is_some() {
            steps.step(Label::new("C9", "somebody aborts the change"), |after| after.database.give_up());
        }
    }
    for process in steps.processes() {
        late_seal(steps, process);
        for slot in 0..steps.model.environment.slots {
            unseal(steps, process, slot);
            unseal_flipped(steps, process, slot);
        }
    }
}

/// C1.
fn begin(steps: &mut Steps<'_>) {
    let database = &steps.state.database;
    let free = database.changes.iter().position(Option::is_none);
    let Some(free) = free.filter(|_| database.is_quiet() && steps.state.budget.changes > 0) else { return };
    let gone = database.slots[0].pinned;
    for moves in steps.model.environment.moves {
        let (slot, gains) = match moves {
            Moves::Slot => (0, 0),
            Moves::User if !gone => (0, OWN),
            Moves::OwnSlot if gone => (OWN, OWN),
            Moves::User | Moves::OwnSlot => continue,
        };
        let from = database.slots[slot].owner;
        for to in (0..steps.model.environment.nodes).filter(|to| *to != usize::from(from)) {
            if !database.nodes[usize::from(from)].leased || !database.nodes[to].leased {
                continue;
            }
            steps.step(Label::new("C1", beginning(*moves, to)), |after| {
                after.budget.changes -= 1;
                let as_u8 = |number| u8::try_from(number).expect("few nodes and slots");
                let (slot, gains, to) = (as_u8(slot), as_u8(gains), as_u8(to));
                let phase = Phase::Copy;
                after.database.changes[free] = Some(ChangeRow { phase, slot, gains, from, to, seal: None, flip: None });
                after.report = None;
            });
        }
    }
}

fn beginning(moves: Moves, to: usize) -> &'static str {
    match (moves, to) {
        (Moves::Slot, 0) => "a change begins: the slot moves to node 0",
        (Moves::Slot, 1) => "a change begins: the slot moves to node 1",
        (Moves::Slot, _) => "a change begins: the slot moves to node 2",
        (Moves::User, 0) => "a change begins: the user gets a slot of its own at node 0",
        (Moves::User, 1) => "a change begins: the user gets a slot of its own at node 1",
        (Moves::User, _) => "a change begins: the user gets a slot of its own at node 2",
        (Moves::OwnSlot, 0) => "a change begins: the user's own slot moves to node 0",
        (Moves::OwnSlot, 1) => "a change begins: the user's own slot moves to node 1",
        (Moves::OwnSlot, _) => "a change begins: the user's own slot moves to node 2",
    }
}

/// C5, first half.
fn seal(steps: &mut Steps<'_>, id: ChangeId, change: ChangeRow, process: usize) {
    let rules = steps.model.rules;
    let slot = usize::from(change.slot);
    let hold = &steps.state.processes[process].slots[slot].hold;
    let held_back = hold.sealed().is_some_and(|other| other != id) && !rules.lack(Mutation::SecondSealReplaces);
    let asked = change.phase == Phase::Copy && hold.sealed() != Some(id);
    if !asked || held_back || rules.lack(Mutation::NoSeal) {
        return;
    }
    steps.step(Label::new("C5", "seals the slot").at(process), |after| {
        let hold = &mut after.process_mut(process).slots[slot].hold;
        if let Some(other) = hold.sealed() {
            hold.unseal_aborted(other);
        }
        hold.seal(id).expect("it is free by now");
    });
}

/// C5, first half, in two steps: the look at the journal, and the seal when the answer may long be outdated. A request that is
/// itself late shows in nothing else: it is refused where the journal says so.
fn late_seal(steps: &mut Steps<'_>, process: usize) {
    let state = steps.state;
    let running = &state.processes[process];
    if !running.up {
        return;
    }
    let as_u8 = u8::try_from(process).expect("few processes");
    if state.budget.late_seals > 0 && state.late_seal.is_none() {
        for (id, change) in state.database.all_changes() {
            let active = matches!(change.phase, Phase::Copy | Phase::Sealed);
            let right = active && change.from == running.node;
            if right || steps.model.rules.lack(Mutation::SealWithoutJournal) {
                steps.step(Label::new("C5", "looks at the journal: it may seal the slot").at(process), |after| {
                    after.budget.late_seals -= 1;
                    after.late_seal = Some(LateSeal { change: id, process: as_u8 });
                });
            }
        }
    }
    let Some(late) = state.late_seal.filter(|late| late.process == as_u8) else { return };
    let slot = usize::from(state.database.change(late.change).expect("it was in the journal").slot);
    let hold = &running.slots[slot].hold;
    if hold.is_mine() && hold.sealed().is_none() {
        steps.step(Label::new("C5", "seals the slot, late").at(process), |after| {
            after.late_seal = None;
            after.process_mut(process).slots[slot].hold.seal(late.change).expect("it is free");
        });
    }
}

/// C5, second half: drained, and the stream complete or given up.
fn report(steps: &mut Steps<'_>, id: ChangeId, change: ChangeRow, process: usize) {
    let side = &steps.state.processes[process].slots[usize::from(change.slot)];
    let known = steps.state.report.is_some_and(|report| report.change == id);
    if change.phase != Phase::Copy || !steps.model.is_ready(steps.state, id, process) || known {
        return;
    }
    let ours = steps.state.stream.filter(|stream| stream.change == id && usize::from(stream.from) == process);
    let held = u8::try_from(side.hold.tenure().0).expect("few tenures");
    let (stream, tenure) = match ours.map(|stream| (stream.id, stream.sender)) {
        None | Some((_, SenderEnd::Broken)) => (None, held),
        Some((stream, SenderEnd::Complete { tenure })) => (Some(stream), tenure),
        Some((_, SenderEnd::Open | SenderEnd::Ended { .. })) => return,
    };
    let what =
        if stream.is_some() { "reports the seal, with its stream" } else { "reports the seal, without a stream" };
    let report = Report { change: id, tenure, gained: side.gained, stream };
    steps.step(Label::new("C5", what).at(process), |after| after.report = Some(report));
}

fn journal_seal(steps: &mut Steps<'_>, id: ChangeId, change: ChangeRow) {
    let Some(report) = steps.state.report.filter(|report| report.change == id) else { return };
    let receiver = steps.state.database.nodes[usize::from(change.to)];
    let Some((_, phase)) = steps.state.database.phase_after(Event::Sealed) else { return };
    if !receiver.leased {
        return;
    }
    let seal = Seal {
        tenure: report.tenure,
        gained: report.gained,
        stream: report.stream,
        receiver_incarnation: receiver.incarnation,
    };
    steps.step(Label::new("C5", "the seal is journaled"), |after| {
        after.report = None;
        after.database.change_mut(id).expect("the newest change").seal = Some(seal);
        after.database.change_mut(id).expect("the newest change").phase = phase;
    });
}

/// C6.
fn flip(steps: &mut Steps<'_>, id: ChangeId, change: ChangeRow) {
    let model = steps.model;
    let rules = &model.rules;
    let fits = steps.state.database.phase_after(Event::Flipped).is_some();
    let anyway = rules.lack(Mutation::FlipInAnyPhase) && change.phase == Phase::Aborted;
    let Some(seal) = change.seal.filter(|_| fits || anyway) else { return };
    let row = steps.state.database.slots[usize::from(change.slot)];
    let receiver = steps.state.database.nodes[usize::from(change.to)];
    let unchanged =
        if rules.lack(Mutation::FlipByGained) { row.gained == seal.gained } else { row.tenure == seal.tenure };
    let still = row.owner == change.from && unchanged || rules.lack(Mutation::FlipWithoutTenure);
    let leased = receiver.leased || rules.lack(Mutation::FlipWithoutReceiverLease);
    let same_process =
        receiver.incarnation == seal.receiver_incarnation || rules.lack(Mutation::FlipWithoutReceiverIncarnation);
    if still && leased && same_process {
        steps.step(Label::new("C6", "the change flips"), |after| {
            let flip = if change.slot == change.gains {
                let tenure = after.database.gain(usize::from(change.slot), change.to).tenure;
                Flip { sealed: tenure, gained: tenure }
            } else {
                model.pin(after, change.slot, change.gains, change.to)
            };
            let journaled = after.database.change_mut(id).expect("the newest change");
            journaled.phase = Phase::Flipped;
            journaled.flip = Some(flip);
        });
    }
}

/// C10: the old owner has confirmed, or its lease is over.
fn finish(steps: &mut Steps<'_>, id: ChangeId, change: ChangeRow) {
    let database = &steps.state.database;
    let (Some((_, phase)), Some(flip)) = (database.phase_after(Event::Released), change.flip) else { return };
    let owner = database.nodes[usize::from(change.from)];
    let waits = steps.state.processes.iter().any(|process| {
        let hold = &process.slots[usize::from(change.slot)].hold;
        let holds_old_row = hold.sealed() == Some(id) || hold.tenure().0 < i64::from(flip.sealed);
        process.node == change.from && process.claimed && holds_old_row
    });
    if !owner.leased || !waits {
        steps.step(Label::new("C10", "the old owner has let go: the change is done"), |after| {
            after.database.change_mut(id).expect("the newest change").phase = phase;
        });
    }
}

/// C9.
fn unseal(steps: &mut Steps<'_>, process: usize, slot: usize) {
    let model = steps.model;
    let running = &steps.state.processes[process];
    let Some(sealed) = running.slots[slot].hold.sealed().filter(|_| running.up) else { return };
    if model.may_unseal_aborted(steps.state, sealed) {
        steps.step(Label::new("C9", "learns that the change is aborted and unseals").at(process), |after| {
            after.process_mut(process).slots[slot].hold.unseal_aborted(sealed);
            break_off(after, |stream| stream.change == sealed && usize::from(stream.from) == process);
        });
    }
}

/// C9, of a seal that was set when its change had flipped already, and P5, of a slot that a user has left. What the journal says of a flip never changes, so looking
/// and unsealing may be one step.
fn unseal_flipped(steps: &mut Steps<'_>, process: usize, slot: usize) {
    if let Some(hold) = steps.model.unsealed_by_flip(steps.state, process, slot) {
        let what = "learns that the change has flipped, holds its row or a newer one, and unseals";
        steps.step(Label::new("C9", what).at(process), |after| {
            after.process_mut(process).slots[slot].hold = hold;
        });
    }
}

impl Model {
    /// C9: a node that holds the newest row is sealed for a change that is over, and unseals neither by its abort nor by its
    /// flip. With an older row it is not stuck yet: the newest one may unseal it, or lead to a state in which this is asked again.
    pub(crate) fn is_sealed_for_ever(&self, state: &State, process: usize, slot: usize) -> bool {
        let hold = &state.processes[process].slots[slot].hold;
        let Some(sealed) = hold.sealed() else { return false };
        let phase = state.database.change(sealed).map(|change| change.phase);
        let over = matches!(phase, Some(Phase::Flipped | Phase::Done | Phase::Aborted));
        let holds_newest = hold.is_mine() && hold.tenure().0 == i64::from(state.database.slots[slot].tenure);
        let unseals = self.may_unseal_aborted(state, sealed) || self.unsealed_by_flip(state, process, slot).is_some();
        over && holds_newest && !unseals
    }

    /// C9: the hold without its seal, if the journal's flip ends it.
    fn unsealed_by_flip(&self, state: &State, process: usize, slot: usize) -> Option<SlotHold> {
        let mut hold = state.processes[process].slots[slot].hold.clone();
        let sealed = hold.sealed()?;
        let flip = state.database.change(sealed)?.flip.filter(|_| !self.rules.lack(Mutation::SealStays))?;
        let any_row = self.rules.lack(Mutation::UnsealFlippedWithoutTenure);
        let flip_tenure = if any_row { hold.tenure() } else { Tenure(i64::from(flip.sealed)) };
        hold.unseal_flipped(sealed, flip_tenure).then_some(hold)
    }

    /// C5: sealed for the change and drained.
    pub(crate) fn is_ready(&self, state: &State, id: ChangeId, process: usize) -> bool {
        let Some(slot) = state.database.change(id).map(|change| usize::from(change.slot)) else { return false };
        let (running, side) = (&state.processes[process], &state.processes[process].slots[slot]);
        let sealed = side.hold.sealed() == Some(id) || self.rules.lack(Mutation::NoSeal);
        let but_unknown =
            self.rules.lack(Mutation::DrainWithoutUnknown) && side.is_drained_but(running.unsettled(slot));
        sealed && (side.is_drained() || but_unknown || self.rules.lack(Mutation::NoDrain))
    }

    fn may_unseal_aborted(&self, state: &State, sealed: ChangeId) -> bool {
        let aborted = |id| state.database.change(id).is_some_and(|row| row.phase == Phase::Aborted);
        let another = state.database.newest_change().is_some_and(|(id, _)| aborted(id));
        aborted(sealed)
            || self.rules.lack(Mutation::UnsealAnyTime)
            || another && self.rules.lack(Mutation::UnsealByAnotherAbort)
    }
}
