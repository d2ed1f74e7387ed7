//! Users with a slot of their own (P1, P4): the user of key 0 may leave slot 0, its home, for slot 1.
//!
//! The change that takes it there is a ring change like any other: `ring_change`, `handoff`.

use placement::{PinnedUser, Slot, UserId};

use crate::database::{ChangeRow, Database, Flip, SlotRow};
use crate::mutation::Mutation;
use crate::process::Process;
use crate::state::{Stage, State};
use crate::step::{Label, Model, Steps};

/// The slot that the user of [`LEAVES`] may get.
pub(crate) const OWN: usize = 1;
/// The key whose user may leave its home.
pub(crate) const LEAVES: usize = 0;
/// The key of another user with the same home.
pub(crate) const NEIGHBOUR: usize = 1;

/// The user of a key.
pub(crate) fn user(key: usize) -> &'static str {
    if key == LEAVES { "ada" } else { "bob" }
}

/// That user and its slot as lists of a home's users have it.
pub(crate) fn pinned() -> PinnedUser {
    let user = UserId::parse(user(LEAVES).as_bytes()).expect("it is a name");
    PinnedUser { slot: Slot::pinned(0).expect("it is the first"), user }
}

/// P4: an owner has found out which slot the request's user is served under, and pauses before it enters the slot. Told only
/// where the row that it holds is outdated, for a request that comes before the flip might as well come after it: the later it
/// comes, the newer an answer it must get.
pub(crate) fn resolve(steps: &mut Steps<'_>, number: usize, process: usize) {
    let model = steps.model;
    let (kind, key) = model.environment.operations[number];
    let running = &steps.state.processes[process];
    let home = model.environment.home(key);
    let outdated = model.slot_of(steps.state, key) != model.resolved(running, key);
    if !running.up || !outdated || !running.slots[home].hold.is_mine() {
        return;
    }
    let label = Label::new("P4", "comes: by the row held its user belongs to the home slot");
    steps.step(label.at(process).of(number, kind), |after| {
        after.invoke(number, key, home, process);
        after.operations[number].stage = Stage::Resolved;
    });
}

impl Model {
    /// Whether the row of the home that the process holds names the key's user.
    pub(crate) fn has_left(&self, process: &Process, key: usize) -> bool {
        process.slots[self.environment.home(key)].hold.pinned_slot(user(key)).is_some()
    }

    /// The slot that the process serves the key under, as far as the rows that it holds say.
    pub(crate) fn resolved(&self, process: &Process, key: usize) -> usize {
        if self.has_left(process, key) { OWN } else { self.environment.home(key) }
    }

    /// L3, L4: the slot gets an owner; its list stays (P7).
    pub(crate) fn gain(&self, after: &mut State, slot: usize, owner: u8) -> SlotRow {
        if self.rules.lack(Mutation::GainForgetsPinned) {
            after.database.slots[slot].pinned = false;
        }
        after.database.gain(slot, owner)
    }

    /// The slot that the key belongs to, by the database.
    pub(crate) fn slot_of(&self, state: &State, key: usize) -> usize {
        let home = self.environment.home(key);
        if key == LEAVES && state.database.slots[home].pinned { OWN } else { home }
    }

    /// P3, within the flip.
    pub(crate) fn pin(&self, after: &mut State, home: u8, own: u8, owner: u8) -> Flip {
        let (home, own) = (usize::from(home), usize::from(own));
        if self.rules.lack(Mutation::PinKeepsSpace) {
            after.database.slots[own].space = after.database.slots[home].space;
        }
        after.database.pin(home, own, owner, !self.rules.lack(Mutation::PinKeepsTenure))
    }

    /// Whether the flip that gave a user of the slot its own has left statements of that tenure able to commit, as it must not.
    pub(crate) fn commits_across_pin(&self, database: &Database, slot: usize, tenure: i64) -> bool {
        let before = |change: &ChangeRow| change.seal.is_some_and(|seal| i64::from(seal.tenure) == tenure);
        let flipped = |change: &ChangeRow| change.flip.is_some_and(|flip| flip.sealed == database.slots[slot].tenure);
        let pins = |change: &ChangeRow| usize::from(change.slot) == slot && change.slot != change.gains;
        let mut changes = database.all_changes().map(|(_, change)| change);
        self.rules.lack(Mutation::PinKeepsFence) && changes.any(|row| pins(row) && before(row) && flipped(row))
    }

    /// Whose name W1 looks for in the slot's list.
    pub(crate) fn looked_for(&self, key: usize) -> &'static str {
        if self.rules.lack(Mutation::RegisterPinned) { "" } else { user(key) }
    }
}
