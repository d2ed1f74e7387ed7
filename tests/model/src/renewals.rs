//! The steps of RENEW (R3, R4): new tenures for a slot, to settle an unknown write or to change its L2 space.

use crate::database::{LateRenewal, SlotRow};
use crate::mutation::Mutation;
use crate::ownership::{Source, apply_row, space_in_use};
use crate::state::{Stage, State};
use crate::step::{Label, Model, Steps};

/// What a RENEW does to the slot's L2 space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    Keep,
    Clear,
    NewSpace,
}

impl Want {
    const ALL: [Self; 3] = [Self::Keep, Self::Clear, Self::NewSpace];

    fn words(self, other_key: bool) -> &'static str {
        match (self, other_key) {
            (Self::Keep, false) => "renews the slot, to settle a write",
            (Self::Clear, false) => "renews the slot without L2 space",
            (Self::NewSpace, false) => "renews the slot with a new L2 space",
            (Self::Keep, true) => "renews the slot for another key",
            (Self::Clear, true) => "renews the slot for another key, without L2 space",
            (Self::NewSpace, true) => "renews the slot for another key, with a new L2 space",
        }
    }
}

/// All steps of RENEW.
pub(crate) fn steps(steps: &mut Steps<'_>) {
    for process in steps.processes().filter(|process| steps.state.processes[*process].up).collect::<Vec<_>>() {
        for slot in 0..steps.model.environment.slots {
            renew(steps, process, slot);
            answer(steps, process, slot);
        }
    }
    if let Some(late) = steps.state.database.late_renewal {
        steps.step(Label::new("R3", "a late RENEW lands"), |after| {
            after.database.late_renewal = None;
            after.database.renew(usize::from(late.slot), late.held, late.space);
        });
    }
}

fn renew(steps: &mut Steps<'_>, process: usize, slot: usize) {
    let model = steps.model;
    let running = &steps.state.processes[process];
    let side = &running.slots[slot];
    let row = steps.state.database.slots[slot];
    let hits = row.owner == running.node && i64::from(row.tenure) == side.hold.tenure().0;
    // Sealed and drained: a new tenure now would only make the flip fail.
    let awaits_flip = side.hold.sealed().is_some() && side.registered == 0;
    if !side.hold.is_mine() || side.renewal.is_some() || awaits_flip || !hits {
        return;
    }
    for want in Want::ALL {
        if want == Want::NewSpace && !model.may_have_new_space(steps.state, process, slot) {
            continue;
        }
        let wanted = model.is_wanted(steps.state, process, slot, want);
        let for_another = steps.state.budget.renewals > 0 && model.is_worth_it(row.space, want);
        for other_key in [false, true] {
            if !(if other_key { for_another } else { wanted }) {
                continue;
            }
            steps.step(Label::new("R3", want.words(other_key)).at(process), |after| {
                after.budget.renewals -= u8::from(other_key);
                let space = new_space(after, process, slot, want);
                let renewed = after.database.renew(slot, row.tenure, space);
                after.process_mut(process).slots[slot].renewal = renewed;
            });
            if steps.state.budget.lost_renewals > 0 && steps.state.database.late_renewal.is_none() {
                steps.step(Label::new("env", "its RENEW is sent and its connection breaks").at(process), |after| {
                    after.budget.renewals -= u8::from(other_key);
                    after.budget.lost_renewals -= 1;
                    let space = new_space(after, process, slot, want);
                    let slot = u8::try_from(slot).expect("few slots");
                    after.database.late_renewal = Some(LateRenewal { slot, held: row.tenure, space });
                });
            }
        }
    }
}

fn new_space(after: &mut State, process: usize, slot: usize, want: Want) -> u8 {
    match (want, after.processes[process].session) {
        (Want::Clear, _) | (Want::NewSpace, None) => 0,
        (Want::Keep, _) => after.database.slots[slot].space,
        (Want::NewSpace, Some(session)) => after.database.next_space(session.identity),
    }
}

/// RETURNING comes, or its connection is lost and the next table read tells.
fn answer(steps: &mut Steps<'_>, process: usize, slot: usize) {
    let model = steps.model;
    let Some(row) = steps.state.processes[process].slots[slot].renewal else { return };
    let row = SlotRow { pinned: row.pinned && !model.rules.lack(Mutation::RenewalForgetsPinned), ..row };
    steps.step(Label::new("R3", "hears of its RENEW and applies the row").at(process), |after| {
        after.process_mut(process).slots[slot].renewal = None;
        apply_row(model, after, process, slot, row, Source::OwnStatement);
    });
    if steps.state.budget.lost_renewals > 0 {
        steps.step(Label::new("env", "the answer to its RENEW is lost").at(process), |after| {
            after.budget.lost_renewals -= 1;
            after.process_mut(process).slots[slot].renewal = None;
        });
    }
}

impl Model {
    fn is_wanted(&self, state: &State, process: usize, slot: usize, want: Want) -> bool {
        let side = &state.processes[process].slots[slot];
        match want {
            Want::Keep => state.processes[process].unsettled(slot) > 0,
            Want::Clear => {
                let mut waiting = state.operations.iter().filter(|operation| {
                    let here = usize::from(operation.slot) == slot && usize::from(operation.process) == process;
                    here && matches!(operation.stage, Stage::Registered(_))
                });
                let barred = side.hold.usable_l2_space().is_none() && !side.hold.l2_is_off();
                barred && waiting.next().is_some()
            }
            Want::NewSpace => {
                let usable = side.hold.usable_l2_space().is_some_and(|space| {
                    self.reachable(&state.processes[process], &state.database, space_in_use(space).1).is_some()
                });
                !usable
            }
        }
    }

    fn may_have_new_space(&self, state: &State, process: usize, slot: usize) -> bool {
        let running = &state.processes[process];
        let open = running.slots[slot].hold.sealed().is_none();
        self.environment.l2 && open && running.session.is_some() && state.database.has_spaces_left()
    }

    /// Without an L2 space there is none to take away.
    fn is_worth_it(&self, space: u8, want: Want) -> bool {
        want != Want::Clear || space > 0
    }
}
