//! Users with a slot of their own: beside the 4096 that users fall into by hash, so that one user can have an owner of its own.
//!
//! Which ones, the row of the slot that the user's id falls into says, its home: whoever holds that row knows for certain who of
//! its users is not served under it any more. A user once pinned stays pinned; only the owner of its slot changes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Slot, UserId};

/// A user and the slot that is its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PinnedUser {
    /// The slot, beyond those that users fall into by hash.
    pub slot: Slot,
    /// The user.
    pub user: UserId,
}

/// The pinned users of one home slot; cheap to clone. As text `4096:ada 4097:bob`: no user id holds a blank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PinnedUsers(Option<Arc<[PinnedUser]>>);

/// A text that is no list of pinned users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a list of pinned users is `SLOT:USER`, separated by one blank, with slots that no user falls into by hash")]
pub struct PinnedUsersInvalid;

impl PinnedUsers {
    /// Nobody.
    pub const NONE: Self = Self(None);

    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &PinnedUser> {
        self.0.iter().flat_map(|users| users.iter())
    }

    /// The slot of a user; `None`: it is not pinned.
    pub fn slot_of(&self, user: &str) -> Option<Slot> {
        self.iter().find(|pinned| pinned.user.as_str() == user).map(|pinned| pinned.slot)
    }

    /// These and one more.
    pub fn with(&self, one: PinnedUser) -> Self {
        Self(Some(self.iter().cloned().chain([one]).collect()))
    }
}

impl Default for PinnedUsers {
    fn default() -> Self {
        Self::NONE
    }
}

impl std::fmt::Display for PinnedUsers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, pinned) in self.iter().enumerate() {
            let blank = if place == 0 { "" } else { " " };
            write!(f, "{blank}{}:{}", pinned.slot, pinned.user.as_str())?;
        }
        Ok(())
    }
}

impl std::str::FromStr for PinnedUsers {
    type Err = PinnedUsersInvalid;

    fn from_str(text: &str) -> Result<Self, PinnedUsersInvalid> {
        if text.is_empty() {
            return Ok(Self::NONE);
        }
        let pinned = |one: &str| {
            let (slot, user) = one.split_once(':')?;
            let slot = slot.parse().ok().and_then(|number: u16| Slot::try_from(number).ok())?;
            let user = UserId::parse(user.as_bytes()).ok()?;
            slot.is_pinned().then_some(PinnedUser { slot, user })
        };
        let users: Option<Arc<[PinnedUser]>> = text.split(' ').map(pinned).collect();
        Ok(Self(Some(users.ok_or(PinnedUsersInvalid)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_as_it_was_written() {
        for text in ["", "4096:ada", "4096:ada 4100:a:b=c,d", "5119:4096:x"] {
            let users: PinnedUsers = text.parse().expect(text);
            assert_eq!(users.to_string(), text);
            assert_eq!(users.is_empty(), text.is_empty());
        }
        let users: PinnedUsers = "4096:ada 4100:a:b".parse().expect("a list");
        assert_eq!(users.slot_of("a:b").map(Slot::number), Some(4100));
        assert_eq!(users.slot_of("a"), None);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [" ", "ada", "4095:ada", "5120:ada", "4096:", "4096:ada  4097:bob", "x:ada", "4096:ada\n"] {
            assert_eq!(text.parse::<PinnedUsers>(), Err(PinnedUsersInvalid), "{text:?}");
        }
    }
}
