//! From one ring to the next: one node joins, leaves or changes its weight, and only slots to or from that node move.
//!
//! Which ones, `target` decides.

use crate::ring::{RingInvalid, check_members};
use crate::ring_points::total_weight;
use crate::{Member, NodeId, Ring, SLOT_COUNT, Slot};

mod target;

use target::Target;

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
    /// Loses slots, but stays: gets less weight. Index into the members after.
    Shrinks(usize),
    /// Loses all its slots.
    Leaves,
}

/// The ring after `current`, with these members, of which exactly one joined, left, or changed its weight.
///
/// Every slot that moves goes to the one that joined or gained weight, or comes from the one that left or lost weight.
/// From a ring that [`compile`](crate::ring_points::compile) or this function made:
/// - no member has more than 1.05 times its share, or than its [quota](crate::ring_points::quotas) where so few slots
///   cannot be rounded to within 5 %; so a joiner takes, and a leaver leaves behind, no more than that;
/// - a new weight moves at most 1.05 times the difference of the shares (at least one slot), and only more where rounding
///   to whole slots would break the promise above.
pub fn next_ring(current: &Ring, members_after: &[Member]) -> Result<Ring, RebalanceRefused> {
    let mut members = members_after.to_vec();
    members.sort_by(|a, b| a.id.cmp(&b.id));
    check_members(&members)?;
    let subject = subject(current, &members)?;
    let before = owners_before(current, &members);
    let target = Target::new(&members, budget(current, &members, subject));
    let owners = match subject {
        Subject::Gains(node) => target.gain(node, &before),
        Subject::Shrinks(node) => target.shrink(node, &before),
        Subject::Leaves => target.replace_leaver(&before),
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
            Some(before) if before.weight > member.weight => Some(Subject::Shrinks(index)),
            Some(_) => None,
        })
        .collect();
    match (left, changed.as_slice()) {
        (0, [only]) => Ok(*only),
        (1, []) => Ok(Subject::Leaves),
        _ => Err(RebalanceRefused::NotOneChange),
    }
}

/// The owner of each slot before, as an index into the members after; `None`: the one that leaves.
fn owners_before(current: &Ring, after: &[Member]) -> Vec<Option<usize>> {
    let position = |member: &Member| after.iter().position(|other| other.id == member.id);
    let positions: Vec<Option<usize>> = current.members().iter().map(position).collect();
    Slot::all().map(|slot| positions[current.owner_index(slot)]).collect()
}

/// How many slots may move: 1.05 times the difference of the subject's share, and at least one; all that a leaver has.
fn budget(current: &Ring, after: &[Member], subject: Subject) -> usize {
    let node = match subject {
        Subject::Gains(node) | Subject::Shrinks(node) => &after[node],
        Subject::Leaves => return SLOT_COUNT,
    };
    let weight_before = current.member(&node.id).map_or(0, |member| u64::from(member.weight.get()));
    let weight_after = u64::from(node.weight.get());
    let (total_before, total_after) = (total_weight(current.members()), total_weight(after));
    // With 1024 members of weight 10 000 each product here stays under 2⁵⁷.
    let difference = (weight_before * total_after).abs_diff(weight_after * total_before) * SLOT_COUNT as u64;
    ((difference * 105 / (total_before * total_after * 100)) as usize).max(1)
}
