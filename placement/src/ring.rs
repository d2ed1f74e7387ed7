//! The ring: an epoch, its members, and the owner of every slot. Look-up is an array index.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{Epoch, NodeId, PinnedUser, Pool, SLOT_COUNT, Slot, UserId, Weight};

/// A node that owns slots, or is about to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The node's name.
    pub id: NodeId,
    /// Its share relative to the others.
    pub weight: Weight,
}

/// Who owns which slot at one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    epoch: Epoch,
    members: Vec<Member>,
    /// Index into `members`, per slot.
    owners: Box<[u16; SLOT_COUNT]>,
    /// Users with a slot of their own, in the order of their slots, each with an index into `members`.
    pinned: Vec<(UserId, u16)>,
    /// Index into `pinned`, by user.
    pinned_places: HashMap<UserId, u16>,
}

/// Why members and owners make no ring.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RingInvalid {
    /// No member at all.
    #[error("a ring has at least one member")]
    NoMembers,
    /// More members than slots.
    #[error("a ring has at most 1024 members")]
    TooManyMembers,
    /// A name given twice.
    #[error("{0} is a member twice")]
    DuplicateMember(NodeId),
    /// Pinned slots that are not those from 4096 on, or a user with two of them.
    #[error("the slots of single users are not a row without gaps, each of another user")]
    PinnedNotInOrder,
    /// An owner that is no member.
    #[error("slot {slot} is owned by {owner}, which is no member")]
    OwnerNotMember {
        /// The slot.
        slot: Slot,
        /// The unknown owner.
        owner: NodeId,
    },
}

/// The most members a ring may have.
pub const MEMBERS_MAX: usize = 1024;

impl Ring {
    /// Puts a ring together; members are kept sorted by name whatever order they come in.
    pub fn new(epoch: Epoch, mut members: Vec<Member>, owner_of: impl Fn(Slot) -> NodeId) -> Result<Self, RingInvalid> {
        members.sort_by(|a, b| a.id.cmp(&b.id));
        check_members(&members)?;
        let mut owners = Box::new([0u16; SLOT_COUNT]);
        for slot in Slot::all() {
            owners[slot.index()] = index_of(&members, slot, owner_of(slot))?;
        }
        Ok(Self { epoch, members, owners, pinned: Vec::new(), pinned_places: HashMap::new() })
    }

    /// The same ring with these users pinned, in the order of their slots.
    pub fn with_pinned(mut self, users: impl IntoIterator<Item = (PinnedUser, NodeId)>) -> Result<Self, RingInvalid> {
        for (pinned, owner) in users {
            let place = self.pinned.len();
            let owner = index_of(&self.members, pinned.slot, owner)?;
            let is_next = Slot::pinned(place) == Some(pinned.slot);
            if !is_next || self.pinned_places.insert(pinned.user.clone(), place as u16).is_some() {
                return Err(RingInvalid::PinnedNotInOrder);
            }
            self.pinned.push((pinned.user, owner));
        }
        Ok(self)
    }

    /// The ring's number.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// All members, sorted by name.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The member of that name.
    pub fn member(&self, id: &NodeId) -> Option<&Member> {
        self.members.iter().find(|member| &member.id == id)
    }

    /// The owner of a slot.
    pub fn owner(&self, slot: Slot) -> &NodeId {
        &self.members[self.owner_index(slot)].id
    }

    /// The owner of a slot as an index into [`Ring::members`].
    ///
    /// # Panics
    /// If the slot is a pinned one that no user of this ring has.
    pub fn owner_index(&self, slot: Slot) -> usize {
        usize::from(match self.owners.get(slot.index()) {
            Some(owner) => *owner,
            None => self.pinned[slot.index() - SLOT_COUNT].1,
        })
    }

    /// The slot that a user is served under: its own, or its home.
    pub fn slot_of_user(&self, user: &UserId) -> Slot {
        // Nearly no ring has any: the user's id need not be hashed once more.
        let place = if self.pinned.is_empty() { None } else { self.pinned_places.get(user) };
        place.and_then(|&place| Slot::pinned(usize::from(place))).unwrap_or_else(|| Slot::of_user(user))
    }

    /// The owner of a user's slot.
    pub fn owner_of_user(&self, user: &UserId) -> &NodeId {
        self.owner(self.slot_of_user(user))
    }

    /// All slots of the ring, in order: by hash, then pinned.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        Slot::every().take(SLOT_COUNT + self.pinned.len())
    }

    /// Users with a slot of their own, in the order of their slots.
    pub fn pinned_users(&self) -> impl Iterator<Item = PinnedUser> + '_ {
        let slots = Slot::every().skip(SLOT_COUNT);
        slots.zip(&self.pinned).map(|(slot, (user, _))| PinnedUser { slot, user: user.clone() })
    }

    /// How many slots each member owns, pinned ones among them, in the order of [`Ring::members`].
    pub fn slots_per_member(&self) -> Vec<usize> {
        let mut counts = vec![0; self.members.len()];
        for owner in self.owners.iter().chain(self.pinned.iter().map(|(_, owner)| owner)) {
            counts[usize::from(*owner)] += 1;
        }
        counts
    }

    /// The slots by hash that have another owner in `next`.
    pub fn moves_to<'a>(&'a self, next: &'a Ring) -> impl Iterator<Item = SlotMove> + 'a {
        Slot::all()
            .filter(|&slot| self.owner(slot) != next.owner(slot))
            .map(|slot| SlotMove::new(slot, self.owner(slot).clone(), next.owner(slot).clone()))
    }
}

/// One slot changing its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotMove {
    /// The slot.
    pub slot: Slot,
    /// Its owner before.
    pub from: NodeId,
    /// Its owner after.
    pub to: NodeId,
    /// Only this user moves, to a slot of its own, of which `to` is the owner; the slot itself, its home, stays with `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<PinnedUser>,
    /// The pool that the user of the gained slot is assigned to from then on; none: as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Pool>,
}

impl SlotMove {
    /// A slot that moves with all its users.
    pub fn new(slot: Slot, from: NodeId, to: NodeId) -> Self {
        Self { slot, from, to, leaves: None, pool: None }
    }

    /// The slot that the receiver gains.
    pub fn gained_slot(&self) -> Slot {
        self.leaves.as_ref().map_or(self.slot, |pinned| pinned.slot)
    }
}

fn index_of(sorted: &[Member], slot: Slot, owner: NodeId) -> Result<u16, RingInvalid> {
    let index = sorted.binary_search_by(|member| member.id.cmp(&owner));
    index.map(|index| index as u16).map_err(|_| RingInvalid::OwnerNotMember { slot, owner })
}

/// Checks names and number of members, which must be sorted by name.
pub(crate) fn check_members(sorted: &[Member]) -> Result<(), RingInvalid> {
    if sorted.is_empty() {
        return Err(RingInvalid::NoMembers);
    }
    if sorted.len() > MEMBERS_MAX {
        return Err(RingInvalid::TooManyMembers);
    }
    match sorted.windows(2).find(|pair| pair[0].id == pair[1].id) {
        Some(pair) => Err(RingInvalid::DuplicateMember(pair[0].id.clone())),
        None => Ok(()),
    }
}
