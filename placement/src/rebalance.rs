//! From one ring to the next: one node joins, leaves or changes its weight, and only the slots that must move do.
//!
//! The canonical table of the new members is taken when it moves no other slots; then the ring is the same whatever way it
//! came about. Otherwise the present table is changed as little as possible.

use crate::ring::{RingInvalid, check_members};
use crate::ring_points::{canonical_owners, costs, quotas};
use crate::{Member, NodeId, Ring, SLOT_COUNT, Slot};

/// Why there is no next ring.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RebalanceRefused {
    /// The members after the change make no ring.
    #[error(transparent)]
    Invalid(#[from] RingInvalid),
    /// Nothing differs, or more than one member does.
    #[error("a ring change is about exactly one member")]
    NotOneChange,
}

/// The one member that a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// Gains slots: joins, or gets more weight. Index into the members after.
    Gains(usize),
    /// Loses slots: leaves (no index after), or gets less weight.
    Loses(Option<usize>),
}

/// The ring after `current`, with these members, of which exactly one joined, left, or changed its weight.
///
/// Only slots to or from that member move; at most 1.05 times as many as its share demands; and the busiest member ends at no
/// more than 1.05 times its share, as far as whole slots allow (shares over 20 slots).
pub fn next_ring(current: &Ring, members_after: &[Member]) -> Result<Ring, RebalanceRefused> {
    let mut members = members_after.to_vec();
    members.sort_by(|a, b| a.id.cmp(&b.id));
    check_members(&members)?;
    let subject = subject(current, &members)?;
    let before = owners_before(current, &members);
    let canonical = canonical_owners(&members);
    let quotas = quotas(&members);
    let owners = if moves_only_what_must(subject, &before, &canonical, &quotas) {
        canonical
    } else {
        least_moves(subject, &members, before, &canonical, &quotas)
    };
    let names: Vec<NodeId> = members.iter().map(|member| member.id.clone()).collect();
    Ok(Ring::new(current.epoch().next(), members, |slot| names[owners[slot.index()]].clone())?)
}

fn subject(current: &Ring, after: &[Member]) -> Result<Subject, RebalanceRefused> {
    let left = current.members().iter().filter(|member| !after.iter().any(|other| other.id == member.id)).count();
    let changed: Vec<Subject> = after
        .iter()
        .enumerate()
        .filter_map(|(index, member)| match current.member(&member.id) {
            None => Some(Subject::Gains(index)),
            Some(before) if before.weight < member.weight => Some(Subject::Gains(index)),
            Some(before) if before.weight > member.weight => Some(Subject::Loses(Some(index))),
            Some(_) => None,
        })
        .collect();
    match (left, changed.as_slice()) {
        (0, [only]) => Ok(*only),
        (1, []) => Ok(Subject::Loses(None)),
        _ => Err(RebalanceRefused::NotOneChange),
    }
}

/// The owner of each slot before, as an index into the members after; `None`: the one that leaves.
fn owners_before(current: &Ring, after: &[Member]) -> Vec<Option<usize>> {
    Slot::all().map(|slot| after.iter().position(|member| &member.id == current.owner(slot))).collect()
}

fn moves_only_what_must(subject: Subject, before: &[Option<usize>], next: &[usize], quotas: &[usize]) -> bool {
    let moved: Vec<usize> = (0..SLOT_COUNT).filter(|&slot| before[slot] != Some(next[slot])).collect();
    let held = |node: Option<usize>| before.iter().filter(|&&owner| owner == node).count();
    let (forced, demanded) = match subject {
        Subject::Gains(node) => {
            (moved.iter().all(|&slot| next[slot] == node), quotas[node].saturating_sub(held(Some(node))))
        }
        Subject::Loses(node) => {
            let keeps = node.map_or(0, |node| quotas[node]);
            (moved.iter().all(|&slot| before[slot] == node), held(node).saturating_sub(keeps))
        }
    };
    forced && moved.len() * 100 <= demanded * 105
}

/// Moves exactly what the subject's quota demands.
fn least_moves(
    subject: Subject,
    members: &[Member],
    before: Vec<Option<usize>>,
    canonical: &[usize],
    quotas: &[usize],
) -> Vec<usize> {
    match subject {
        Subject::Gains(node) => take(node, members, &before, canonical, quotas[node]),
        Subject::Loses(node) => give(node, members, before, canonical, quotas),
    }
}

/// The member takes slots, one after the other from whoever has most for its weight, until it has its quota.
fn take(node: usize, members: &[Member], before: &[Option<usize>], canonical: &[usize], quota: usize) -> Vec<usize> {
    let costs = costs(&members[node].id, members[node].weight);
    // Nobody leaves when somebody gains.
    let mut owners: Vec<usize> = before.iter().map(|owner| owner.unwrap_or(node)).collect();
    let mut held: Vec<Vec<usize>> = vec![Vec::new(); members.len()];
    for (slot, &owner) in owners.iter().enumerate() {
        held[owner].push(slot);
    }
    for slots in &mut held {
        // Taken from the end: first what the canonical table gives to the member, then what costs it least.
        slots.sort_by_key(|&slot| std::cmp::Reverse((canonical[slot] != node, costs[slot], slot)));
    }
    while held[node].len() < quota {
        let donors = (0..members.len()).filter(|&donor| donor != node && !held[donor].is_empty());
        // Loads compare as fractions load / weight, cross-multiplied.
        let fullest = donors.max_by(|&a, &b| {
            let load = |node: usize, other: usize| held[node].len() as u64 * u64::from(members[other].weight.get());
            load(a, b).cmp(&load(b, a)).then(b.cmp(&a))
        });
        let Some(slot) = fullest.and_then(|donor| held[donor].pop()) else { break };
        owners[slot] = node;
        held[node].push(slot);
    }
    owners
}

/// The member (`None`: the one that leaves) gives slots to those below their quota, where the canonical table says if there
/// is room.
fn give(
    node: Option<usize>,
    members: &[Member],
    before: Vec<Option<usize>>,
    canonical: &[usize],
    quotas: &[usize],
) -> Vec<usize> {
    let mut loads = vec![0_usize; members.len()];
    before.iter().flatten().for_each(|&owner| loads[owner] += 1);
    let mut given: Vec<usize> = (0..SLOT_COUNT).filter(|&slot| before[slot] == node).collect();
    if let Some(node) = node {
        // It keeps what the canonical table leaves it, and what costs it least.
        let costs = costs(&members[node].id, members[node].weight);
        given.sort_by_key(|&slot| (canonical[slot] == node, std::cmp::Reverse(costs[slot]), slot));
        given.truncate(loads[node].saturating_sub(quotas[node]));
        loads[node] -= given.len();
    }
    let mut owners: Vec<usize> = before.into_iter().map(Option::unwrap_or_default).collect();
    let has_room = |loads: &[usize], taker: usize| Some(taker) != node && loads[taker] < quotas[taker];
    let mut homeless = Vec::new();
    for slot in given {
        let home = canonical[slot];
        if has_room(&loads, home) {
            owners[slot] = home;
            loads[home] += 1;
        } else {
            homeless.push(slot);
        }
    }
    for slot in homeless {
        let takers = (0..members.len()).filter(|&taker| Some(taker) != node);
        // The one that is furthest below its share: least (load / weight), cross-multiplied.
        let emptiest = takers.min_by(|&a, &b| {
            let load = |node: usize, other: usize| loads[node] as u64 * u64::from(members[other].weight.get());
            (!has_room(&loads, a), load(a, b)).cmp(&(!has_room(&loads, b), load(b, a))).then(a.cmp(&b))
        });
        if let Some(taker) = emptiest {
            owners[slot] = taker;
            loads[taker] += 1;
        }
    }
    owners
}
