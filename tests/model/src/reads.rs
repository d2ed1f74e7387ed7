//! The steps of reads (G1–G6). What may be done is decided by `placement::freshness`.

use placement::freshness::{Bypass, LoadStart, ReadStep, View, may_redeem, may_store, read_step};
use placement::slot_hold::Reign;

use crate::environment::Kind;
use crate::handoff::{append_value, leave_out};
use crate::mutation::Mutation;
use crate::ownership::space_in_use;
use crate::pinning::{resolve, user};
use crate::process::{L1Entry, Process};
use crate::properties::answered;
use crate::redis::Cell;
use crate::state::{Content, Leased, Redeem, Stage, State};
use crate::step::{Label, Model, Steps};

/// All steps of all reads.
pub(crate) fn steps(steps: &mut Steps<'_>) {
    let model = steps.model;
    for number in 0..model.environment.operations.len() {
        let read = Read::of(steps, number);
        let process = read.process;
        match steps.state.operations[number].stage {
            Stage::Waiting if read.kind == Kind::Read && model.environment.is_next(steps.state, number) => {
                begin(steps, read);
            }
            Stage::Resolved if read.kind == Kind::Read => enter_resolved(steps, read),
            Stage::Looking(reign) => see_lease(steps, read, reign),
            Stage::LeaseSeen(reign) => steps.step(read.label("G1", "looks into L1"), |after| {
                match model.l1_of(&after.processes[process], read.key, reign) {
                    Some(content) => answer(model, after, read, content),
                    None => enter(model, after, read),
                }
            }),
            Stage::Asking(start, space) if model.rules.lack(Mutation::IdentityReadFirst) => {
                look_first(steps, read, start, space);
            }
            Stage::Asking(start, space) | Stage::Trusting(start, space) => look_up(steps, read, start, space),
            Stage::Found(start, leased, content) => look_again(steps, read, start, leased, content),
            Stage::Loading(start, leased) => {
                let content = steps.state.database.entries[read.key];
                steps.step(read.label("G3", "reads the origin").with(content), |after| {
                    after.operations[number].stage = Stage::Loaded(start, leased, content);
                });
            }
            Stage::Loaded(start, leased, content) => {
                steps.step(read.label("G5", "ends its load and answers").with(content), |after| {
                    finish(model, after, read, start, leased, content);
                });
                leave_out(steps, process, read.label("G5", "ends its load; the stream's queue is long"), |after| {
                    finish(model, after, read, start, leased, content);
                });
            }
            Stage::Direct => {
                let content = steps.state.database.entries[read.key];
                steps.step(read.label("G6", "reads the origin, past all caches").with(content), |after| {
                    answer(model, after, read, content);
                });
            }
            _ => {}
        }
        redeem(steps, read);
    }
}

/// A read and where it runs; also a write, of which only the redeem is looked at here.
#[derive(Clone, Copy)]
struct Read {
    number: usize,
    kind: Kind,
    key: usize,
    slot: usize,
    process: usize,
}

impl Read {
    fn of(steps: &Steps<'_>, number: usize) -> Self {
        let (kind, key) = steps.model.environment.operations[number];
        let operation = steps.state.operations[number];
        Self { number, kind, key, slot: usize::from(operation.slot), process: usize::from(operation.process) }
    }

    fn label(self, rule: &'static str, what: &'static str) -> Label {
        Label::new(rule, what).at(self.process).of(self.number, self.kind)
    }

    fn as_u8(self) -> u8 {
        u8::try_from(self.number).expect("few operations")
    }
}

/// A gateway sends the read to any node, whatever its ring says (Gw1).
fn begin(steps: &mut Steps<'_>, read: Read) {
    let model = steps.model;
    let Read { number, key, .. } = read;
    for process in steps.processes() {
        resolve(steps, number, process);
        let running = &steps.state.processes[process];
        let read = Read { process, slot: model.resolved(running, key), ..read };
        let view = model.read_view(running, read);
        // Without lease or under a seal it would be a read of the origin: that is the detached read below.
        let by_itself = matches!(read_step(view, None, None), ReadStep::Direct(Bypass::Lease | Bypass::Sealed));
        if !running.up || !view.mine || by_itself {
            continue;
        }
        steps.step(read.label("G1", "begins"), |after| {
            after.invoke(number, key, read.slot, process);
            if model.environment.pauses {
                after.operations[number].stage = Stage::Looking(view.now.reign);
            } else {
                enter(model, after, read);
            }
        });
    }
    if model.environment.detached {
        let content = steps.state.database.entries[key];
        let label = Label::new("G6", "is served detached, from the origin").of(number, Kind::Read).with(content);
        steps.step(label, |after| {
            after.invoke(number, key, 0, 0);
            answer(model, after, read, content);
        });
    }
}

/// P4: the slot is entered when its row names the user by now.
fn enter_resolved(steps: &mut Steps<'_>, read: Read) {
    let model = steps.model;
    let running = &steps.state.processes[read.process];
    if !model.has_left(running, read.key) {
        return;
    }
    let view = model.read_view(running, read);
    let hits_unlooked = model.environment.pauses && !view.sealed && model.rules.lack(Mutation::HitPinned);
    let what = "enters the slot, whose row names the user by now";
    steps.step(read.label("P4", what), |after| {
        if hits_unlooked {
            after.operations[read.number].stage = Stage::Looking(view.now.reign);
        } else {
            enter(model, after, read);
        }
    });
}

/// The lock-free hit path looks at the lease after it has noted the reign.
fn see_lease(steps: &mut Steps<'_>, read: Read, reign: Reign) {
    let model = steps.model;
    let valid = model.read_view(&steps.state.processes[read.process], read).lease_valid;
    steps.step(read.label("G1", "looks at the lease"), |after| {
        if valid {
            after.operations[read.number].stage = Stage::LeaseSeen(reign);
        } else {
            enter(model, after, read);
        }
    });
}

/// G1, in one critical section.
fn enter(model: &Model, after: &mut State, read: Read) {
    let Read { number, key, slot, process, .. } = read;
    let running = &after.processes[process];
    let view = model.read_view(running, read);
    let side = &running.keys[key];
    let tag = side.l1.filter(|_| model.l1_of(running, key, view.now.reign).is_some()).map(|_| view.now.reign);
    let load = side.load.map(|(_, start)| model.joinable(start, view));
    let joined = side.load.map(|(leader, _)| leader);
    let content = side.l1.map(|entry| entry.content);
    match read_step(view, tag, load) {
        ReadStep::NotOwner => after.operations[number].end(),
        ReadStep::Direct(_) => after.operations[number].stage = Stage::Direct,
        ReadStep::Hit => answer(model, after, read, content.expect("a hit is an entry")),
        ReadStep::Join => after.operations[number].stage = Stage::Joined(joined.expect("a joined load has a leader")),
        ReadStep::Lead(start) => {
            let space = running.slots[slot].hold.usable_l2_space().map_or(0, |space| space_in_use(space).1);
            after.process_mut(process).keys[key].load = Some((read.as_u8(), start));
            after.operations[number].stage =
                if space > 0 { Stage::Asking(start, space) } else { Stage::Loading(start, None) };
        }
    }
}

/// G2.
fn look_up(steps: &mut Steps<'_>, read: Read, start: LoadStart, space: u8) {
    let model = steps.model;
    let Read { number, key, process, .. } = read;
    let label = |what| read.label("G2", what);
    let Some(server) = model.reachable(&steps.state.processes[process], &steps.state.database, space) else {
        steps.step(label("goes without L2"), |after| after.operations[number].stage = Stage::Loading(start, None));
        return;
    };
    let leased = Leased { server, space };
    match steps.state.redis.cell(leased, key) {
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
            *after.redis.cell_mut(leased, key) = Cell::Lease(read.as_u8());
            after.operations[number].stage = Stage::Loading(start, Some(leased));
        }),
    }
}

/// R1: a value counts only if the server still is, after it was read, what the session began with.
fn look_again(steps: &mut Steps<'_>, read: Read, start: LoadStart, leased: Leased, content: Content) {
    let model = steps.model;
    let Read { number, process, .. } = read;
    let label = |what| read.label("R1", what).with(content);
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
fn look_first(steps: &mut Steps<'_>, read: Read, start: LoadStart, space: u8) {
    let model = steps.model;
    let Read { number, process, .. } = read;
    let server = model.reachable(&steps.state.processes[process], &steps.state.database, space);
    let trusted =
        server.filter(|server| model.is_still_itself(steps.state, process, Leased { server: *server, space }));
    let next = if trusted.is_some() { Stage::Trusting(start, space) } else { Stage::Loading(start, None) };
    let label = read.label("R1", "looks at the identity of the L2 server");
    steps.step(label, |after| after.operations[number].stage = next);
}

/// G4's check and G5, in one critical section; then the answer.
fn finish(model: &Model, after: &mut State, read: Read, start: LoadStart, leased: Option<Leased>, content: Content) {
    let Read { number, key, slot, process, .. } = read;
    let view = after.processes[process].view(slot, key, user(key));
    if may_store(start, model.store_view(start, view)) {
        after.process_mut(process).keys[key].l1 = Some(L1Entry { content, tag: start.reign });
        append_value(after, process, slot, key, content);
    }
    let redeems =
        model.rules.lack(Mutation::RedeemUnchecked) || may_redeem(start, model.redeem_view(after, read, start, view));
    if let Some(leased) = leased.filter(|_| redeems) {
        after.operations[number].redeem = Some(Redeem { leased, content });
    }
    let side = &mut after.process_mut(process).keys[key];
    if side.load.is_some_and(|(leader, _)| usize::from(leader) == number) {
        side.load = None;
    }
    answer(model, after, read, content);
}

/// The answer to the read and to all who joined its load.
fn answer(model: &Model, after: &mut State, read: Read, content: Content) {
    answered(after, read.number, read.key, content);
    for joined in 0..model.environment.operations.len() {
        if after.operations[joined].stage == Stage::Joined(read.as_u8()) {
            answered(after, joined, read.key, content);
        }
    }
}

/// R8: a redeem lands at any time after it was sent.
fn redeem(steps: &mut Steps<'_>, read: Read) {
    let Read { number, kind, key, .. } = read;
    let Some(Redeem { leased, content }) = steps.state.operations[number].redeem else { return };
    let ours = steps.state.redis.cell(leased, key) == Cell::Lease(read.as_u8());
    let fills = ours || steps.model.rules.lack(Mutation::RedeemWithoutCompare);
    let what = if fills { "its redeem lands and fills the L2 key" } else { "its redeem lands and finds another nonce" };
    steps.step(Label::new("R8", what).of(number, kind).with(content), |after| {
        after.operations[number].redeem = None;
        if fills {
            *after.redis.cell_mut(leased, key) = Cell::Value(content);
        }
    });
}

/// What the mutations of G1, G4 and G5 make of production's decisions.
impl Model {
    fn read_view(&self, process: &Process, read: Read) -> View {
        let view = process.view(read.slot, read.key, user(read.key));
        let pinned_too = self.rules.lack(Mutation::ReadPinned) && process.slots[read.slot].hold.is_mine();
        View {
            mine: view.mine || pinned_too,
            lease_valid: view.lease_valid || self.rules.lack(Mutation::ReadWithoutLease),
            writer_active: view.writer_active && !self.rules.lack(Mutation::ReadBesideWriter),
            ..view
        }
    }

    /// What L1 has for a look-up under the reign.
    fn l1_of(&self, process: &Process, key: usize, reign: Reign) -> Option<Content> {
        let entry = process.keys[key].l1?;
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

    fn redeem_view(&self, after: &State, read: Read, start: LoadStart, view: View) -> View {
        let mut now = view.now;
        if self.rules.lack(Mutation::RedeemWithoutGuard) {
            now.guard = start.guard;
        }
        let reign_ignored = self.rules.lack(Mutation::RedeemWithoutReign);
        if reign_ignored {
            now.reign = start.reign;
        }
        let hold = &after.processes[read.process].slots[read.slot].hold;
        let pinned_too = self.rules.lack(Mutation::RedeemPinned) && hold.is_mine();
        View {
            now,
            mine: view.mine || reign_ignored || pinned_too,
            lease_valid: view.lease_valid || self.rules.lack(Mutation::RedeemWithoutLease),
            sealed: view.sealed && !self.rules.lack(Mutation::RedeemWithoutSeal),
            ..view
        }
    }
}
