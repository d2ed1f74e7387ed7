//! What the slot table promises: balance, few moves, and the same table everywhere for ever.

use placement::rebalance::{RebalanceRefused, next_ring};
use placement::ring::RingInvalid;
use placement::ring_points::compile;
use placement::{Epoch, Member, NodeId, Ring, SLOT_COUNT, Slot, UserId, Weight};
use proptest::prelude::*;

fn member(name: &str, weight: u32) -> Member {
    Member { id: name.parse().expect("node id"), weight: Weight::try_from(weight).expect("weight") }
}

fn members(count: usize, weights: &[u32]) -> Vec<Member> {
    (0..count).map(|i| member(&format!("cache-node-{}", i + 1), weights[i % weights.len()])).collect()
}

fn ring(members: Vec<Member>) -> Ring {
    compile(Epoch(1), members).expect("ring")
}

fn fair_shares(ring: &Ring) -> Vec<f64> {
    let total: u32 = ring.members().iter().map(|member| member.weight.get()).sum();
    let share = |member: &Member| SLOT_COUNT as f64 * f64::from(member.weight.get()) / f64::from(total);
    ring.members().iter().map(share).collect()
}

/// The busiest member's slots over its share.
fn imbalance(ring: &Ring) -> f64 {
    let shares = fair_shares(ring);
    let ratios = ring.slots_per_member().into_iter().zip(shares).map(|(slots, share)| slots as f64 / share);
    ratios.fold(0.0, f64::max)
}

fn owners(ring: &Ring) -> Vec<NodeId> {
    Slot::all().map(|slot| ring.owner(slot).clone()).collect()
}

/// A line per run of slots with the same owner would be long; a digit per slot, 64 to a line, is easy to compare.
fn drawn(ring: &Ring) -> String {
    let digits: Vec<char> = "0123456789abcdefghijklmnopqrstuvwxyz".chars().collect();
    let table: Vec<char> = Slot::all().map(|slot| digits[ring.owner_index(slot)]).collect();
    let names: Vec<String> = ring.members().iter().map(|member| format!("{}:{}", member.id, member.weight)).collect();
    let lines: Vec<String> = table.chunks(64).map(|line| line.iter().collect()).collect();
    format!("{}\n{}\n", names.join(" "), lines.join("\n"))
}

#[test]
fn users_fall_into_the_slots_that_the_frozen_hash_says() {
    let golden =
        [("user-1", 0x7c76_15c1_1438_e5c9_u64), ("3f2504e0-4f89-11d3-9a0c-0305e82c3301", 0xcf25_f48b_2d78_d573)];
    for (user, hash) in golden {
        assert_eq!(xxhash_rust::xxh3::xxh3_64(user.as_bytes()), hash);
        let slot = Slot::of_user(&UserId::parse(user.as_bytes()).expect("user"));
        assert_eq!(u64::from(slot.number()), hash & 4095);
    }
    assert_eq!(xxhash_rust::xxh3::xxh3_64(b""), 0x2d06_8005_38d3_94c2);
}

#[test]
fn the_tables_are_those_of_the_golden_files() {
    let three = ring(vec![member("n1", 100), member("n2", 100), member("n3", 100)]);
    let ten = ring(members(10, &[1, 2, 4]));
    for (name, ring) in [("three-equal", three), ("ten-weighted", ten)] {
        let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let golden = std::fs::read_to_string(&path).expect("golden file");
        assert!(golden == drawn(&ring), "{name}: the table of {path} must never change; it is now\n{}", drawn(&ring));
    }
}

#[test]
fn the_busiest_member_has_at_most_1_05_times_its_share_at_any_size() {
    for weights in [&[100][..], &[1, 2, 4]] {
        for count in 3..=100 {
            let imbalance = imbalance(&ring(members(count, weights)));
            assert!(imbalance <= 1.05, "{count} members of {weights:?}: {imbalance}");
        }
    }
}

#[test]
fn users_of_any_shape_spread_evenly() {
    for count in [3, 5, 8] {
        let ring = ring(members(count, &[100]));
        for shape in ["{}", "{:032x}", "user.{}@example.com"] {
            let mut users = vec![0_u32; count];
            for i in 0..20_000_u128 {
                let id = match shape {
                    "{}" => i.to_string(),
                    "{:032x}" => format!("{:032x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834)),
                    _ => format!("user.{i}@example.com"),
                };
                users[ring.owner_index(Slot::of_user(&UserId::parse(id.as_bytes()).expect("user")))] += 1;
            }
            let busiest = f64::from(*users.iter().max().expect("members"));
            assert!(busiest / (20_000.0 / count as f64) <= 1.10, "{shape} on {count}: {users:?}");
        }
    }
}

#[test]
fn the_order_of_the_members_does_not_matter() {
    let mut reversed = members(7, &[1, 2, 4]);
    reversed.reverse();
    assert_eq!(owners(&ring(members(7, &[1, 2, 4]))), owners(&ring(reversed)));
}

#[test]
fn removing_a_member_moves_its_users_only_and_adding_it_again_gives_the_first_map() {
    for names in [["n1", "n2", "n3"], ["cache-node-1", "cache-node-2", "cache-node-3"], ["a", "b", "c"]] {
        let all: Vec<Member> = names.iter().map(|name| member(name, 100)).collect();
        let first = ring(all.clone());
        let without = next_ring(&first, &all[..2]).expect("remove");
        for moved in first.moves_to(&without) {
            assert_eq!(moved.from, all[2].id);
        }
        let again = next_ring(&without, &all).expect("add");
        assert_eq!(owners(&again), owners(&first));
        assert_eq!(again.epoch(), Epoch(3));
    }
}

#[test]
fn after_two_hundred_nodes_came_and_went_the_map_is_that_of_a_fresh_cluster() {
    let base: Vec<Member> = ["n1", "n2", "n3"].iter().map(|name| member(name, 100)).collect();
    let mut ring_now = ring(base.clone());
    for i in 0..200 {
        let mut with_guest = base.clone();
        with_guest.push(member(&format!("guest-{i}.rack-{}", i % 7), 100));
        ring_now = next_ring(&ring_now, &with_guest).expect("add");
        assert_eq!(ring_now.slots_per_member().iter().sum::<usize>(), SLOT_COUNT);
        ring_now = next_ring(&ring_now, &base).expect("remove");
    }
    let fresh = ring(vec![base[2].clone(), base[0].clone(), base[1].clone()]);
    assert_eq!(owners(&ring_now), owners(&fresh));
}

#[test]
fn impossible_changes_are_refused() {
    let first = ring(members(3, &[100]));
    assert_eq!(next_ring(&first, &[]), Err(RebalanceRefused::Invalid(RingInvalid::NoMembers)));
    assert_eq!(next_ring(&first, &members(3, &[100])), Err(RebalanceRefused::NotOneChange));
    assert_eq!(next_ring(&first, &members(5, &[100])), Err(RebalanceRefused::NotOneChange));
    let twice = vec![member("n1", 1), member("n1", 2)];
    assert!(matches!(compile(Epoch(1), twice), Err(RingInvalid::DuplicateMember(_))));
}

/// One step of a cluster's life.
#[derive(Clone, Debug)]
enum Step {
    Join(u32),
    Leave(usize),
    Reweight(usize, u32),
}

fn steps(weights: &'static [u32]) -> impl Strategy<Value = Vec<Step>> {
    let weight = proptest::sample::select(weights);
    let step = prop_oneof![
        3 => weight.clone().prop_map(Step::Join),
        2 => any::<usize>().prop_map(Step::Leave),
        1 => (any::<usize>(), weight).prop_map(|(node, weight)| Step::Reweight(node, weight)),
    ];
    proptest::collection::vec(step, 1..25)
}

/// Goes through the steps and checks each: only the subject's slots move, few of them, and the balance holds.
fn check_life(start: usize, weights: &[u32], steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut ring_now = ring(members(start, weights));
    for (number, step) in steps.into_iter().enumerate() {
        let mut after = ring_now.members().to_vec();
        let subject = match step {
            Step::Join(weight) => {
                after.push(member(&format!("joiner-{number}"), weight));
                after[after.len() - 1].id.clone()
            }
            Step::Leave(_) if after.len() <= 3 => continue,
            Step::Leave(at) => after.remove(at % ring_now.members().len()).id,
            Step::Reweight(at, weight) => {
                let at = at % after.len();
                if after[at].weight.get() == weight {
                    continue;
                }
                after[at].weight = Weight::try_from(weight).expect("weight");
                after[at].id.clone()
            }
        };
        let next = next_ring(&ring_now, &after).expect("next ring");
        let moved: Vec<_> = ring_now.moves_to(&next).collect();
        prop_assert!(moved.iter().all(|m| m.from == subject || m.to == subject), "only the subject's slots move");
        let share =
            |ring: &Ring| ring.members().iter().position(|m| m.id == subject).map_or(0.0, |at| fair_shares(ring)[at]);
        if ring_now.member(&subject).is_none() {
            let optimum = share(&next);
            prop_assert!(moved.len() as f64 <= (optimum * 1.05).max(optimum.ceil()), "{} of {optimum}", moved.len());
        }
        let imbalance = imbalance(&next);
        prop_assert!(imbalance <= 1.05, "{} members: {imbalance}", next.members().len());
        ring_now = next;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_and_goes_few_slots_move_and_the_balance_holds(start in 3_usize..75, steps in steps(&[100])) {
        check_life(start, &[100], steps)?;
    }

    #[test]
    fn the_same_holds_with_weights_1_2_4(start in 3_usize..75, steps in steps(&[1, 2, 4])) {
        check_life(start, &[1, 2, 4], steps)?;
    }
}
