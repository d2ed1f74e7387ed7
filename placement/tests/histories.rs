//! Members come and go: what the map remembers of it.

use placement::rebalance::next_ring;
use placement::ring_points::compile;
use placement::{Epoch, Member, NodeId, Ring, SLOT_COUNT, Weight};

fn member(name: &str, weight: u32) -> Member {
    Member { id: name.parse().expect("node id"), weight: Weight::try_from(weight).expect("weight") }
}

fn members(names: &[&str]) -> Vec<Member> {
    names.iter().map(|name| member(name, 100)).collect()
}

fn fresh(members: &[Member]) -> Ring {
    compile(Epoch(1), members.to_vec()).expect("ring")
}

fn step(ring: &Ring, members: &[Member]) -> Ring {
    let next = next_ring(ring, members).expect("next ring");
    assert_eq!(next.slots_per_member().iter().sum::<usize>(), SLOT_COUNT);
    next
}

/// How many slots have another owner.
fn differing(a: &Ring, b: &Ring) -> usize {
    a.moves_to(b).count()
}

/// The same numbers on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % sides as u64) as usize
    }
}

#[test]
fn guests_that_overlap_leave_no_trace() {
    let base = members(&["n1", "n2", "n3"]);
    let mut now = base.clone();
    let mut ring = fresh(&base);
    for i in 0..200 {
        now.push(member(&format!("guest-{i}.rack-{}", i % 7), 100));
        ring = step(&ring, &now);
        if now.len() > 5 {
            now.remove(3);
            ring = step(&ring, &now);
        }
    }
    while now.len() > 3 {
        now.remove(3);
        ring = step(&ring, &now);
    }
    let reversed: Vec<Member> = base.into_iter().rev().collect();
    assert_eq!(differing(&ring, &fresh(&reversed)), 0);
}

#[test]
fn five_nodes_in_and_out_at_random_come_back_to_the_map_of_a_fresh_cluster() {
    let pool = members(&["n1", "n2", "n3", "n4", "n5"]);
    let (mut now, mut ring) = (pool[..3].to_vec(), fresh(&pool[..3]));
    let mut dice = Dice(7);
    let toggle = |now: &mut Vec<Member>, ring: &mut Ring, node: &Member| {
        match now.iter().position(|member| member == node) {
            Some(at) => drop(now.remove(at)),
            None => now.push(node.clone()),
        }
        *ring = step(ring, now);
    };
    for _ in 0..200 {
        let node = &pool[dice.roll(5)];
        if now.len() > 2 || !now.contains(node) {
            toggle(&mut now, &mut ring, node);
        }
    }
    let missing: Vec<&Member> = pool[..3].iter().filter(|node| !now.contains(node)).collect();
    missing.into_iter().for_each(|node| toggle(&mut now, &mut ring, node));
    let guests: Vec<&Member> = pool[3..].iter().filter(|node| now.contains(node)).collect();
    guests.into_iter().for_each(|node| toggle(&mut now, &mut ring, node));
    assert_eq!(differing(&ring, &fresh(&pool[..3])), 0);
}

#[test]
fn a_member_that_leaves_and_comes_back_restores_the_map_at_any_size() {
    for count in [3, 4, 5, 8, 9, 16, 40, 100] {
        let all: Vec<Member> = (1..=count).map(|i| member(&format!("cache-node-{i}"), 100)).collect();
        let first = fresh(&all);
        let without = step(&first, &all[1..]);
        assert!(first.moves_to(&without).all(|moved| moved.from == all[0].id), "{count}");
        assert_eq!(differing(&first, &step(&without, &all)), 0, "{count} members");
    }
}

#[test]
fn a_new_weight_moves_what_the_share_asks_for() {
    let share = |ring: &Ring, id: &NodeId| {
        let total: u32 = ring.members().iter().map(|member| member.weight.get()).sum();
        ring.member(id).map_or(0.0, |member| SLOT_COUNT as f64 * f64::from(member.weight.get()) / f64::from(total))
    };
    for count in [3_usize, 8, 20] {
        let mut now: Vec<Member> = (0..count).map(|i| member(&format!("n{i}"), 100)).collect();
        let mut ring = fresh(&now);
        let mut dice = Dice(count as u64);
        for _ in 0..10 {
            let at = dice.roll(count);
            let weight = Weight::try_from(60 + dice.roll(90) as u32).expect("weight");
            if weight == now[at].weight {
                continue;
            }
            now[at].weight = weight;
            let (next, id) = (step(&ring, &now), &now[at].id);
            let asked = (share(&next, id) - share(&ring, id)).abs();
            let moved: Vec<_> = ring.moves_to(&next).collect();
            assert!(moved.iter().all(|moved| moved.from == *id || moved.to == *id));
            // One slot more where rounding would put a member over 1.05 times its share.
            assert!(moved.len() as f64 <= asked * 1.05 + 1.0, "{count} members: {} of {asked}", moved.len());
            ring = next;
        }
    }
}

#[test]
fn a_bad_member_is_refused_and_a_good_one_joins_after_it() {
    let base = members(&["n1", "n2", "n3"]);
    let ring = fresh(&base);
    for weight in [0, 10_001, u32::MAX] {
        assert!(Weight::try_from(weight).is_err(), "{weight}");
    }
    for name in ["", "with blank", "-dash", "ü", "a/b", &"x".repeat(64)] {
        assert!(name.parse::<NodeId>().is_err(), "{name}");
    }
    assert!(next_ring(&ring, &members(&["n1", "n2", "n3", "n3"])).is_err());
    let joined = step(&ring, &members(&["n1", "n2", "n3", "n4"]));
    assert_eq!(joined.epoch(), Epoch(2));
    assert!(joined.slots_per_member()[3] > 900);
}
