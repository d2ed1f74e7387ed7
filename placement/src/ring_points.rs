//! The consistent hashing: weighted points and bounded loads, compiled into a slot table.
//!
//! Every (node, slot) pair is a point with a cost, drawn from a hash of both and divided by the node's weight; a slot goes to
//! the node whose point is cheapest (weighted rendezvous), unless that node is full, then to the next. Integers only, so that
//! the table is the same on every machine for ever. `docs/adr/0001-slot-table.md` says why.

use std::sync::LazyLock;

use xxhash_rust::xxh3::xxh3_64;

use crate::ring::{RingInvalid, check_members};
use crate::{Epoch, Member, NodeId, Ring, SLOT_COUNT, Slot, Weight};

/// Up to this many members the table may stray from perfect balance (by up to 5 %) in favour of hashing alone, which makes it
/// the same whatever way the members came and went. Above, shares are so small that hashing alone would stray further.
const LOOSE_MEMBERS_MAX: usize = 8;

/// The canonical table of these members: depends on their names and weights alone, not on their order.
pub fn compile(epoch: Epoch, members: Vec<Member>) -> Result<Ring, RingInvalid> {
    let mut members = members;
    members.sort_by(|a, b| a.id.cmp(&b.id));
    check_members(&members)?;
    let owners = canonical_owners(&members, &all_costs(&members));
    let names: Vec<NodeId> = members.iter().map(|member| member.id.clone()).collect();
    Ring::new(epoch, members, |slot| names[owners[slot.index()]].clone())
}

/// How many slots each member should have: its share, rounded by largest remainder. Shares that rounding up would take over
/// 1.05 times their size are rounded up last.
pub fn quotas(members: &[Member]) -> Vec<usize> {
    let total: u64 = total_weight(members);
    let scaled = |member: &Member| SLOT_COUNT as u64 * u64::from(member.weight.get());
    let mut quotas: Vec<usize> = members.iter().map(|member| (scaled(member) / total) as usize).collect();
    let mut left = SLOT_COUNT - quotas.iter().sum::<usize>();
    let mut order: Vec<usize> = (0..members.len()).filter(|&i| scaled(&members[i]) % total > 0).collect();
    order.sort_by_key(|&i| {
        let fair = scaled(&members[i]);
        let over = (quotas[i] as u64 + 1) * total * 100 > fair * 105;
        (over, std::cmp::Reverse(fair % total), i)
    });
    for i in order {
        if left == 0 {
            break;
        }
        quotas[i] += 1;
        left -= 1;
    }
    quotas
}

/// The points of all members, in their order.
pub(crate) fn all_costs(members: &[Member]) -> Vec<Vec<u64>> {
    members.iter().map(|member| costs(&member.id, member.weight)).collect()
}

/// The points of one node: what each slot costs it, cheapest first served.
///
/// The node's slots are ranked by hash and the rank is what is drawn, so that every node draws the same costs, only for other
/// slots: that spreads the loads by a third to a half less than drawing freely.
fn costs(id: &NodeId, weight: Weight) -> Vec<u64> {
    let mut name = id.as_str().as_bytes().to_vec();
    // No node id holds a NUL, so that no two (name, slot) pairs run together.
    name.push(0);
    let prefix = name.len();
    let mut ranked: Vec<(u64, Slot)> = Slot::all()
        .map(|slot| {
            name.truncate(prefix);
            name.extend_from_slice(&slot.number().to_le_bytes());
            (xxh3_64(&name), slot)
        })
        .collect();
    ranked.sort_unstable();
    let mut costs = vec![0; SLOT_COUNT];
    for (rank, (_, slot)) in ranked.into_iter().enumerate() {
        costs[slot.index()] = EXPONENTIAL[rank] / u64::from(weight.get());
    }
    costs
}

/// −log₂ of (rank + ½) / 4096, with 40 binary places: ranks as exponentially distributed costs.
static EXPONENTIAL: LazyLock<Vec<u64>> = LazyLock::new(|| {
    // (rank + ½) / 4096 = (2·rank + 1) / 2¹³
    (0..SLOT_COUNT as u64).map(|rank| (13 << FRACTION_BITS) - log2(2 * rank + 1)).collect()
});

const FRACTION_BITS: u32 = 40;

/// log₂ of `x` ≥ 1 with 40 binary places, by repeated squaring: no floating point, whose logarithm differs by machine.
fn log2(x: u64) -> u64 {
    let whole = x.ilog2();
    // The mantissa, 1 ≤ m < 2, with 62 binary places.
    let mut mantissa = u128::from(x) << (62 - whole);
    let mut result = u64::from(whole) << FRACTION_BITS;
    for bit in (0..FRACTION_BITS).rev() {
        mantissa = (mantissa * mantissa) >> 62;
        if mantissa >= 2 << 62 {
            mantissa >>= 1;
            result |= 1 << bit;
        }
    }
    result
}

/// Owners by index into `members`, which must be sorted by name; with the points of [`all_costs`].
pub(crate) fn canonical_owners(members: &[Member], costs: &[Vec<u64>]) -> Vec<usize> {
    let caps = caps(members);
    let mut loads = vec![0; members.len()];
    let cheapest = |slot: usize, loads: &[usize], caps: &[usize]| {
        let with_room = (0..members.len()).filter(|&node| loads[node] < caps[node]);
        with_room.min_by_key(|&node| (costs[node][slot], node))
    };
    // Slots that are surest of their first choice are placed first, so that a full node turns away those that lose least.
    let mut slots: Vec<(u64, usize)> =
        (0..SLOT_COUNT).map(|slot| (costs.iter().map(|costs| costs[slot]).min().unwrap_or_default(), slot)).collect();
    slots.sort_unstable();
    let mut owners = vec![0; SLOT_COUNT];
    for (_, slot) in slots {
        let owner = cheapest(slot, &loads, &caps).expect("the caps add up to all slots or more");
        loads[owner] += 1;
        owners[slot] = owner;
    }
    owners
}

/// How many slots each member may have in the canonical table.
pub(crate) fn caps(members: &[Member]) -> Vec<usize> {
    if members.len() > LOOSE_MEMBERS_MAX { quotas(members) } else { limits(members) }
}

/// How many slots each member may have in any table: 1.05 times its share, or its quota where that is more.
pub(crate) fn limits(members: &[Member]) -> Vec<usize> {
    let total = total_weight(members);
    let loose = |member: &Member| (SLOT_COUNT as u64 * u64::from(member.weight.get()) * 105 / (total * 100)) as usize;
    members.iter().zip(quotas(members)).map(|(member, quota)| quota.max(loose(member))).collect()
}

pub(crate) fn total_weight(members: &[Member]) -> u64 {
    members.iter().map(|member| u64::from(member.weight.get())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_right_to_ten_places() {
        for x in [1_u64, 2, 3, 5, 1000, 8191] {
            let exact = (x as f64).log2();
            let ours = log2(x) as f64 / (1_u64 << FRACTION_BITS) as f64;
            assert!((exact - ours).abs() < 1e-10, "{x}: {exact} {ours}");
        }
    }

    #[test]
    fn quotas_add_up_and_are_within_one_of_the_share() {
        let weights = [1, 2, 4, 10_000, 3, 100];
        let members: Vec<Member> = (0..weights.len())
            .map(|i| Member {
                id: format!("n{i}").parse().expect("id"),
                weight: Weight::try_from(weights[i]).expect("weight"),
            })
            .collect();
        let quotas = quotas(&members);
        assert_eq!(quotas.iter().sum::<usize>(), SLOT_COUNT);
        for (member, quota) in members.iter().zip(quotas) {
            let fair = 4096.0 * f64::from(member.weight.get()) / total_weight(&members) as f64;
            assert!((quota as f64 - fair).abs() <= 1.0);
        }
    }
}
