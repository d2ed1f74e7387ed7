//! The database: one linearizable primary (A1). Each function is one statement or transaction.

use placement::change::step::{Event, step};
use placement::{ChangeId, Phase};

use crate::state::{Content, KEYS_MAX, NODES_MAX, OPERATIONS_MAX, SLOTS_MAX};

/// At most so many L2 spaces are made in a run; 0 is "L2 not in use".
pub const SPACES_MAX: usize = 4;
/// At most so many ring changes.
pub const CHANGES_MAX: usize = 2;
/// The owner of a slot that is not there yet: no node.
pub const NOBODY: u8 = u8::MAX;
/// The rank of what is not committed.
pub const UNCOMMITTED: u8 = u8::MAX;

/// All tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Database {
    /// `slots` (S2).
    pub slots: [SlotRow; SLOTS_MAX],
    /// `nodes`.
    pub nodes: [NodeRow; NODES_MAX],
    /// `ring_changes`, in order; the last one may be active.
    pub changes: [Option<ChangeRow>; CHANGES_MAX],
    /// `entries`: what each key holds.
    pub entries: [Content; KEYS_MAX],
    /// For each content the number of its first commit.
    pub ranks: [u8; OPERATIONS_MAX + 1],
    /// Commits so far.
    pub commits: u8,
    /// The sequence behind tenure and gained.
    pub last_tenure: u8,
    /// The identity that each L2 space was made for.
    pub spaces: [u8; SPACES_MAX],
    /// The L2 space made last.
    pub last_space: u8,
    /// A RENEW whose connection is gone: it may land at any later time, or never.
    pub late_renewal: Option<LateRenewal>,
}

/// A row of `slots`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SlotRow {
    /// The owner's node.
    pub owner: u8,
    /// New at every gain and RENEW.
    pub tenure: u8,
    /// New at every gain.
    pub gained: u8,
    /// The L2 space's number; 0: NULL.
    pub space: u8,
    /// Whether the list of its users that have a slot of their own names the one of key 0 (P1).
    pub pinned: bool,
}

/// A row of `nodes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeRow {
    /// How many processes have been this node.
    pub incarnation: u8,
    /// Whether its lease lasts, by the database's clock.
    pub leased: bool,
}

/// A row of `ring_changes`: one slot moves, or one user out of it into a slot of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChangeRow {
    /// How far it is.
    pub phase: Phase,
    /// The slot that is sealed.
    pub slot: u8,
    /// The slot that the receiver gains: the same, or the user's own (P2).
    pub gains: u8,
    /// The old owner's node.
    pub from: u8,
    /// The receiver's node.
    pub to: u8,
    /// The journaled seal (C5).
    pub seal: Option<Seal>,
    /// The tenures that the flip gave.
    pub flip: Option<Flip>,
}

/// The tenures of a flip: one and the same where a slot moves (C6), two where a user leaves it (P3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flip {
    /// That of the slot that was sealed.
    pub sealed: u8,
    /// That of the slot that the receiver has gained.
    pub gained: u8,
}

/// The seal of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seal {
    /// The tenure at the end of the drain.
    pub tenure: u8,
    /// The gain then, for the flip that compares gains.
    pub gained: u8,
    /// The complete stream.
    pub stream: Option<u8>,
    /// The receiver's incarnation.
    pub receiver_incarnation: u8,
}

/// A RENEW statement on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LateRenewal {
    /// The slot.
    pub slot: u8,
    /// The tenure that it replaces.
    pub held: u8,
    /// The L2 space that it sets.
    pub space: u8,
}

impl Database {
    /// The next number of the sequence behind tenure and gained.
    pub fn next_tenure(&mut self) -> u8 {
        self.last_tenure += 1;
        self.last_tenure
    }

    /// A new L2 space for that server identity.
    pub fn next_space(&mut self, identity: u8) -> u8 {
        self.last_space += 1;
        self.spaces[usize::from(self.last_space)] = identity;
        self.last_space
    }

    /// Whether one more L2 space may be made in this run.
    pub fn has_spaces_left(&self) -> bool {
        usize::from(self.last_space) + 1 < SPACES_MAX
    }

    /// Commits the content to the key. Says whether it is its first commit.
    pub fn commit(&mut self, key: usize, content: Content) -> bool {
        self.entries[key] = content;
        let rank = &mut self.ranks[usize::from(content)];
        let first = *rank == UNCOMMITTED;
        if first {
            self.commits += 1;
            *rank = self.commits;
        }
        first
    }

    /// The rank of a content.
    pub fn rank(&self, content: Content) -> u8 {
        self.ranks[usize::from(content)]
    }

    /// The slot gets an owner with new tenure and gain.
    pub fn gain(&mut self, slot: usize, owner: u8) -> SlotRow {
        let tenure = self.next_tenure();
        // The two columns draw from one sequence; one number is as good as two.
        self.slots[slot] = SlotRow { owner, tenure, gained: tenure, ..self.slots[slot] };
        self.slots[slot]
    }

    /// P3: the user's own slot is there, at its first owner, and the row of its home says so under a new tenure. Owner, gain and
    /// L2 space of the home stay.
    pub fn pin(&mut self, home: usize, own: usize, owner: u8, renews: bool) -> Flip {
        if renews {
            self.slots[home].tenure = self.next_tenure();
        }
        self.slots[home].pinned = true;
        let gained = self.gain(own, owner).tenure;
        Flip { sealed: self.slots[home].tenure, gained }
    }

    /// RENEW (R3): only the tenure that it names.
    pub fn renew(&mut self, slot: usize, held: u8, space: u8) -> Option<SlotRow> {
        if self.slots[slot].tenure != held {
            return None;
        }
        let tenure = self.next_tenure();
        self.slots[slot] = SlotRow { tenure, space, ..self.slots[slot] };
        Some(self.slots[slot])
    }

    /// All changes and their numbers.
    pub fn all_changes(&self) -> impl Iterator<Item = (ChangeId, &ChangeRow)> {
        self.changes.iter().flatten().zip(1..).map(|(row, id)| (ChangeId(id), row))
    }

    /// The change begun last and its number.
    pub fn newest_change(&self) -> Option<(ChangeId, &ChangeRow)> {
        self.all_changes().last()
    }

    /// The change of that number.
    pub fn change(&self, id: ChangeId) -> Option<&ChangeRow> {
        usize::try_from(id.0 - 1).ok().and_then(|index| self.changes.get(index)?.as_ref())
    }

    /// The change of that number, to be changed.
    pub fn change_mut(&mut self, id: ChangeId) -> Option<&mut ChangeRow> {
        usize::try_from(id.0 - 1).ok().and_then(|index| self.changes.get_mut(index)?.as_mut())
    }

    /// The phase of the newest change after the event, if the event fits.
    pub fn phase_after(&self, event: Event) -> Option<(ChangeId, Phase)> {
        let (id, row) = self.newest_change()?;
        step(row.phase, event).map(|(phase, _)| (id, phase))
    }

    /// Gives the newest change up if it is in `copy` or `sealed` (C9, L3).
    pub fn give_up(&mut self) {
        if let Some((id, phase)) = self.phase_after(Event::GivenUp)
            && let Some(row) = self.change_mut(id)
        {
            row.phase = phase;
        }
    }

    /// Whether a new change may begin.
    pub fn is_quiet(&self) -> bool {
        self.newest_change().is_none_or(|(_, row)| matches!(row.phase, Phase::Done | Phase::Aborted))
    }
}
