//! The steps of writes (W1–W5). What may be done is decided by `placement::write_steps`.

use placement::slot_hold::Reign;
use placement::write_steps::{
    KeyAtEnd, PrepareStep, RegisterStep, WriteStage, WriteStart, may_store_written, prepare_step, register_step,
};

use crate::environment::Kind;
use crate::handoff::{append_invalidate, append_value, leave_out};
use crate::mutation::Mutation;
use crate::ownership::space_in_use;
use crate::pinning::resolve;
use crate::process::{L1Entry, Process};
use crate::properties::{acknowledged, committed};
use crate::redis::Cell;
use crate::state::{Content, Leased, Prepared, Redeem, Stage, State};
use crate::step::{Label, Model, Steps};
use crate::unknown_writes::{drop_task, land_late};

/// All steps of all writes.
pub(crate) fn steps(steps: &mut Steps<'_>) {
    for number in 0..steps.model.environment.operations.len() {
        let write = Write::of(steps, number);
        if !write.kind.is_write() {
            continue;
        }
        match steps.state.operations[number].stage {
            Stage::Waiting if steps.model.environment.is_next(steps.state, number) => begin(steps, write),
            Stage::Resolved => enter_resolved(steps, write),
            Stage::Checked => register_checked(steps, write),
            Stage::Registered(reign) => prepare(steps, write, reign),
            Stage::Voiding(start, space) => void(steps, write, start, space),
            Stage::Untold(prepared) => steps.step(write.label("C4", "is told to the stream"), |after| {
                append_invalidate(after, write.process, write.slot, write.key);
                after.operations[number].stage = Stage::Prepared(prepared);
            }),
            Stage::Prepared(prepared) => execute(steps, write, prepared),
            Stage::FenceSeen(prepared) => commit(steps, write, prepared),
            Stage::Unvoided(prepared) => void_late(steps, write, prepared),
            Stage::Committed(prepared) => {
                let model = steps.model;
                let label = write.label("W5", "refills, frees the key and is acknowledged").with(write.content());
                steps.step(label, |after| finish(model, after, write, prepared));
                let label = write.label("W5", "frees the key and is acknowledged; the stream's queue is long");
                leave_out(steps, write.process, label, |after| finish(model, after, write, prepared));
            }
            _ => {}
        }
        drop_task(steps, write);
        land_late(steps, write);
    }
}

/// A write and where it runs.
#[derive(Clone, Copy)]
pub(crate) struct Write {
    pub(crate) number: usize,
    pub(crate) kind: Kind,
    pub(crate) key: usize,
    pub(crate) slot: usize,
    pub(crate) process: usize,
}

impl Write {
    fn of(steps: &Steps<'_>, number: usize) -> Self {
        let (kind, key) = steps.model.environment.operations[number];
        let operation = steps.state.operations[number];
        Self { number, kind, key, slot: usize::from(operation.slot), process: usize::from(operation.process) }
    }

    pub(crate) fn label(self, rule: &'static str, what: &'static str) -> Label {
        Label::new(rule, what).at(self.process).of(self.number, self.kind)
    }

    /// What the entry is after it.
    pub(crate) fn content(self) -> Content {
        self.as_u8() + 1
    }

    fn as_u8(self) -> u8 {
        u8::try_from(self.number).expect("few operations")
    }

    pub(crate) fn slot_as_u8(self) -> u8 {
        u8::try_from(self.slot).expect("few slots")
    }

    /// X2: what becomes of the key, by production's decision.
    pub(crate) fn leave(self, after: &mut State, stage: WriteStage) {
        let running = after.process_mut(self.process);
        match stage.key_at_end(running.slots[self.slot].hold.tenure()) {
            KeyAtEnd::Released => {}
            KeyAtEnd::Release => running.release_key(self.slot, self.key),
            KeyAtEnd::Settle(tenure) => running.keys[self.key].unsettled = Some((self.slot_as_u8(), tenure)),
        }
    }

    /// Not executed: the key is free, the client gets 421 or the like.
    fn refuse(self, after: &mut State) {
        self.leave(after, WriteStage::Registered);
        after.operations[self.number].end();
    }
}

/// W1 at any node, whatever the gateway's ring says.
fn begin(steps: &mut Steps<'_>, write: Write) {
    let model = steps.model;
    for process in steps.processes() {
        resolve(steps, write.number, process);
        let running = &steps.state.processes[process];
        let write = Write { process, slot: model.resolved(running, write.key), ..write };
        if !running.up || !model.registers(running, write) {
            continue;
        }
        let in_two_steps = model.rules.lack(Mutation::RegistrationInTwoSteps);
        let what = if in_two_steps { "may begin" } else { "registers" };
        steps.step(write.label("W1", what), |after| {
            after.invoke(write.number, write.key, write.slot, process);
            if in_two_steps {
                after.operations[write.number].stage = Stage::Checked;
            } else {
                register(model, after, write);
            }
        });
    }
}

fn register_checked(steps: &mut Steps<'_>, write: Write) {
    let model = steps.model;
    if !steps.state.processes[write.process].keys[write.key].writer_active {
        steps.step(write.label("W1", "registers"), |after| register(model, after, write));
    }
}

/// P4: the slot is entered when its row names the user by now.
fn enter_resolved(steps: &mut Steps<'_>, write: Write) {
    let model = steps.model;
    let running = &steps.state.processes[write.process];
    if !model.has_left(running, write.key) {
        return;
    }
    if model.registers(running, write) {
        steps.step(write.label("W1", "registers, although the slot's row names its user"), |after| {
            register(model, after, write);
        });
    } else if !running.slots[write.slot].hold.serves(model.looked_for(write.key)) {
        steps.step(write.label("P4", "is refused: the slot's row names its user by now"), |after| {
            after.operations[write.number].end();
        });
    }
}

/// The second half of W1.
fn register(model: &Model, after: &mut State, write: Write) {
    let running = after.process_mut(write.process);
    let reign = running.slots[write.slot].reign();
    running.slots[write.slot].registered += 1;
    let side = &mut running.keys[write.key];
    side.guard.raise();
    side.writer_active = true;
    let current = side.l1.is_some_and(|entry| entry.tag == reign);
    if current || !model.rules.lack(Mutation::RegisterDropsCurrentOnly) {
        side.l1 = None;
    }
    let not_now = [Mutation::NoInvalidate, Mutation::InvalidateAfterCommit, Mutation::InvalidateLater];
    if !not_now.iter().any(|mutation| model.rules.lack(*mutation)) {
        append_invalidate(after, write.process, write.slot, write.key);
    }
    after.operations[write.number].stage = Stage::Registered(reign);
}

/// W2.
fn prepare(steps: &mut Steps<'_>, write: Write, registered_under: Reign) {
    let model = steps.model;
    let running = &steps.state.processes[write.process];
    let hold = &running.slots[write.slot].hold;
    let unvoided = model.rules.lack(Mutation::VoidAfterCommit);
    let any_reign = model.rules.lack(Mutation::OlderReignGoesOn);
    let registered_under = if any_reign { hold.reign() } else { registered_under };
    match prepare_step(hold, registered_under) {
        PrepareStep::NotOwner => steps
            .step(write.label("W2", "is refused: the slot is another's, or ours by a new gain"), |a| write.refuse(a)),
        PrepareStep::Commit(start) => steps.step(write.label("W2", "notes tenure and reign"), |after| {
            model.prepared(after, write, start, None);
        }),
        PrepareStep::Void(start, _) if unvoided => steps.step(write.label("W2", "leaves L2 alone"), |after| {
            model.prepared(after, write, start, None);
        }),
        PrepareStep::Void(start, space) => {
            let space = space_in_use(&space).1;
            if model.reachable(running, &steps.state.database, space).is_none() {
                bar_space(steps, write, start, "finds no session for the L2 space");
            } else if model.environment.pauses {
                steps.step(write.label("W2", "notes tenure, reign and L2 space"), |after| {
                    after.operations[write.number].stage = Stage::Voiding(start, space);
                });
            } else {
                void(steps, write, start, space);
            }
        }
        PrepareStep::Renew(start) if model.rules.lack(Mutation::UnconfirmedVoidIgnored) => {
            steps.step(write.label("W2", "goes on without a void"), |after| model.prepared(after, write, start, None));
        }
        // It waits for the slot to change (R4): `renewals`.
        PrepareStep::Renew(_) => {}
    }
}

/// The void lands and is confirmed, or is not.
fn void(steps: &mut Steps<'_>, write: Write, start: WriteStart, space: u8) {
    let model = steps.model;
    let running = &steps.state.processes[write.process];
    let Some(server) = model.reachable(running, &steps.state.database, space) else {
        bar_space(steps, write, start, "its void fails: the session is another by now");
        return;
    };
    let leased = Leased { server, space };
    steps.step(write.label("R7", "its void is confirmed"), |after| {
        *after.redis.cell_mut(leased, write.key) = Cell::Lease(write.as_u8());
        model.prepared(after, write, start, Some(leased));
    });
    if steps.state.budget.lost_voids > 0 {
        steps.step(write.label("env", "its void is lost"), |after| {
            after.budget.lost_voids -= 1;
            if model.rules.lack(Mutation::UnconfirmedVoidIgnored) {
                model.prepared(after, write, start, None);
            } else {
                bar(after, write, start);
            }
        });
    }
}

fn bar_space(steps: &mut Steps<'_>, write: Write, start: WriteStart, what: &'static str) {
    let model = steps.model;
    steps.step(write.label("R4", what), |after| {
        if model.rules.lack(Mutation::UnconfirmedVoidIgnored) {
            model.prepared(after, write, start, None);
        } else {
            bar(after, write, start);
        }
    });
}

/// R4: unless the slot has moved on meanwhile, its space is barred until it changes.
fn bar(after: &mut State, write: Write, start: WriteStart) {
    let hold = &mut after.process_mut(write.process).slots[write.slot].hold;
    if hold.tenure() == start.tenure {
        hold.mark_void_unconfirmed();
    }
    after.operations[write.number].stage = Stage::Registered(start.reign);
}

/// W3 and W4.
fn execute(steps: &mut Steps<'_>, write: Write, prepared: Prepared) {
    let model = steps.model;
    if model.is_fenced(steps.state, write.slot, prepared.start.tenure.0, prepared.gained) {
        let running = &steps.state.processes[write.process];
        let newer = running.slots[write.slot].hold.tenure() > prepared.start.tenure;
        let gone = !running.claimed || running.incarnation != model.incarnation(steps.state, running.node);
        if gone || model.rules.lack(Mutation::FencedIsRefused) {
            steps.step(write.label("W4", "is fenced and refused"), |after| write.refuse(after));
        }
        if newer && !model.rules.lack(Mutation::FencedIsRefused) {
            steps.step(write.label("W4", "is fenced and goes again under a newer tenure"), |after| {
                after.operations[write.number].stage = Stage::Registered(prepared.start.reign);
            });
        }
    } else if model.rules.lack(Mutation::FenceWithoutRowLock) {
        steps.step(write.label("W3", "its fence is looked at"), |after| {
            after.operations[write.number].stage = Stage::FenceSeen(prepared);
        });
    } else {
        commit(steps, write, prepared);
    }
    if steps.state.budget.unknown_writes > 0 {
        steps.step(write.label("W6", "its outcome is unknown"), |after| {
            after.budget.unknown_writes -= 1;
            model.unknown(after, write, prepared, false);
        });
    }
}

fn commit(steps: &mut Steps<'_>, write: Write, prepared: Prepared) {
    let model = steps.model;
    steps.step(write.label("W3", "commits").with(write.content()), |after| {
        committed(model, after, write, prepared.start.tenure.0);
        let void_due = model.environment.l2 && model.rules.lack(Mutation::VoidAfterCommit);
        let next = if void_due { Stage::Unvoided(prepared) } else { Stage::Committed(prepared) };
        after.operations[write.number].stage = next;
    });
}

fn void_late(steps: &mut Steps<'_>, write: Write, prepared: Prepared) {
    let model = steps.model;
    steps.step(write.label("R7", "deletes the L2 key after its commit"), |after| {
        let running = &after.processes[write.process];
        let space = running.slots[write.slot].hold.usable_l2_space().map_or(0, |space| space_in_use(space).1);
        if let Some(server) = model.reachable(running, &after.database, space) {
            *after.redis.cell_mut(Leased { server, space }, write.key) = Cell::Empty;
        }
        after.operations[write.number].stage = Stage::Committed(prepared);
    });
}

/// W5, one critical section, then the acknowledgement.
fn finish(model: &Model, after: &mut State, write: Write, prepared: Prepared) {
    let Write { key, process, slot, .. } = write;
    let content = write.content();
    if model.rules.lack(Mutation::InvalidateAfterCommit) {
        append_invalidate(after, process, slot, key);
    }
    let running = after.process_mut(process);
    let same = may_store_written(prepared.start.reign, running.slots[slot].reign());
    if same || model.rules.lack(Mutation::StoreWrittenWithoutReign) {
        running.keys[key].l1 = Some(L1Entry { content, tag: prepared.start.reign });
    }
    if same || model.rules.lack(Mutation::AppendWithoutReign) {
        append_value(after, process, slot, key, content);
    }
    after.process_mut(process).release_key(slot, key);
    if let Some(leased) = prepared.lease {
        after.operations[write.number].redeem = Some(Redeem { leased, content });
    }
    acknowledged(after, write.number, key, content);
}

impl Model {
    /// W1: whether the write may register at the process, under its slot.
    fn registers(&self, process: &Process, write: Write) -> bool {
        let busy = process.keys[write.key].writer_active && !self.rules.lack(Mutation::TwoWriters);
        let (hold, unsettled) = (&process.slots[write.slot].hold, process.unsettled(write.slot) > 0);
        register_step(hold, self.looked_for(write.key), unsettled, busy) == RegisterStep::Register
    }

    /// W2 is done: the statement is next.
    fn prepared(&self, after: &mut State, write: Write, start: WriteStart, lease: Option<Leased>) {
        let gained = after.processes[write.process].slots[write.slot].gained;
        let prepared = Prepared { start, gained, lease };
        let untold = self.rules.lack(Mutation::InvalidateLater);
        after.operations[write.number].stage = if untold { Stage::Untold(prepared) } else { Stage::Prepared(prepared) };
    }

    /// I1: whether the statement's fence refuses it.
    pub(crate) fn is_fenced(&self, state: &State, slot: usize, tenure: i64, gained: u8) -> bool {
        let row = state.database.slots[slot];
        if self.rules.lack(Mutation::NoFence) {
            false
        } else if self.rules.lack(Mutation::FenceByGained) {
            row.gained != gained
        } else {
            i64::from(row.tenure) != tenure && !self.commits_across_pin(&state.database, slot, tenure)
        }
    }
}
