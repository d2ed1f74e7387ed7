//! Which slots move when one member comes, goes, or changes its share, while others are down or about to go.
//!
//! `placement::rebalance` knows members and owners alone. Here is what a node's standing adds: a member that is down can
//! neither give a slot away nor take one, so its slots stay where they are; one that is leaving may give, but takes none.
//! And its pool: users fall by hash into slots of the nodes of pool `shared`; a user's own slot belongs to a node of the user's
//! pool. Only where a pool has no node left that may take slots do others serve its users.

use std::collections::BTreeMap;

use origin::{NodeRow, RingState, SlotRow};
use placement::rebalance::next_ring;
use placement::ring::SlotMove;
use placement::{Member, NodeId, PinnedUser, Pool, Ring, SLOT_COUNT, Slot, UserId, Weight};

use super::PlanRefused;
use super::pools::{self, Holder};

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

    /// Whether it owns slots that users fall into by hash.
    fn owns_hashed(&self, id: &NodeId) -> bool {
        self.owned(id) > 0
    }

    fn is_in(&self, id: &NodeId, pool: &Pool) -> bool {
        self.row(id).is_some_and(|row| &row.pool == pool)
    }

    fn is_shared(&self, id: &NodeId) -> bool {
        // One that never registered has no pool of its own.
        self.row(id).is_none_or(|row| row.pool.is_shared())
    }

    /// Members and owners as they are.
    pub(super) fn ring(&self) -> Result<Ring, PlanRefused> {
        let ring = self.ring_of(self.state.members.clone(), |slot| self.owner(slot).clone())?;
        ring.with_pinned(self.state.pinned()).map_err(|invalid| PlanRefused::Invalid(invalid.into()))
    }

    fn ring_of(&self, members: Vec<Member>, owner: impl Fn(Slot) -> NodeId) -> Result<Ring, PlanRefused> {
        Ring::new(self.state.digest.epoch, members, owner).map_err(|invalid| PlanRefused::Invalid(invalid.into()))
    }

    /// The moves that bring `member`, which joins or has a new weight here, to its share.
    ///
    /// Members that own nothing and may not take either are left out of the computation: nobody should keep room for
    /// them. Of those that are down and own slots, the slots stay.
    pub(super) fn moves_to_fill(&self, member: &Member) -> Result<Vec<SlotMove>, PlanRefused> {
        let mut moves = if self.is_shared(&member.id) { self.hashed_to_fill(member)? } else { Vec::new() };
        moves.extend(self.pinned_to_fill(member));
        Ok(moves)
    }

    /// Slots that users fall into by hash at nodes of other pools, which kept them while no node of `shared` was there.
    fn kept_by_others(&self) -> impl Iterator<Item = &'a SlotRow> {
        let standing = *self;
        let kept = move |row: &&SlotRow| !standing.is_shared(&row.owner) && standing.is_up(&row.owner);
        self.state.slots[..SLOT_COUNT].iter().filter(kept)
    }

    fn hashed_to_fill(&self, member: &Member) -> Result<Vec<SlotMove>, PlanRefused> {
        let kept = self.kept_by_others().map(|row| SlotMove::new(row.slot, row.owner.clone(), member.id.clone()));
        let kept: Vec<SlotMove> = kept.collect();
        if !kept.is_empty() {
            // First of all; what is too much of it, the others of `shared` take afterwards as their share.
            return Ok(kept);
        }
        let counts = |id: &NodeId| id != &member.id && ((self.takes(id) && self.is_shared(id)) || self.owns_hashed(id));
        let mut before: Vec<Member> = self.state.members.iter().filter(|other| counts(&other.id)).cloned().collect();
        let mut after = before.clone();
        after.push(member.clone());
        // A member without slots has no share to begin with, whatever its weight: it is computed as one that joins. One that
        // got less than its share has the weight that its slots amount to, and gains the rest.
        if self.owns_hashed(&member.id) {
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
        self.state.slots[..SLOT_COUNT].iter().filter(|row| &row.owner == id).count()
    }

    /// Whether the member may take slots and has none, or, while nobody is away whose slots it could have had, less than
    /// three quarters of its share.
    pub(super) fn lacks_share(&self, member: &Member) -> bool {
        if !self.takes(&member.id) {
            return false;
        }
        if !self.is_shared(&member.id) {
            return !self.pinned_to_fill(member).is_empty();
        }
        let owned = self.owned(&member.id) as u64;
        let counts = |id: &NodeId| (self.takes(id) && self.is_shared(id)) || self.owns_hashed(id);
        let all: u64 = self.state.members.iter().filter(|m| counts(&m.id)).map(|m| u64::from(m.weight.get())).sum();
        let somebody_is_away = self.state.members.iter().any(|m| self.owns_hashed(&m.id) && !self.takes(&m.id));
        let share = SLOT_COUNT as u64 * u64::from(member.weight.get());
        owned == 0 || self.kept_by_others().next().is_some() || (!somebody_is_away && owned * all * 4 < share * 3)
    }

    /// The moves that give all slots of `leaver` to members that may take.
    ///
    /// Computed as if the leaver had the slots of all who may not take as well: so those who stay have room for them, and
    /// can take them over later without giving back what they get now. A member that is back and waits for its share gets
    /// nothing here, unless nobody else is there: with some slots it would count as readmitted.
    pub(super) fn moves_away_from(&self, leaver: &NodeId) -> Result<Vec<SlotMove>, PlanRefused> {
        self.member(leaver)?;
        let mut moves = if self.owns_hashed(leaver) { self.hashed_away_from(leaver)? } else { Vec::new() };
        moves.extend(self.pinned_away_from(leaver)?);
        Ok(moves)
    }

    fn hashed_away_from(&self, leaver: &NodeId) -> Result<Vec<SlotMove>, PlanRefused> {
        let leaving = self.member(leaver)?;
        let any_shared =
            self.state.members.iter().any(|m| &m.id != leaver && self.takes(&m.id) && self.is_shared(&m.id));
        let takes = |id: &NodeId| id != leaver && self.takes(id) && (self.is_shared(id) || !any_shared);
        let settled = |id: &NodeId| takes(id) && self.owns_hashed(id);
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

    /// Users stay within their pool when one node takes the place of another.
    pub(super) fn same_pool(&self, old: &NodeId, new: &NodeId) -> Result<(), PlanRefused> {
        let pool = |id: &NodeId| self.row(id).map(|row| row.pool.clone()).unwrap_or_default();
        if pool(old) == pool(new) {
            return Ok(());
        }
        Err(PlanRefused::OtherPool { old: old.clone(), old_pool: pool(old), new: new.clone(), new_pool: pool(new) })
    }

    /// All slots of `old`, to `new`.
    pub(super) fn handed_over(&self, old: &NodeId, new: &NodeId) -> Vec<SlotMove> {
        let of_old = self.state.slots.iter().map(|row| row.slot).filter(|&slot| self.owner(slot) == old);
        of_old.map(|slot| SlotMove::new(slot, old.clone(), new.clone())).collect()
    }

    /// The ring after these moves, with these members.
    pub(super) fn after(&self, members: Vec<Member>, moves: &[SlotMove]) -> Result<Ring, PlanRefused> {
        let mut owners: Vec<&NodeId> = self.state.slots.iter().map(|row| &row.owner).collect();
        let mut pinned = self.state.pinned();
        for moving in moves {
            match &moving.leaves {
                Some(user) => pinned.push((user.clone(), moving.to.clone())),
                None => owners[moving.slot.index()] = &moving.to,
            }
        }
        for (user, owner) in &mut pinned {
            // One that is pinned by these moves has its owner already.
            *owner = owners.get(user.slot.index()).map_or_else(|| owner.clone(), |owner| NodeId::clone(owner));
        }
        Ring::new(self.state.digest.epoch.next(), members, |slot| owners[slot.index()].clone())
            .and_then(|ring| ring.with_pinned(pinned))
            .map_err(|invalid| PlanRefused::Invalid(invalid.into()))
    }

    /// Who may get slots of a pool's users: its nodes, else those of `shared`, else any.
    fn holders(&self, pool: &Pool, may: impl Fn(&NodeId) -> bool) -> Vec<Holder> {
        let held = |id: &NodeId| self.state.slots[SLOT_COUNT..].iter().filter(|row| &row.owner == id).count();
        let of = |wanted: &dyn Fn(&NodeId) -> bool| -> Vec<Holder> {
            let members = self.state.members.iter().filter(|member| may(&member.id) && wanted(&member.id));
            members.map(|m| Holder { id: m.id.clone(), weight: m.weight, held: held(&m.id) }).collect()
        };
        let pools: [&dyn Fn(&NodeId) -> bool; 3] = [&|id| self.is_in(id, pool), &|id| self.is_shared(id), &|_| true];
        pools.into_iter().map(of).find(|holders| !holders.is_empty()).unwrap_or_default()
    }

    /// Single users' slots that `member`, which joins or has a new weight here, gets: those of its pool that others keep for it, and
    /// its share of what the pool's nodes have.
    fn pinned_to_fill(&self, member: &Member) -> Vec<SlotMove> {
        let Some(pool) = self.row(&member.id).map(|row| &row.pool) else { return Vec::new() };
        let mut rest: Vec<_> =
            self.state.slots[SLOT_COUNT..].iter().filter(|row| row.pool.as_ref() == Some(pool)).collect();
        let mut holders = self.holders(pool, |id| id != &member.id && self.takes(id) && self.is_in(id, pool));
        let held = rest.iter().filter(|row| row.owner == member.id).count();
        holders.push(Holder { id: member.id.clone(), weight: member.weight, held });
        let place = holders.len() - 1;
        let mut moves = Vec::new();
        let mut take = |row: &SlotRow| moves.push(SlotMove::new(row.slot, row.owner.clone(), member.id.clone()));
        rest.retain(|row| {
            let kept_for_it = row.owner != member.id && !self.is_in(&row.owner, pool) && self.is_up(&row.owner);
            if kept_for_it {
                holders[place].held += 1;
                take(row);
            }
            !kept_for_it
        });
        while let Some(from) = pools::giver(&mut holders, place) {
            let Some(found) = rest.iter().position(|row| row.owner == from) else { break };
            take(rest.remove(found));
        }
        moves
    }

    /// Single users' slots of one that leaves, each to a node of its user's pool.
    fn pinned_away_from(&self, leaver: &NodeId) -> Result<Vec<SlotMove>, PlanRefused> {
        let mut pools: BTreeMap<Pool, Vec<Holder>> = BTreeMap::new();
        let mut moves = Vec::new();
        for row in self.state.slots[SLOT_COUNT..].iter().filter(|row| &row.owner == leaver) {
            let pool = row.pool.clone().unwrap_or_default();
            let all = || self.holders(&pool, |id| id != leaver && self.takes(id));
            let holders = pools.entry(pool.clone()).or_insert_with(all);
            let to = pools::next(holders).ok_or_else(|| PlanRefused::NoTaker(leaver.clone()))?;
            moves.push(SlotMove::new(row.slot, row.owner.clone(), to));
        }
        Ok(moves)
    }

    /// The one move that brings a user to a pool.
    pub(super) fn assigned(&self, user: &UserId, pool: &Pool) -> Result<SlotMove, PlanRefused> {
        let home = Slot::of_user(user);
        let pinned = self.state.slots[home.index()].pinned.slot_of(user.as_str());
        let row = &self.state.slots[pinned.unwrap_or(home).index()];
        let now = row.pool.clone().unwrap_or_default();
        if &now == pool && (pinned.is_none() || self.is_in(&row.owner, pool)) {
            return Err(PlanRefused::AlreadyInPool(pool.clone()));
        }
        if !self.is_up(&row.owner) {
            return Err(PlanRefused::LeaseOver(row.owner.clone()));
        }
        let mut holders = self.holders(pool, |id| self.takes(id) && self.is_in(id, pool) && id != &row.owner);
        let to = pools::next(&mut holders).ok_or_else(|| PlanRefused::EmptyPool(pool.clone()))?;
        let leaves = match pinned {
            Some(_) => None,
            None => {
                let slot = Slot::pinned(self.state.slots.len() - SLOT_COUNT).ok_or(PlanRefused::TooManyPinned)?;
                Some(PinnedUser { slot, user: user.clone() })
            }
        };
        Ok(SlotMove { leaves, pool: Some(pool.clone()), ..SlotMove::new(row.slot, row.owner.clone(), to) })
    }

    /// Members whose lease is over.
    pub(super) fn down_members(&self) -> impl Iterator<Item = &'a NodeId> {
        let standing = *self;
        self.state.members.iter().map(|member| &member.id).filter(move |id| !standing.is_up(id))
    }
}
