//! Which slots move when one member comes, goes, or changes its share, while others are down or about to go.
//!
//! `placement::rebalance` knows members and owners alone. Here is what a node's standing adds: a member that is down can
//! neither give a slot away nor take one, so its slots stay where they are; one that is leaving may give, but takes none.

use origin::{NodeRow, RingState};
use placement::rebalance::next_ring;
use placement::ring::SlotMove;
use placement::{Member, NodeId, Ring, SLOT_COUNT, Slot, Weight};

use super::PlanRefused;

/// Members, owners and leases of one snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing<'a> {
    state: &'a RingState,
}

impl<'a> Standing<'a> {
    pub(super) fn of(state: &'a RingState) -> Self {
        Self { state }
    }

    /// The member of that name.
    pub(super) fn member(&self, id: &NodeId) -> Result<&'a Member, PlanRefused> {
        let found = self.state.members.iter().find(|member| &member.id == id);
        found.ok_or_else(|| PlanRefused::NotMember(id.clone()))
    }

    pub(super) fn is_member(&self, id: &NodeId) -> bool {
        self.member(id).is_ok()
    }

    fn row(&self, id: &NodeId) -> Option<&'a NodeRow> {
        self.state.nodes.iter().find(|row| &row.id == id)
    }

    /// Whether its lease holds.
    pub(super) fn is_up(&self, id: &NodeId) -> bool {
        self.row(id).is_some_and(|row| row.lease_left_ms > 0)
    }

    /// Whether it may get slots.
    pub(super) fn takes(&self, id: &NodeId) -> bool {
        self.row(id).is_some_and(|row| row.lease_left_ms > 0 && !row.leaving)
    }

    pub(super) fn owner(&self, slot: Slot) -> &'a NodeId {
        &self.state.slots[slot.index()].owner
    }

    pub(super) fn owns_any(&self, id: &NodeId) -> bool {
        self.state.slots.iter().any(|row| &row.owner == id)
    }

    /// Members and owners as they are.
    pub(super) fn ring(&self) -> Result<Ring, PlanRefused> {
        self.ring_of(self.state.members.clone(), |slot| self.owner(slot).clone())
    }

    fn ring_of(&self, members: Vec<Member>, owner: impl Fn(Slot) -> NodeId) -> Result<Ring, PlanRefused> {
        Ring::new(self.state.digest.epoch, members, owner).map_err(|invalid| PlanRefused::Invalid(invalid.into()))
    }

    /// The moves that bring `member`, which joins or has a new weight here, to its share.
    ///
    /// Members that own nothing and may not take either are left out of the computation: nobody should keep room for
    /// them. Of those that are down and own slots, the slots stay.
    pub(super) fn moves_to_fill(&self, member: &Member) -> Result<Vec<SlotMove>, PlanRefused> {
        let counts = |id: &NodeId| id != &member.id && (self.takes(id) || self.owns_any(id));
        let mut before: Vec<Member> = self.state.members.iter().filter(|other| counts(&other.id)).cloned().collect();
        let mut after = before.clone();
        after.push(member.clone());
        // A member without slots has no share to begin with, whatever its weight: it is computed as one that joins. One that
        // got less than its share has the weight that its slots amount to, and gains the rest.
        if self.owns_any(&member.id) {
            let mut now = self.member(&member.id)?.clone();
            if now.weight == member.weight {
                let Some(less) = self.weight_of_slots(member, &before) else { return Ok(Vec::new()) };
                now.weight = less;
            }
            before.push(now);
        }
        let now = self.ring_of(before, |slot| self.owner(slot).clone())?;
        let next = next_ring(&now, &after).map_err(PlanRefused::Invalid)?;
        let possible = |moving: &SlotMove| self.is_up(&moving.from) && self.takes(&moving.to);
        Ok(now.moves_to(&next).filter(possible).collect())
    }

    /// The weight at which the slots that the member has would be its share beside `others`; `None`: it is no less than its own.
    fn weight_of_slots(&self, member: &Member, others: &[Member]) -> Option<Weight> {
        let owned = self.owned(&member.id) as u64;
        let weights: u64 = others.iter().map(|other| u64::from(other.weight.get())).sum();
        let amounts_to = owned * weights / (SLOT_COUNT as u64 - owned).max(1);
        let weight = u32::try_from(amounts_to.max(1)).ok().and_then(|weight| Weight::try_from(weight).ok())?;
        (weight < member.weight).then_some(weight)
    }

    fn owned(&self, id: &NodeId) -> usize {
        self.state.slots.iter().filter(|row| &row.owner == id).count()
    }

    /// Whether the member may take slots and has none, or, while nobody is away whose slots it could have had, less than
    /// three quarters of its share.
    pub(super) fn lacks_share(&self, member: &Member) -> bool {
        if !self.takes(&member.id) {
            return false;
        }
        let owned = self.owned(&member.id) as u64;
        let counts = |id: &NodeId| self.takes(id) || self.owns_any(id);
        let all: u64 = self.state.members.iter().filter(|m| counts(&m.id)).map(|m| u64::from(m.weight.get())).sum();
        let somebody_is_away = self.state.members.iter().any(|m| self.owns_any(&m.id) && !self.takes(&m.id));
        let share = SLOT_COUNT as u64 * u64::from(member.weight.get());
        owned == 0 || (!somebody_is_away && owned * all * 4 < share * 3)
    }

    /// The moves that give all slots of `leaver` to members that may take.
    ///
    /// Computed as if the leaver had the slots of all who may not take as well: so those who stay have room for them, and
    /// can take them over later without giving back what they get now. A member that is back and waits for its share gets
    /// nothing here, unless nobody else is there: with some slots it would count as readmitted.
    pub(super) fn moves_away_from(&self, leaver: &NodeId) -> Result<Vec<SlotMove>, PlanRefused> {
        let leaving = self.member(leaver)?;
        let takes = |id: &NodeId| id != leaver && self.takes(id);
        let settled = |id: &NodeId| takes(id) && self.owns_any(id);
        let any_settled = self.state.members.iter().any(|member| settled(&member.id));
        let stays = |id: &NodeId| if any_settled { settled(id) } else { takes(id) };
        let after: Vec<Member> = self.state.members.iter().filter(|member| stays(&member.id)).cloned().collect();
        if after.is_empty() {
            return Err(PlanRefused::NoTaker(leaver.clone()));
        }
        let mut before = after.clone();
        before.push(leaving.clone());
        let now = self.ring_of(before, |slot| {
            let owner = self.owner(slot);
            if stays(owner) { owner.clone() } else { leaver.clone() }
        })?;
        let next = next_ring(&now, &after).map_err(PlanRefused::Invalid)?;
        Ok(now.moves_to(&next).filter(|moving| self.owner(moving.slot) == leaver).collect())
    }

    /// All slots of `old`, to `new`.
    pub(super) fn handed_over(&self, old: &NodeId, new: &NodeId) -> Vec<SlotMove> {
        let of_old = Slot::all().filter(|&slot| self.owner(slot) == old);
        of_old.map(|slot| SlotMove { slot, from: old.clone(), to: new.clone() }).collect()
    }

    /// The ring after these moves, with these members.
    pub(super) fn after(&self, members: Vec<Member>, moves: &[SlotMove]) -> Result<Ring, PlanRefused> {
        let mut owners: Vec<&NodeId> = self.state.slots.iter().map(|row| &row.owner).collect();
        for moving in moves {
            owners[moving.slot.index()] = &moving.to;
        }
        Ring::new(self.state.digest.epoch.next(), members, |slot| owners[slot.index()].clone())
            .map_err(|invalid| PlanRefused::Invalid(invalid.into()))
    }

    /// Members whose lease is over.
    pub(super) fn down_members(&self) -> impl Iterator<Item = &'a NodeId> {
        let standing = *self;
        self.state.members.iter().map(|member| &member.id).filter(move |id| !standing.is_up(id))
    }
}
