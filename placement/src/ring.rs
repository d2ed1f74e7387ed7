//! The ring: an epoch, its members, and the owner of every slot. Look-up is an array index.

use serde::{Deserialize, Serialize};

use crate::{Epoch, NodeId, SLOT_COUNT, Slot, UserId, Weight};

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
            let owner = owner_of(slot);
            let index = members
                .binary_search_by(|member| member.id.cmp(&owner))
                .map_err(|_| RingInvalid::OwnerNotMember { slot, owner })?;
            owners[slot.index()] = index as u16;
        }
        Ok(Self { epoch, members, owners })
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
    pub fn owner_index(&self, slot: Slot) -> usize {
        usize::from(self.owners[slot.index()])
    }

    /// The owner of a user's slot.
    pub fn owner_of_user(&self, user: &UserId) -> &NodeId {
        self.owner(Slot::of_user(user))
    }

    /// How many slots each member owns, in the order of [`Ring::members`].
    pub fn slots_per_member(&self) -> Vec<usize> {
        let mut counts = vec![0; self.members.len()];
        for &owner in self.owners.iter() {
            counts[usize::from(owner)] += 1;
        }
        counts
    }

    /// The slots that have another owner in `next`.
    pub fn moves_to<'a>(&'a self, next: &'a Ring) -> impl Iterator<Item = SlotMove> + 'a {
        Slot::all().filter(|&slot| self.owner(slot) != next.owner(slot)).map(|slot| SlotMove {
            slot,
            from: self.owner(slot).clone(),
            to: next.owner(slot).clone(),
        })
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
