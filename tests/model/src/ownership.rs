//! The steps of leases, claims, takeovers and the slot table (T1–T6, L1–L4, C8). What a row does is decided by
//! `placement::slot_hold`, what is adopted by `placement::handoff_offer`.

use placement::handoff_offer::{FlippedSlot, Offer};
use placement::slot_hold::{Applied, HoldRow, Reign, SlotHold};
use placement::{Gained, Incarnation, Phase, PinnedUsers, Tenure};

use crate::database::{Database, SlotRow};
use crate::handoff::{break_streams_of, end_of_reign};
use crate::mutation::Mutation;
use crate::process::{Heartbeat, Process};
use crate::state::State;
use crate::step::{Label, Model, Steps};
use crate::unknown_writes::die_with;

/// All steps of ownership.
pub(crate) fn steps(steps: &mut Steps<'_>) {
    for process in steps.processes() {
        if steps.state.processes[process].up {
            lease(steps, process);
            trouble(steps, process);
            for slot in 0..steps.model.environment.slots {
                table(steps, process, slot);
            }
        }
        claim(steps, process);
    }
    for node in 0..steps.model.environment.nodes {
        lease_over(steps, node);
        take_over(steps, node);
    }
}

/// L1: the lease on the node's side.
fn lease(steps: &mut Steps<'_>, process: usize) {
    let running = &steps.state.processes[process];
    let node = usize::from(running.node);
    if running.lease_valid {
        if steps.state.budget.expiries > 0 {
            steps.step(Label::new("env", "is paused until its lease is over on its side").at(process), |after| {
                after.budget.expiries -= 1;
                after.process_mut(process).lease_valid = false;
            });
        }
        return;
    }
    let from_confirmation = steps.model.rules.lack(Mutation::LeaseFromConfirmation);
    match running.heartbeat {
        Heartbeat::Idle if running.claimed && running.incarnation == steps.state.database.nodes[node].incarnation => {
            steps.step(Label::new("L1", "its heartbeat is taken by the database").at(process), |after| {
                after.database.nodes[node].leased = true;
                after.process_mut(process).heartbeat = Heartbeat::Accepted;
            });
        }
        Heartbeat::Idle => {}
        Heartbeat::Accepted | Heartbeat::Outdated => {
            let valid = running.heartbeat == Heartbeat::Accepted || from_confirmation;
            steps.step(Label::new("L1", "hears of its heartbeat").at(process), |after| {
                let running = after.process_mut(process);
                running.heartbeat = Heartbeat::Idle;
                running.lease_valid = valid;
            });
        }
    }
}

/// Eviction, a fence, a crash.
fn trouble(steps: &mut Steps<'_>, process: usize) {
    let model = steps.model;
    let running = &steps.state.processes[process];
    if steps.state.budget.l1_evictions > 0 {
        for key in 0..running.keys.len() {
            if running.keys[key].l1.is_some() {
                steps.step(Label::new("env", "L1 evicts the entry").at(process), |after| {
                    after.budget.l1_evictions -= 1;
                    after.process_mut(process).keys[key].l1 = None;
                });
            }
        }
    }
    if running.claimed && running.incarnation != model.incarnation(steps.state, running.node) {
        steps.step(Label::new("L2", "sees that it is fenced and forgets everything").at(process), |after| {
            fence(model, after, process);
        });
    }
    if steps.state.budget.crashes > 0 {
        steps.step(Label::new("env", "dies").at(process), |after| {
            after.budget.crashes -= 1;
            die_with(after, process, model.environment.operations.len());
            break_streams_of(after, process);
            after.late_seal = after.late_seal.filter(|late| usize::from(late.process) != process);
            let node = after.processes[process].node;
            *after.process_mut(process) =
                Process::fresh(node, model.environment.slots, model.environment.keys(), false);
        });
    }
}

/// Fenced, a process goes on: its requests in progress too.
fn fence(model: &Model, after: &mut State, process: usize) {
    if !model.rules.lack(Mutation::StreamOutlivesReign) {
        break_streams_of(after, process);
    }
    let running = after.process_mut(process);
    running.claimed = false;
    running.lease_valid = false;
    running.heartbeat = Heartbeat::Idle;
    for side in &mut running.slots {
        side.hold.forget();
        side.reign_instead = None;
        side.adopt_late = None;
        side.offer = None;
        if !model.rules.lack(Mutation::RowOutlivesFence) {
            (side.renewal, side.fetched) = (None, None);
        }
    }
    if !model.rules.lack(Mutation::FenceKeepsL1) {
        running.keys.iter_mut().for_each(|key| key.l1 = None);
    }
}

/// L4: a start, a restart, or a fenced process that comes back.
fn claim(steps: &mut Steps<'_>, process: usize) {
    let model = steps.model;
    let running = &steps.state.processes[process];
    let node = usize::from(running.node);
    let waits = steps.state.database.nodes[node].leased && !model.rules.lack(Mutation::TakeoverBeforeLeaseEnd);
    if running.claimed || waits {
        return;
    }
    steps.step(Label::new("L4", "claims its node").at(process), |after| {
        let row = &mut after.database.nodes[node];
        row.incarnation += 1;
        row.leased = true;
        let incarnation = row.incarnation;
        let session = model.environment.l2.then(|| after.redis.connect());
        let running = after.process_mut(process);
        running.up = true;
        running.claimed = true;
        running.incarnation = incarnation;
        running.lease_valid = true;
        running.session = running.session.or(session);
        let node = running.node;
        for slot in 0..model.environment.slots {
            if after.database.slots[slot].owner == node {
                let row = model.gain(after, slot, node);
                apply_row(model, after, process, slot, row, Source::OwnStatement);
            }
        }
    });
}

/// T1 and T2.
fn table(steps: &mut Steps<'_>, process: usize, slot: usize) {
    let model = steps.model;
    let running = &steps.state.processes[process];
    let side = &running.slots[slot];
    let row = steps.state.database.slots[slot];
    let unchecked = model.rules.lack(Mutation::TableReadWithoutIncarnation);
    let current = running.incarnation == model.incarnation(steps.state, running.node);
    let answered = running.claimed && (current || unchecked);
    let newer = Tenure(i64::from(row.tenure)) > side.hold.tenure();
    // A RENEW on its way back would tell just the same.
    if answered && newer && side.renewal != Some(row) {
        steps.step(Label::new("T2", "reads the slot table and applies the row").at(process), |after| {
            apply_row(model, after, process, slot, row, Source::Table);
        });
    }
    if answered && newer && model.environment.late_rows && side.fetched.is_none() {
        steps.step(Label::new("T1", "reads the slot table").at(process), |after| {
            after.process_mut(process).slots[slot].fetched = Some(row);
        });
    }
    if let Some(row) = side.fetched {
        steps.step(Label::new("T2", "applies the row that it read").at(process), |after| {
            after.process_mut(process).slots[slot].fetched = None;
            apply_row(model, after, process, slot, row, Source::Table);
        });
    }
    if let Some(reign) = side.adopt_late {
        steps.step(Label::new("C8", "adopts what the stream has brought").at(process), |after| {
            let side = &mut after.process_mut(process).slots[slot];
            side.adopt_late = None;
            side.reign_instead = Some(reign);
        });
    }
}

/// The lease in the database outlasts the one on the node's side.
fn lease_over(steps: &mut Steps<'_>, node: usize) {
    let counts = |process: &std::rc::Rc<Process>| usize::from(process.node) == node && process.lease_valid;
    if !steps.state.database.nodes[node].leased || steps.state.processes.iter().any(counts) {
        return;
    }
    let label = Label::new(
        "env",
        match node {
            0 => "the lease of node 0 is over in the database",
            1 => "the lease of node 1 is over in the database",
            _ => "the lease of node 2 is over in the database",
        },
    );
    steps.step(label, |after| {
        after.database.nodes[node].leased = false;
        for process in 0..after.processes.len() {
            let running = &after.processes[process];
            if usize::from(running.node) == node && running.heartbeat == Heartbeat::Accepted {
                after.process_mut(process).heartbeat = Heartbeat::Outdated;
            }
        }
    });
}

/// L3, by the failure controller.
fn take_over(steps: &mut Steps<'_>, dead: usize) {
    let model = steps.model;
    let database = &steps.state.database;
    let owns = |slot: &usize| usize::from(database.slots[*slot].owner) == dead;
    let waits = database.nodes[dead].leased && !model.rules.lack(Mutation::TakeoverBeforeLeaseEnd);
    let flipped = database.newest_change().is_some_and(|(_, change)| change.phase == Phase::Flipped);
    if steps.state.budget.takeovers == 0 || waits || flipped || !(0..model.environment.slots).any(|slot| owns(&slot)) {
        return;
    }
    for taker in (0..model.environment.nodes).filter(|taker| *taker != dead && database.nodes[*taker].leased) {
        let label = Label::new(
            "L3",
            match taker {
                0 => "the controller gives the dead owner's slots to node 0",
                1 => "the controller gives the dead owner's slots to node 1",
                _ => "the controller gives the dead owner's slots to node 2",
            },
        );
        steps.step(label, |after| {
            after.budget.takeovers -= 1;
            if !model.rules.lack(Mutation::TakeoverKeepsIncarnation) {
                after.database.nodes[dead].incarnation += 1;
            }
            if !model.rules.lack(Mutation::TakeoverKeepsChange) {
                after.database.give_up();
            }
            for slot in (0..model.environment.slots).filter(owns) {
                model.gain(after, slot, u8::try_from(taker).expect("few nodes"));
            }
        });
    }
}

/// How a row came: a table read also asks the journal what may be adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// T1.
    Table,
    /// RETURNING of a claim or RENEW.
    OwnStatement,
}

/// T2–T6, C8: one critical section.
pub(crate) fn apply_row(model: &Model, after: &mut State, process: usize, slot: usize, row: SlotRow, source: Source) {
    let rules = &model.rules;
    let mine = row.owner == after.processes[process].node;
    let offered = if source == Source::Table { model.adopted(after, process, slot, row) } else { None };
    let late = rules.lack(Mutation::AdoptAfterServing);
    let l2_space = model.space(after.database.spaces[usize::from(row.space)], row.space);
    let (tenure, gained) = (Tenure(i64::from(row.tenure)), model.counted_gain(&after.processes[process], slot, row));
    let running = after.process_mut(process);
    let fresh = running.last_reign + 1;
    let kept = (rules.lack(Mutation::RegainKeepsReign) && fresh > 1).then(|| Reign::new(fresh - 1));
    let side = &mut running.slots[slot];
    if rules.lack(Mutation::RowsGoBack) && tenure < side.hold.tenure() {
        side.hold = SlotHold::default();
    }
    let (reign_before, sealed_before) = (side.reign(), side.hold.sealed());
    let at_once = offered.filter(|_| !late).or(kept);
    let pinned = if row.pinned { model.pinned.clone() } else { PinnedUsers::NONE };
    let hold_row = HoldRow { mine, tenure, gained: Gained(i64::from(gained)), l2_space, pinned };
    let applied = side.hold.apply(hold_row, || at_once.unwrap_or(Reign::new(fresh)));
    if applied == Applied::Stale {
        return;
    }
    side.gained = gained;
    side.reign_instead = side.reign_instead.filter(|_| applied == Applied::SameReign);
    if mine {
        side.offer = None;
    }
    match applied {
        Applied::Lost if rules.lack(Mutation::LossKeepsReign) => side.reign_instead = Some(reign_before),
        Applied::NewReign if rules.lack(Mutation::NewReignKeepsSeal) => {
            sealed_before.map(|change| side.hold.seal(change));
        }
        _ => {}
    }
    if applied == Applied::NewReign {
        side.adopt_late = offered.filter(|_| late);
        running.last_reign += u64::from(at_once.is_none());
    }
    running.settle(slot);
    model.unseal_what_has_flipped(after, process, slot, applied);
    if matches!(applied, Applied::NewReign | Applied::Lost) {
        end_of_reign(model, after, process, slot);
    }
}

impl Model {
    /// C8: the reign that the row begins with, if a stream has filled it.
    fn adopted(&self, state: &State, process: usize, slot: usize, row: SlotRow) -> Option<Reign> {
        let running = &state.processes[process];
        let offer = running.slots[slot].offer.as_ref()?;
        let flipped = if self.rules.lack(Mutation::AdoptWithoutJournal) {
            FlippedSlot {
                change: offer.change,
                stream: Some(offer.stream.clone()),
                receiver_incarnation: offer.incarnation,
                tenure: Tenure(i64::from(row.tenure)),
            }
        } else {
            self.flipped_slot(&state.database, running.node, offer)?
        };
        let incomplete_too = self.rules.lack(Mutation::AdoptIncomplete);
        let offer = Offer { complete: offer.complete || incomplete_too, ..offer.clone() };
        offer.adopted(&flipped, Tenure(i64::from(row.tenure)))
    }

    /// What the journal says of the offer's change.
    fn flipped_slot(&self, database: &Database, node: u8, offer: &Offer) -> Option<FlippedSlot> {
        let change = database.change(offer.change)?;
        let seal = change.seal.filter(|_| change.to == node && matches!(change.phase, Phase::Flipped | Phase::Done))?;
        Some(FlippedSlot {
            change: offer.change,
            stream: seal.stream.map(|id| self.stream(id)),
            receiver_incarnation: Incarnation(i64::from(seal.receiver_incarnation)),
            tenure: Tenure(i64::from(change.flip?.gained)),
        })
    }

    /// T3: the gain that tells a reign from the next.
    fn counted_gain(&self, process: &Process, slot: usize, row: SlotRow) -> u8 {
        let side = &process.slots[slot];
        let still_mine = row.owner == process.node && side.hold.is_mine();
        let same = self.rules.lack(Mutation::SameReignByOwner)
            || self.rules.lack(Mutation::SameReignByUnsealed) && side.hold.sealed().is_none();
        if still_mine && same { side.gained } else { row.gained }
    }

    fn unseal_what_has_flipped(&self, after: &mut State, process: usize, slot: usize, applied: Applied) {
        let Some(change) = after.processes[process].slots[slot].hold.sealed() else { return };
        let phase = after.database.change(change).map(|row| row.phase);
        if self.rules.lack(Mutation::SameReignByOwner)
            && applied == Applied::SameReign
            && matches!(phase, Some(Phase::Flipped | Phase::Done))
        {
            after.process_mut(process).slots[slot].hold.unseal_aborted(change);
        }
    }

    /// The node's incarnation in the database.
    pub(crate) fn incarnation(&self, state: &State, node: u8) -> u8 {
        state.database.nodes[usize::from(node)].incarnation
    }

    /// R2: the server to which a process sends commands for the L2 space, if its session fits.
    pub(crate) fn reachable(&self, process: &Process, database: &Database, space: u8) -> Option<u8> {
        let session = process.session.filter(|_| space > 0)?;
        let wanted = database.spaces[usize::from(space)];
        // Two servers take turns: the identity's parity tells which of them it is.
        let same_server = self.rules.lack(Mutation::IdentityIsRunId) && session.identity % 2 == wanted % 2;
        let fits = session.identity == wanted || same_server || self.rules.lack(Mutation::IdentityIgnored);
        fits.then_some(session.server)
    }
}

/// The identity and number of an L2 space's text.
pub(crate) fn space_in_use(space: &str) -> (u8, u8) {
    let (identity, number) = space.split_once('/').expect("the model's spaces are identity/number");
    let digits = |text: &str| text.parse().expect("the model's spaces are identity/number");
    (digits(identity), digits(number))
}
