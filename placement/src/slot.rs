//! A slot: the unit of ownership. Every user falls into exactly one of 4096, for ever, its home; some have one of their own
//! beyond these (`pinned`).

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::user_id::UserId;

/// How many slots there are. Part of the data format: it never changes.
pub const SLOT_COUNT: usize = 4096;

/// How many users can have a slot of their own: a few large ones, and so few that a table of all slots stays small.
pub const PINNED_MAX: usize = 1024;

/// How many slots there are in all.
pub const SLOTS_MAX: usize = SLOT_COUNT + PINNED_MAX;

/// A slot number: 0 to 4095 by hash, from there to 5119 of one user each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Slot(u16);

/// A number that is no slot.
#[derive(Debug, thiserror::Error)]
#[error("{0} is not a slot: slots are 0 to 5119")]
pub struct SlotInvalid(u16);

impl Slot {
    /// The slot of a user: the low 12 bits of XXH3-64 (seed 0) of the id's bytes.
    pub fn of_user(user: &UserId) -> Self {
        Self::of_user_text(user.as_str())
    }

    /// [`Slot::of_user`] for the text of a checked id.
    pub fn of_user_text(user: &str) -> Self {
        Self((xxh3_64(user.as_bytes()) & (SLOT_COUNT as u64 - 1)) as u16)
    }

    /// The slot of its own of the user pinned as the `place`-th, from 0; `None`: there are too many.
    pub fn pinned(place: usize) -> Option<Self> {
        (place < PINNED_MAX).then(|| Self((SLOT_COUNT + place) as u16))
    }

    /// Whether it is one user's own.
    pub fn is_pinned(self) -> bool {
        self.index() >= SLOT_COUNT
    }

    /// All slots that there can be, in order: by hash, then pinned.
    pub fn every() -> impl ExactSizeIterator<Item = Slot> {
        (0..SLOTS_MAX as u16).map(Slot)
    }

    /// All slots that users fall into by hash, in order.
    pub fn all() -> impl ExactSizeIterator<Item = Slot> {
        (0..SLOT_COUNT as u16).map(Slot)
    }

    /// The slot as an array index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The slot as a number.
    pub fn number(self) -> u16 {
        self.0
    }
}

impl TryFrom<u16> for Slot {
    type Error = SlotInvalid;

    fn try_from(number: u16) -> Result<Self, SlotInvalid> {
        if usize::from(number) < SLOTS_MAX { Ok(Self(number)) } else { Err(SlotInvalid(number)) }
    }
}

impl From<Slot> for u16 {
    fn from(slot: Slot) -> u16 {
        slot.0
    }
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
