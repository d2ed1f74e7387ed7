//! What becomes of writes that do not end well (W6, X2): unknown outcomes, dropped tasks, dead processes, statements that land
//! late. What becomes of the key is decided by `placement::write_steps`.

use placement::write_steps::WriteStage;

use crate::mutation::Mutation;
use crate::properties::committed;
use crate::state::{Late, Prepared, Stage, State};
use crate::step::{Label, Model, Steps};
use crate::writes::Write;

/// X2: the task of a registered write is dropped at an await.
pub(crate) fn drop_task(steps: &mut Steps<'_>, write: Write) {
    let model = steps.model;
    let operation = steps.state.operations[write.number];
    if steps.state.budget.dropped_writes == 0 || !operation.is_registered() {
        return;
    }
    let drop_it = |steps: &mut Steps<'_>, what, sent: Option<Prepared>| {
        steps.step(write.label("X2", what), |after| {
            after.budget.dropped_writes -= 1;
            if let Some(prepared) = sent {
                after.operations[write.number].late = Some(late(write.slot_as_u8(), prepared, false));
            }
            let frees = model.rules.lack(Mutation::DroppedWriteFreesKey);
            let stage = match sent.filter(|_| !frees) {
                Some(prepared) => WriteStage::Sent(prepared.start.tenure),
                None => WriteStage::Registered,
            };
            if !model.rules.lack(Mutation::DroppedWriteLeavesMarks) {
                write.leave(after, stage);
            }
            after.operations[write.number].end();
        });
    };
    if let Stage::Prepared(prepared) = operation.stage {
        drop_it(steps, "its task is dropped, the statement sent", Some(prepared));
    }
    drop_it(steps, "its task is dropped, no statement under way", None);
}

/// A statement whose connection is gone lands: it commits if its fence still holds.
pub(crate) fn land_late(steps: &mut Steps<'_>, write: Write) {
    let model = steps.model;
    let Some(late) = steps.state.operations[write.number].late else { return };
    let label = |what| Label::new("W6", what).of(write.number, write.kind).with(write.content());
    if !late.fence_seen && model.is_fenced(steps.state, usize::from(late.slot), i64::from(late.tenure), late.gained) {
        steps.step(label("its late statement is fenced"), |after| after.operations[write.number].late = None);
    } else if !late.fence_seen && model.rules.lack(Mutation::FenceWithoutRowLock) {
        steps.step(label("the fence of its late statement is looked at"), |after| {
            after.operations[write.number].late = Some(Late { fence_seen: true, ..late });
        });
    } else {
        steps.step(label("its late statement commits"), |after| {
            after.operations[write.number].late = None;
            committed(model, after, Write { slot: usize::from(late.slot), ..write }, i64::from(late.tenure));
        });
    }
}

fn late(slot: u8, prepared: Prepared, fence_seen: bool) -> Late {
    let tenure = u8::try_from(prepared.start.tenure.0).expect("few tenures");
    Late { slot, tenure, gained: prepared.gained, fence_seen }
}

impl Model {
    /// W6: the client is told "unknown"; the statement stays on its way.
    pub(crate) fn unknown(&self, after: &mut State, write: Write, prepared: Prepared, fence_seen: bool) {
        after.operations[write.number].late = Some(late(write.slot_as_u8(), prepared, fence_seen));
        let early = self.rules.lack(Mutation::KeyFreedBeforeRenewal);
        if early || self.rules.lack(Mutation::SettledBySameReign) {
            write.leave(after, WriteStage::Registered);
        } else {
            write.leave(after, WriteStage::Sent(prepared.start.tenure));
        }
        if early {
            after.process_mut(write.process).keys[write.key].unsettled =
                Some((write.slot_as_u8(), prepared.start.tenure));
        }
        after.operations[write.number].end();
        if self.rules.lack(Mutation::UnknownSentAgain) {
            after.operations[write.number].stage = Stage::Waiting;
        }
    }
}

/// What happens to the operations of a process that dies: a statement may be under way, nothing else is left.
pub(crate) fn die_with(after: &mut State, process: usize, operations: usize) {
    for operation in &mut after.operations[..operations] {
        if !operation.is_running() || usize::from(operation.process) != process {
            continue;
        }
        match operation.stage {
            Stage::Prepared(prepared) => operation.late = Some(late(operation.slot, prepared, false)),
            Stage::FenceSeen(prepared) => operation.late = Some(late(operation.slot, prepared, true)),
            _ => {}
        }
        operation.end();
    }
}
