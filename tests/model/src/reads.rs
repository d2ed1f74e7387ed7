//! The steps of reads (G1–G6). What may be done is decided by `placement::freshness`.

use placement::freshness::{Bypass, LoadStart, ReadStep, View, may_redeem, may_store, read_step};
use placement::slot_hold::Reign;

use crate::environment::Kind;
use crate::handoff::{append_value, leave_out};
use crate::mutation::Mutation;
use crate::ownership::space_in_use;
use crate::process::{L1Entry, Process};
use crate::properties::answered;
use crate::redis::Cell;
use crate::state::{Content, Leased, Redeem, Stage, State};
use crate::step::{Label, Model, Steps};

/// All steps of all reads.
pub(crate) fn steps(steps: &mut Steps<'_>) {
    let model = steps.model;
    for (number, &(kind, slot)) in model.environment.operations.iter().enumerate() {
        let operation = steps.state.operations[number];
        let process = usize::from(operation.process);
        let label = |rule, what| Label::new(rule, what).at(process).of(number, kind);
        match operation.stage {
            Stage::Waiting if kind == Kind::Read && model.environment.is_next(steps.state, number) => {
                begin(steps, number, slot);
            }
            Stage::Looking(reign) => see_lease(steps, number, slot, reign),
            Stage::LeaseSeen(reign) => steps.step(label("G1", "looks into L1"), |after| {
                match model.l1_of(&after.processes[process], slot, reign) {
                    Some(content) => answer(model, after, number, slot, content),
                    None => enter(model, after, number, slot),
                }
            }),
            Stage::Asking(start, space) if model.rules.lack(Mutation::IdentityReadFirst) => {
                look_first(steps, number, start, space);
            }
            Stage::Asking(start, space) | Stage::Trusting(start, space) => look_up(steps, number, slot, start, space),
            Stage::Found(start, leased, content) => look_again(steps, number, start, leased, content),
            Stage::Loading(start, leased) => {
                let content = steps.state.database.entries[slot];
                steps.step(label("G3", "reads the origin").with(content), |after| {
                    after.operations[number].stage = Stage::Loaded(start, leased, content);
                });
            }
            Stage::Loaded(start, leased, content) => {
                steps.step(label("G5", "ends its load and answers").with(content), |after| {
                    finish(model, after, number, slot, start, leased, content);
                });
                leave_out(steps, process, label("G5", "ends its load; the stream's queue is long"), |after| {
                    finish(model, after, number, slot, start, leased, content);
                });
            }
            Stage::Direct => {
                let content = steps.state.database.entries[slot];
                steps.step(label("G6", "reads the origin, past all caches").with(content), |after| {
                    answer(model, after, number, slot, content);
                });
            }
            _ => {}
        }
        redeem(steps, number, slot);
    }
}

/// A gateway sends the read to any node, whatever its ring says (Gw1).
fn begin(steps: &mut Steps<'_>, number: usize, slot: usize) {
    let model = steps.model;
    for process in steps.processes() {
        let running = &steps.state.processes[process];
        let view = model.read_view(running, slot);
        // Without lease or under a seal it would be a read of the origin: that is the detached read below.
        let by_itself = matches!(read_step(view, None, None), ReadStep::Direct(Bypass::Lease | Bypass::Sealed));
        if !running.up || !view.mine || by_itself {
            continue;
        }
        let label = Label::new("G1", "begins").at(process).of(number, Kind::Read);
        steps.step(label, |after| {
            invoke(after, number, slot, process);
            if model.environment.pauses {
                after.operations[number].stage = Stage::Looking(view.now.reign);
            } else {
                enter(model, after, number, slot);
            }
        });
    }
    if model.environment.detached {
        let content = steps.state.database.entries[slot];
        let label = Label::new("G6", "is served detached, from the origin").of(number, Kind::Read).with(content);
        steps.step(label, |after| {
            invoke(after, number, slot, 0);
            answer(model, after, number, slot, content);
        });
    }
}

fn invoke(after: &mut State, number: usize, slot: usize, process: usize) {
    let bound = after.seen[slot];
    let operation = &mut after.operations[number];
    operation.process = u8::try_from(process).expect("few processes");
    operation.bound = bound;
}

/// The lock-free hit path looks at the lease after it has noted the reign.
fn see_lease(steps: &mut Steps<'_>, number: usize, slot: usize, reign: Reign) {
    let model = steps.model;
    let process = usize::from(steps.state.operations[number].process);
    let valid = model.read_view(&steps.state.processes[process], slot).lease_valid;
    let label = Label::new("G1", "looks at the lease").at(process).of(number, Kind::Read);
    steps.step(label, |after| {
        if valid {
            after.operations[number].stage = Stage::LeaseSeen(reign);
        } else {
            enter(model, after, number, slot);
        }
    });
}

/// G1, in one critical section.
fn enter(model: &Model, after: &mut State, number: usize, slot: usize) {
    let process = usize::from(after.operations[number].process);
    let running = &after.processes[process];
    let view = model.read_view(running, slot);
    let side = &running.slots[slot];
    let tag = side.l1.filter(|_| model.l1_of(running, slot, view.now.reign).is_some()).map(|_| view.now.reign);
    let load = side.load.map(|(_, start)| model.joinable(start, view));
    let joined = side.load.map(|(leader, _)| leader);
    let content = side.l1.map(|entry| entry.content);
    match read_step(view, tag, load) {
        ReadStep::NotOwner => after.operations[number].end(),
        ReadStep::Direct(_) => after.operations[number].stage = Stage::Direct,
        ReadStep::Hit => answer(model, after, number, slot, content.expect("a hit is an entry")),
        ReadStep::Join => after.operations[number].stage = Stage::Joined(joined.expect("a joined load has a leader")),
        ReadStep::Lead(start) => {
            let space = side.hold.usable_l2_space().map_or(0, |space| space_in_use(space).1);
            let leader = u8::try_from(number).expect("few operations");
            after.process_mut(process).slots[slot].load = Some((leader, start));
            after.operations[number].stage =
                if space > 0 { Stage::Asking(start, space) } else { Stage::Loading(start, None) };
        }
    }
}

/// G2.
fn look_up(steps: &mut Steps<'_>, number: usize, slot: usize, start: LoadStart, space: u8) {
    let model = steps.model;
    let process = usize::from(steps.state.operations[number].process);
    let label = |what| Label::new("G2", what).at(process).of(number, Kind::Read);
    let Some(server) = model.reachable(&steps.state.processes[process], &steps.state.database, space) else {
        steps.step(label("goes without L2"), |after| after.operations[number].stage = Stage::Loading(start, None));
        return;
    };
    let leased = Leased { server, space };
    match steps.state.redis.cell(leased, slot) {
        Cell::Value(content) => steps.step(label("finds a value in L2").with(content), |after| {
            after.operations[number].stage = if model.looks_again() {
                Stage::Found(start, leased, content)
            } else {
                Stage::Loaded(start, None, content)
            };
        }),
        Cell::Lease(_) if !model.rules.lack(Mutation::LeaseWithoutNx) => {
            steps.step(label("finds another's lease in L2"), |after| {
                after.operations[number].stage = Stage::Loading(start, None);
            });
        }
        Cell::Lease(_) | Cell::Empty => steps.step(label("takes the lease in L2"), |after| {
            *after.redis.cell_mut(leased, slot) = Cell::Lease(u8::try_from(number).expect("few operations"));
            after.operations[number].stage = Stage::Loading(start, Some(leased));
        }),
    }
}

/// R1: a value counts only if the server still is, after it was read, what the session began with.
fn look_again(steps: &mut Steps<'_>, number: usize, start: LoadStart, leased: Leased, content: Content) {
    let model = steps.model;
    let process = usize::from(steps.state.operations[number].process);
    let label = |what| Label::new("R1", what).at(process).of(number, Kind::Read).with(content);
    if model.is_still_itself(steps.state, process, leased) {
        steps.step(label("finds the same identity at the L2 server: the value counts"), |after| {
            after.operations[number].stage = Stage::Loaded(start, None, content);
        });
    } else {
        steps.step(
            label("finds another identity at the L2 server, or no session: the value does not count"),
            |after| {
                // Unless another has taken its place.
                if model.reachable(&after.processes[process], &after.database, leased.space).is_some() {
                    after.process_mut(process).session = None;
                }
                after.operations[number].stage = Stage::Loading(start, None);
            },
        );
    }
}

/// The same look before the value is read, as it must not be.
fn look_first(steps: &mut Steps<'_>, number: usize, start: LoadStart, space: u8) {
    let model = steps.model;
    let process = usize::from(steps.state.operations[number].process);
    let label = |what| Label::new("R1", what).at(process).of(number, Kind::Read);
    let server = model.reachable(&steps.state.processes[process], &steps.state.database, space);
    let trusted =
        server.filter(|server| model.is_still_itself(steps.state, process, Leased { server: *server, space }));
    let next = if trusted.is_some() { Stage::Trusting(start, space) } else { Stage::Loading(start, None) };
    steps.step(label("looks at the identity of the L2 server"), |after| after.operations[number].stage = next);
}

/// G4's check and G5, in one critical section; then the answer.
fn finish(
    model: &Model,
    after: &mut State,
    number: usize,
    slot: usize,
    start: LoadStart,
    leased: Option<Leased>,
    content: Content,
) {
    let process = usize::from(after.operations[number].process);
    let view = after.processes[process].view(slot);
    if may_store(start, model.store_view(start, view)) {
        after.process_mut(process).slots[slot].l1 = Some(L1Entry { content, tag: start.reign });
        append_value(after, process, slot, content);
    }
    let redeems = model.rules.lack(Mutation::RedeemUnchecked) || may_redeem(start, model.redeem_view(start, view));
    if let Some(leased) = leased.filter(|_| redeems) {
        after.operations[number].redeem = Some(Redeem { leased, content });
    }
    let side = &mut after.process_mut(process).slots[slot];
    if side.load.is_some_and(|(leader, _)| usize::from(leader) == number) {
        side.load = None;
    }
    answer(model, after, number, slot, content);
}

/// The answer to the read and to all who joined its load.
fn answer(model: &Model, after: &mut State, number: usize, slot: usize, content: Content) {
    answered(after, number, slot, content);
    for joined in 0..model.environment.operations.len() {
        if after.operations[joined].stage == Stage::Joined(u8::try_from(number).expect("few operations")) {
            answered(after, joined, slot, content);
        }
    }
}

/// R8: a redeem lands at any time after it was sent.
fn redeem(steps: &mut Steps<'_>, number: usize, slot: usize) {
    let Some(Redeem { leased, content }) = steps.state.operations[number].redeem else { return };
    let kind = steps.model.environment.operations[number].0;
    let ours = steps.state.redis.cell(leased, slot) == Cell::Lease(u8::try_from(number).expect("few operations"));
    let fills = ours || steps.model.rules.lack(Mutation::RedeemWithoutCompare);
    let what = if fills { "its redeem lands and fills the L2 key" } else { "its redeem lands and finds another nonce" };
    steps.step(Label::new("R8", what).of(number, kind).with(content), |after| {
        after.operations[number].redeem = None;
        if fills {
            *after.redis.cell_mut(leased, slot) = Cell::Value(content);
        }
    });
}

/// What the mutations of G1, G4 and G5 make of production's decisions.
impl Model {
    fn read_view(&self, process: &Process, slot: usize) -> View {
        let view = process.view(slot);
        View {
            lease_valid: view.lease_valid || self.rules.lack(Mutation::ReadWithoutLease),
            writer_active: view.writer_active && !self.rules.lack(Mutation::ReadBesideWriter),
            ..view
        }
    }

    /// What L1 has for a look-up under the reign.
    fn l1_of(&self, process: &Process, slot: usize, reign: Reign) -> Option<Content> {
        let entry = process.slots[slot].l1?;
        (entry.tag == reign || self.rules.lack(Mutation::LookUpWithoutTag)).then_some(entry.content)
    }

    /// Whether the identity of a server is read once more after a value: a step of its own only where it can be another by then.
    fn looks_again(&self) -> bool {
        let without = [Mutation::IdentityNotReread, Mutation::IdentityReadFirst];
        self.environment.budget.quiet_demotions > 0 && !without.iter().any(|mutation| self.rules.lack(*mutation))
    }

    /// Whether the session is there and its server is what the space belongs to.
    fn is_still_itself(&self, state: &State, process: usize, at: Leased) -> bool {
        let reachable = self.reachable(&state.processes[process], &state.database, at.space) == Some(at.server);
        let wanted = state.database.spaces[usize::from(at.space)];
        reachable && state.redis.servers[usize::from(at.server)].identity == wanted
    }

    /// The start of the load in progress, as the decision to join it sees it.
    fn joinable(&self, start: LoadStart, view: View) -> LoadStart {
        let same_guard = start.guard == view.now.guard;
        let joins = self.rules.lack(Mutation::JoinAnyLoad) || same_guard && self.rules.lack(Mutation::JoinByGuardOnly);
        if joins { view.now } else { start }
    }

    fn store_view(&self, start: LoadStart, view: View) -> View {
        let mut now = view.now;
        if self.rules.lack(Mutation::StoreWithoutGuard) {
            now.guard = start.guard;
        }
        if self.rules.lack(Mutation::StoreWithoutReign) {
            now.reign = start.reign;
        }
        View { now, ..view }
    }

    fn redeem_view(&self, start: LoadStart, view: View) -> View {
        let mut now = view.now;
        if self.rules.lack(Mutation::RedeemWithoutGuard) {
            now.guard = start.guard;
        }
        let reign_ignored = self.rules.lack(Mutation::RedeemWithoutReign);
        if reign_ignored {
            now.reign = start.reign;
        }
        View {
            now,
            mine: view.mine || reign_ignored,
            lease_valid: view.lease_valid || self.rules.lack(Mutation::RedeemWithoutLease),
            sealed: view.sealed && !self.rules.lack(Mutation::RedeemWithoutSeal),
            ..view
        }
    }
}
