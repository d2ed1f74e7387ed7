//! The plans, and every reason to refuse one.

use origin::{NodeRow, RingDigest, SlotRow};
use placement::{Gained, PinnedUsers, Pool, Slot, Tenure, ring_points};

use super::*;

mod absent_members;

fn node(name: &str) -> NodeId {
    name.parse().expect("a node id")
}

fn weight(number: u32) -> Weight {
    Weight::try_from(number).expect("a weight")
}

fn row(name: &str, port: u16) -> NodeRow {
    NodeRow {
        id: node(name),
        address: format!("127.0.0.1:{port}"),
        weight: weight(100),
        pool: Pool::default(),
        incarnation: Incarnation(1),
        lease_left_ms: 3000,
        leaving: false,
    }
}

/// A ring of n1, n2, n3, with n4 standing by.
fn ring() -> RingState {
    let members: Vec<Member> = ["n1", "n2", "n3"].map(|name| Member { id: node(name), weight: weight(100) }).to_vec();
    let table = ring_points::compile(Epoch(7), members.clone()).expect("a ring");
    let slots = Slot::all().map(|slot| SlotRow {
        slot,
        owner: table.owner(slot).clone(),
        tenure: Tenure(1),
        gained: Gained(1),
        l2_space: None,
        pinned: PinnedUsers::NONE,
        pool: None,
    });
    RingState {
        digest: RingDigest { epoch: Epoch(7), ..RingDigest::default() },
        members,
        slots: slots.collect(),
        nodes: vec![row("n1", 7001), row("n2", 7002), row("n3", 7003), row("n4", 7004)],
        change: None,
    }
}

fn add(name: &str) -> Verb {
    Verb::AddNode { id: node(name), weight: None }
}

fn remove(name: &str) -> Verb {
    Verb::RemoveNode { id: node(name) }
}

#[test]
fn a_joining_node_gets_its_share_and_nothing_else_moves() {
    let plan = make(&ring(), &add("n4")).expect("a plan");
    assert_eq!((plan.from_epoch, plan.next.epoch()), (Epoch(7), Epoch(8)));
    assert!(plan.moves.iter().all(|moving| moving.to == node("n4")));
    assert!((973..=1075).contains(&plan.moves.len()), "{}", plan.moves.len());
    let joined = plan.shares.iter().find(|share| share.id == node("n4")).expect("in the table");
    assert_eq!((joined.weight_now, joined.slots_now), (None, 0));
    assert_eq!((joined.weight_after, joined.slots_after), (Some(weight(100)), plan.moves.len()));
    assert_eq!(plan.shares.iter().map(|share| share.slots_after).sum::<usize>(), placement::SLOT_COUNT);
}

#[test]
fn a_joining_node_has_the_weight_it_was_started_with_unless_told() {
    let mut state = ring();
    state.nodes[3].weight = weight(200);
    let of_n4 = |plan: Plan| plan.next.member(&node("n4")).map(|member| member.weight);
    assert_eq!(of_n4(make(&state, &add("n4")).expect("a plan")), Some(weight(200)));
    let told = Verb::AddNode { id: node("n4"), weight: Some(weight(50)) };
    assert_eq!(told.action(), "add-node n4 --weight 50");
    assert_eq!(of_n4(make(&state, &told).expect("a plan")), Some(weight(50)));
}

#[test]
fn a_leaving_node_gives_all_it_has_and_nothing_else_moves() {
    let plan = make(&ring(), &remove("n3")).expect("a plan");
    assert!(plan.moves.iter().all(|moving| moving.from == node("n3")));
    assert_eq!(plan.next.members().len(), 2);
    let left = plan.shares.iter().find(|share| share.id == node("n3")).expect("in the table");
    assert_eq!((left.slots_now, left.slots_after, left.weight_after), (plan.moves.len(), 0, None));
}

#[test]
fn more_weight_takes_and_less_weight_gives() {
    let reweight = |number| Verb::SetWeight { id: node("n1"), weight: weight(number) };
    let more = make(&ring(), &reweight(200)).expect("a plan");
    assert!(!more.moves.is_empty() && more.moves.iter().all(|moving| moving.to == node("n1")));
    let less = make(&ring(), &reweight(50)).expect("a plan");
    assert!(!less.moves.is_empty() && less.moves.iter().all(|moving| moving.from == node("n1")));
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let refused = |verb: &Verb| make(&ring(), verb).expect_err("refused");
    assert_eq!(refused(&add("n5")), PlanRefused::NotRegistered(node("n5")));
    assert_eq!(refused(&add("n1")), PlanRefused::AlreadyMember(node("n1")));
    assert_eq!(refused(&remove("n4")), PlanRefused::NotMember(node("n4")));
    let same = Verb::SetWeight { id: node("n1"), weight: weight(100) };
    assert_eq!(refused(&same), PlanRefused::SameWeight { id: node("n1"), weight: weight(100) });
    let stranger = Verb::SetWeight { id: node("n4"), weight: weight(50) };
    assert_eq!(refused(&stranger), PlanRefused::NotMember(node("n4")));
}

#[test]
fn the_last_member_stays() {
    let mut state = ring();
    state.members.truncate(1);
    state.slots.iter_mut().for_each(|row| row.owner = node("n1"));
    assert_eq!(make(&state, &remove("n1")).expect_err("refused"), PlanRefused::LastMember(node("n1")));
}

#[test]
fn a_node_without_a_lease_or_an_address_of_its_own_does_not_join() {
    let mut state = ring();
    state.nodes[3].lease_left_ms = 0;
    assert_eq!(make(&state, &add("n4")).expect_err("refused"), PlanRefused::LeaseOver(node("n4")));
    for address in ["", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:70000", ":7004", "host:+7004", "a/b:7004", "a b:7004"] {
        let mut state = ring();
        state.nodes[3].address = address.to_owned();
        let refused = make(&state, &add("n4")).expect_err("refused");
        assert_eq!(refused, PlanRefused::BadAddress { id: node("n4"), address: address.to_owned() });
    }
    let mut state = ring();
    state.nodes[3].address = "127.0.0.1:7001".to_owned();
    let refused = make(&state, &add("n4")).expect_err("refused");
    assert!(matches!(refused, PlanRefused::AddressTaken { by, .. } if by == node("n1")));
    state.nodes[0].lease_left_ms = 0;
    state.nodes[3].address = "[::1]:7004".to_owned();
    make(&state, &add("n4")).expect("a dead node's address may be used again, and v6 addresses are fine");
}

#[test]
fn a_node_in_the_place_of_another_gets_exactly_its_slots_and_weight() {
    let state = ring();
    let verb = Verb::ReplaceNode { old: node("n2"), new: node("n4"), weight: None };
    let plan = make(&state, &verb).expect("a plan");
    assert_eq!(
        (plan.action.as_str(), plan.command().as_str()),
        ("replace-node n2 n4", "migrator replace-node n2 n4 --at-epoch 7")
    );
    let of_n2: Vec<Slot> = Slot::all().filter(|slot| state.slots[slot.index()].owner == node("n2")).collect();
    assert_eq!(plan.moves.iter().map(|moving| moving.slot).collect::<Vec<_>>(), of_n2);
    assert!(plan.moves.iter().all(|moving| moving.to == node("n4")));
    assert_eq!(plan.next.member(&node("n4")).map(|member| member.weight), Some(weight(100)));
    assert_eq!(plan.next.member(&node("n2")), None);
    let heavier = Verb::ReplaceNode { old: node("n2"), new: node("n4"), weight: Some(weight(300)) };
    let plan = make(&state, &heavier).expect("a plan");
    assert_eq!(plan.next.member(&node("n4")).map(|member| member.weight), Some(weight(300)));
    assert_eq!(heavier.action(), "replace-node n2 n4 --weight 300");
    let refused = |old, new| make(&state, &Verb::ReplaceNode { old: node(old), new: node(new), weight: None });
    assert_eq!(refused("n4", "n5").expect_err("refused"), PlanRefused::NotMember(node("n4")));
    assert_eq!(refused("n1", "n2").expect_err("refused"), PlanRefused::AlreadyMember(node("n2")));
    assert_eq!(refused("n1", "n1").expect_err("refused"), PlanRefused::AlreadyMember(node("n1")));
    assert_eq!(refused("n1", "n5").expect_err("refused"), PlanRefused::NotRegistered(node("n5")));
}
