//! Which slots move: the canonical table of the members after the change is the aim, as far as moving slots to or from the
//! subject alone leads there.
//!
//! A slot whose owner is not the canonical one is *astray*. Joiners pick astray slots up and leavers drop theirs where they
//! belong, so that a small cluster comes back to its canonical table whatever way its members came and went.

use std::cmp::{Ordering, Reverse};

use crate::ring_points::{all_costs, canonical_owners, caps, limits, quotas};
use crate::{Member, SLOT_COUNT};

/// What the members should have after the change. Nodes are indices into `members`, slots are indices into tables.
pub(super) struct Target<'a> {
    members: &'a [Member],
    /// Per node and slot.
    costs: Vec<Vec<u64>>,
    /// The canonical owner of each slot.
    canonical: Vec<usize>,
    /// Per node: its share in whole slots.
    quotas: Vec<usize>,
    /// Per node: its most slots in the canonical table.
    caps: Vec<usize>,
    /// Per node: its most slots in any table.
    limits: Vec<usize>,
    /// How many slots may move.
    budget: usize,
}

impl<'a> Target<'a> {
    /// For these members, sorted by name.
    pub(super) fn new(members: &'a [Member], budget: usize) -> Self {
        let costs = all_costs(members);
        let canonical = canonical_owners(members, &costs);
        let (quotas, caps, limits) = (quotas(members), caps(members), limits(members));
        Self { members, costs, canonical, quotas, caps, limits, budget }
    }

    /// The owners after `node` has joined or gained weight.
    pub(super) fn gain(&self, node: usize, before: &[Option<usize>]) -> Vec<usize> {
        // Nobody leaves when somebody gains.
        let mut owners: Vec<usize> = before.iter().map(|owner| owner.unwrap_or(node)).collect();
        if let Some(healed) = self.with_all_astray(node, &owners) {
            return healed;
        }
        let mut held = self.held_best_last(node, &owners);
        let goal = self.quotas[node].min(held[node].len() + self.budget);
        while let Some(donor) = self.fullest(node, &held) {
            let relieves = held[donor].len() > self.limits[donor] && held[node].len() < self.limits[node];
            if held[node].len() >= goal && !relieves {
                break;
            }
            let Some(slot) = held[donor].pop() else { break };
            owners[slot] = node;
            held[node].push(slot);
        }
        owners
    }

    /// `node` takes every slot that is astray, its own among them, if these are not too many.
    fn with_all_astray(&self, node: usize, owners: &[usize]) -> Option<Vec<usize>> {
        let astray = |&slot: &usize| owners[slot] != node && owners[slot] != self.canonical[slot];
        let astray: Vec<usize> = (0..SLOT_COUNT).filter(astray).collect();
        let mut healed = owners.to_vec();
        astray.iter().for_each(|&slot| healed[slot] = node);
        let mut loads = vec![0; self.members.len()];
        healed.iter().for_each(|&owner| loads[owner] += 1);
        let fits = loads.iter().zip(&self.caps).all(|(load, cap)| load <= cap);
        (astray.len() <= self.budget && fits).then_some(healed)
    }

    /// The owners after `node` has lost weight.
    pub(super) fn shrink(&self, node: usize, before: &[Option<usize>]) -> Vec<usize> {
        let mut given: Vec<usize> = (0..SLOT_COUNT).filter(|&slot| before[slot] == Some(node)).collect();
        let held = given.len();
        // It keeps what is its own in the canonical table, and what costs it least.
        given.sort_by_key(|&slot| (self.canonical[slot] == node, Reverse(self.costs[node][slot]), slot));
        let astray = given.iter().filter(|&&slot| self.canonical[slot] != node).count();
        given.truncate(if astray <= self.budget && held - astray <= self.caps[node] {
            astray
        } else {
            let to_quota = held.saturating_sub(self.quotas[node]).min(self.budget);
            to_quota.max(held.saturating_sub(self.limits[node]))
        });
        self.give(Some(node), given, before)
    }

    /// The owners after the one whose slots have no owner has left.
    pub(super) fn replace_leaver(&self, before: &[Option<usize>]) -> Vec<usize> {
        let given = (0..SLOT_COUNT).filter(|&slot| before[slot].is_none()).collect();
        self.give(None, given, before)
    }

    /// Gives slots of `giver` (`None`: the one that left) to their canonical owners; what finds no room there, to the node
    /// with room that it costs least.
    fn give(&self, giver: Option<usize>, mut given: Vec<usize>, before: &[Option<usize>]) -> Vec<usize> {
        let mut owners: Vec<usize> = before.iter().map(|owner| owner.unwrap_or_default()).collect();
        let mut loads = vec![0; self.members.len()];
        before.iter().flatten().for_each(|&owner| loads[owner] += 1);
        let takers: Vec<usize> = (0..self.members.len()).filter(|&taker| Some(taker) != giver).collect();
        let mut homeless = Vec::new();
        given.sort_by_key(|&slot| (self.costs[self.canonical[slot]][slot], slot));
        for slot in given {
            let home = self.canonical[slot];
            if Some(home) != giver && loads[home] < self.caps[home] {
                owners[slot] = home;
                loads[home] += 1;
            } else {
                homeless.push(slot);
            }
        }
        for slot in homeless {
            let with_room = takers.iter().copied().filter(|&taker| loads[taker] < self.caps[taker]);
            let cheapest = with_room.min_by_key(|&taker| (self.costs[taker][slot], taker));
            // A giver pushed under its quota by its limit can leave no room below anybody's cap.
            let emptiest =
                || takers.iter().copied().min_by(|&a, &b| self.compare_fill(loads[a], a, loads[b], b).then(a.cmp(&b)));
            if let Some(taker) = cheapest.or_else(emptiest) {
                owners[slot] = taker;
                loads[taker] += 1;
            }
        }
        owners
    }

    /// Every node's slots, those last that `node` should take first: its own in the canonical table, then those astray, then
    /// those that cost it least.
    fn held_best_last(&self, node: usize, owners: &[usize]) -> Vec<Vec<usize>> {
        let mut held = vec![Vec::new(); self.members.len()];
        for (slot, &owner) in owners.iter().enumerate() {
            held[owner].push(slot);
        }
        for (owner, slots) in held.iter_mut().enumerate() {
            slots.sort_by_key(|&slot| {
                let canonical = self.canonical[slot];
                Reverse((canonical != node, canonical == owner, self.costs[node][slot], slot))
            });
        }
        held
    }

    /// The node to take a slot from: one over its limit, else the one with most for its weight.
    fn fullest(&self, node: usize, held: &[Vec<usize>]) -> Option<usize> {
        let over = |donor: usize| held[donor].len() > self.limits[donor];
        let donors = (0..self.members.len()).filter(|&donor| donor != node && !held[donor].is_empty());
        donors.max_by(|&a, &b| {
            let fill = self.compare_fill(held[a].len(), a, held[b].len(), b);
            over(a).cmp(&over(b)).then(fill).then(b.cmp(&a))
        })
    }

    /// Compares loads for their weight: the fractions load / weight, cross-multiplied.
    fn compare_fill(&self, load_a: usize, a: usize, load_b: usize, b: usize) -> Ordering {
        let weight = |node: usize| u64::from(self.members[node].weight.get());
        (load_a as u64 * weight(b)).cmp(&(load_b as u64 * weight(a)))
    }
}
