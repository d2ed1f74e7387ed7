//! Members that are down, empty or leaving, in somebody else's change and in their own.

use placement::SLOT_COUNT;

use super::*;

fn end_lease(state: &mut RingState, name: &str) {
    row_of(state, name).lease_left_ms = 0;
}

fn row_of<'a>(state: &'a mut RingState, name: &str) -> &'a mut NodeRow {
    state.nodes.iter_mut().find(|row| row.id == node(name)).expect("registered")
}

fn owned(state: &RingState, name: &str) -> usize {
    state.slots.iter().filter(|row| row.owner == node(name)).count()
}

/// The plan, carried out.
fn carry_out(state: &mut RingState, plan: &Plan) {
    state.digest.epoch = plan.next.epoch();
    state.members = plan.next.members().to_vec();
    for moving in &plan.moves {
        state.slots[moving.slot.index()].owner = moving.to.clone();
    }
}

/// n3 is down, and its slots were taken over.
fn n3_taken_over() -> RingState {
    let mut state = ring();
    end_lease(&mut state, "n3");
    for (slot, owner) in takeover(&state, &node("n3")).expect("owners") {
        state.slots[slot.index()].owner = owner;
    }
    state.digest.epoch = state.digest.epoch.next();
    state
}

fn touches(plan: &Plan, name: &str) -> bool {
    plan.moves.iter().any(|moving| moving.from == node(name) || moving.to == node(name))
}

fn is_even(plan: &Plan, names: &[&str]) -> bool {
    let share = SLOT_COUNT / names.len();
    let slots = |name: &&str| plan.shares.iter().find(|share| share.id == node(name)).map_or(0, |s| s.slots_after);
    names.iter().all(|name| slots(name).abs_diff(share) * 20 <= share)
}

#[test]
fn a_dead_member_keeps_its_slots_in_a_join_and_is_named() {
    let mut state = ring();
    end_lease(&mut state, "n2");
    let plan = make(&state, &add("n4")).expect("a plan");
    assert!(!touches(&plan, "n2") && plan.moves.len() > 600, "{}", plan.moves.len());
    assert_eq!((&plan.left_out, &plan.gone), (&vec![node("n2")], &None));
    assert!(plan.next.member(&node("n2")).is_some());
}

#[test]
fn a_dead_member_neither_gives_nor_takes_when_another_leaves_or_changes_its_weight() {
    let mut state = ring();
    end_lease(&mut state, "n2");
    let plan = make(&state, &remove("n1")).expect("a plan");
    assert_eq!(plan.moves.len(), owned(&state, "n1"));
    assert!(plan.moves.iter().all(|moving| moving.from == node("n1") && moving.to == node("n3")));
    for number in [50, 300] {
        let plan = make(&state, &Verb::SetWeight { id: node("n1"), weight: weight(number) }).expect("a plan");
        assert!(!touches(&plan, "n2") && !plan.moves.is_empty(), "{number}");
    }
}

#[test]
fn the_weight_of_a_dead_member_waits_until_it_is_back() {
    let mut state = ring();
    end_lease(&mut state, "n2");
    let verb = Verb::SetWeight { id: node("n2"), weight: weight(50) };
    assert_eq!(make(&state, &verb).expect_err("refused"), PlanRefused::LeaseOver(node("n2")));
}

#[test]
fn a_member_without_slots_that_is_down_is_in_nobodys_way() {
    let state = n3_taken_over();
    let plan = make(&state, &add("n4")).expect("a plan");
    assert!(is_even(&plan, &["n1", "n2", "n4"]), "{:?}", plan.shares);
    assert!(plan.next.member(&node("n3")).is_some(), "it is a member still");
    assert_eq!(plan.left_out, [node("n3")]);
    let plan = make(&state, &remove("n1")).expect("a plan");
    assert!(plan.moves.iter().all(|moving| moving.to == node("n2")));
}

#[test]
fn a_dead_member_is_removed_by_a_takeover_among_those_that_live() {
    let mut state = ring();
    end_lease(&mut state, "n3");
    let plan = make(&state, &remove("n3")).expect("a plan");
    assert_eq!(plan.gone, Some(GoneNode { id: node("n3"), incarnation: Incarnation(1) }));
    assert!(plan.left_out.is_empty() && is_even(&plan, &["n1", "n2"]));
    let order = plan.take_over("me".to_owned()).expect("a takeover");
    assert_eq!((order.node, order.seen, order.from_epoch, order.term), (node("n3"), Incarnation(1), Epoch(7), None));
    assert_eq!((order.owners.len(), order.members.len()), (owned(&state, "n3"), 2));
    let of_live = make(&ring(), &remove("n3")).expect("a plan");
    assert!(of_live.take_over("me".to_owned()).is_none(), "one that lives is sealed");
    let empty = make(&n3_taken_over(), &remove("n3")).expect("a plan");
    let order = empty.take_over("me".to_owned()).expect("a takeover");
    assert_eq!((order.owners, order.members.len()), (Vec::new(), 2));
}

#[test]
fn a_dead_member_is_replaced_by_a_takeover_to_the_new_one_alone() {
    let mut state = ring();
    end_lease(&mut state, "n3");
    let plan = make(&state, &Verb::ReplaceNode { old: node("n3"), new: node("n4"), weight: None }).expect("a plan");
    let order = plan.take_over("me".to_owned()).expect("a takeover");
    assert!(order.owners.iter().all(|(_, owner)| *owner == node("n4")));
    assert_eq!(order.owners.len(), owned(&state, "n3"));
}

#[test]
fn where_nobody_could_take_its_slots_a_member_stays() {
    let mut state = ring();
    end_lease(&mut state, "n1");
    row_of(&mut state, "n2").leaving = true;
    let of_n1 = make(&state, &remove("n1")).expect("a plan");
    assert!(of_n1.moves.iter().all(|moving| moving.to == node("n3")));
    assert_eq!(make(&state, &remove("n3")).expect_err("refused"), PlanRefused::NoTaker(node("n3")));
    assert_eq!(emptying(&state, &node("n3")).expect_err("refused"), PlanRefused::NoTaker(node("n3")));
    assert_eq!(takeover(&state, &node("n3")).expect_err("refused"), PlanRefused::NoTaker(node("n3")));
}

#[test]
fn a_member_that_is_back_gets_its_share_from_all_the_others() {
    let mut state = n3_taken_over();
    assert!(readmission(&state).is_none(), "it is down");
    row_of(&mut state, "n3").lease_left_ms = 3000;
    let plan = readmission(&state).expect("a plan");
    assert_eq!((plan.action.as_str(), plan.from_epoch), ("readmit n3", Epoch(8)));
    assert!(plan.moves.iter().all(|moving| moving.to == node("n3")));
    assert!(is_even(&plan, &["n1", "n2", "n3"]), "{:?}", plan.shares);
    assert_eq!(plan.next.members(), state.members);
    carry_out(&mut state, &plan);
    assert!(readmission(&state).is_none(), "it has its share");
    assert!(readmission(&ring()).is_none(), "nobody was away");
}

#[test]
fn a_member_that_is_back_takes_nothing_from_one_that_is_down() {
    let mut state = n3_taken_over();
    row_of(&mut state, "n3").lease_left_ms = 3000;
    end_lease(&mut state, "n2");
    let plan = readmission(&state).expect("a plan");
    assert!(!touches(&plan, "n2") && touches(&plan, "n1"));
    end_lease(&mut state, "n1");
    assert!(readmission(&state).is_none(), "nothing could move");
}

#[test]
fn a_leaving_member_is_emptied_stays_a_member_and_gets_nothing_back() {
    let mut state = ring();
    row_of(&mut state, "n3").leaving = true;
    let plan = emptying(&state, &node("n3")).expect("a plan");
    assert_eq!((plan.action.as_str(), plan.moves.len()), ("drain n3", owned(&state, "n3")));
    assert!(plan.gone.is_none() && plan.next.members() == state.members);
    carry_out(&mut state, &plan);
    assert_eq!(owned(&state, "n3"), 0);
    assert!(readmission(&state).is_none(), "it wants to go");
    assert_eq!(emptying(&state, &node("n3")).expect_err("refused"), PlanRefused::NoSlots(node("n3")));
    assert!(!touches(&make(&state, &add("n4")).expect("a plan"), "n3"));
    assert!(!touches(&make(&state, &remove("n1")).expect("a plan"), "n3"));
    let gone = make(&state, &remove("n3")).expect("a plan");
    assert!(gone.moves.is_empty() && gone.gone.is_none() && gone.next.members().len() == 2);
}

#[test]
fn only_members_that_are_up_are_emptied() {
    let mut state = ring();
    end_lease(&mut state, "n2");
    assert_eq!(emptying(&state, &node("n2")).expect_err("refused"), PlanRefused::LeaseOver(node("n2")));
    assert_eq!(emptying(&state, &node("n4")).expect_err("refused"), PlanRefused::NotMember(node("n4")));
    assert_eq!(takeover(&state, &node("n4")).expect_err("refused"), PlanRefused::NotMember(node("n4")));
}

#[test]
fn a_new_weight_for_a_member_without_slots_brings_it_to_its_whole_share() {
    let mut state = n3_taken_over();
    row_of(&mut state, "n3").lease_left_ms = 3000;
    let plan = make(&state, &Verb::SetWeight { id: node("n3"), weight: weight(200) }).expect("a plan");
    assert!((1900..=2150).contains(&plan.moves.len()), "{}", plan.moves.len());
}

#[test]
fn failures_and_returns_in_any_order_leave_every_slot_with_a_member() {
    let mut state = ring();
    for round in 0..6 {
        let name = ["n1", "n2", "n3"][round % 3];
        end_lease(&mut state, name);
        for (slot, owner) in takeover(&state, &node(name)).expect("owners") {
            state.slots[slot.index()].owner = owner;
        }
        assert_eq!(owned(&state, name), 0);
        row_of(&mut state, name).lease_left_ms = 3000;
        let plan = readmission(&state).expect("a plan");
        carry_out(&mut state, &plan);
        assert!(is_even(&plan, &["n1", "n2", "n3"]), "round {round}: {:?}", plan.shares);
    }
}

#[test]
fn a_member_that_is_back_waits_for_its_whole_share_while_others_can_take() {
    let mut state = n3_taken_over();
    row_of(&mut state, "n3").lease_left_ms = 2000;
    end_lease(&mut state, "n2");
    let owners = takeover(&state, &node("n2")).expect("owners");
    assert!(owners.iter().all(|(_, owner)| *owner == node("n1")), "n3 is readmitted afterwards, whole");
    end_lease(&mut state, "n1");
    let owners = takeover(&state, &node("n2")).expect("owners");
    assert!(owners.iter().all(|(_, owner)| *owner == node("n3")), "nobody else is there");
}

#[test]
fn a_member_that_got_less_than_its_share_because_another_was_away_gets_the_rest_afterwards() {
    let mut state = n3_taken_over();
    row_of(&mut state, "n3").lease_left_ms = 2000;
    end_lease(&mut state, "n1");
    let less = readmission(&state).expect("a plan");
    assert!(!touches(&less, "n1"));
    carry_out(&mut state, &less);
    let had = owned(&state, "n3");
    assert!(had > 0 && had < SLOT_COUNT / 3 * 3 / 4, "{had}");
    assert!(readmission(&state).is_none(), "n1 is still away");
    row_of(&mut state, "n1").lease_left_ms = 2000;
    assert!(lacks_share(&state, &node("n3")) && !lacks_share(&state, &node("n1")));
    let rest = readmission(&state).expect("a plan");
    assert!(rest.moves.iter().all(|moving| moving.to == node("n3")), "nothing else moves");
    carry_out(&mut state, &rest);
    assert!(is_even(&rest, &["n1", "n2", "n3"]), "{:?}", rest.shares);
    assert!(readmission(&state).is_none());
}

#[test]
fn what_another_pool_kept_while_nobody_of_shared_was_there_comes_back_to_shared() {
    let mut state = ring();
    row_of(&mut state, "n3").pool = "vip".parse().expect("a pool");
    end_lease(&mut state, "n1");
    for gone in ["n1", "n2"] {
        end_lease(&mut state, gone);
        let owners = takeover(&state, &node(gone)).expect("owners");
        owners.into_iter().for_each(|(slot, owner)| state.slots[slot.index()].owner = owner);
    }
    assert_eq!(owned(&state, "n3"), SLOT_COUNT, "better served there than not at all");
    assert!(readmission(&state).is_none());
    for back in ["n1", "n2"] {
        row_of(&mut state, back).lease_left_ms = 2000;
        let plan = readmission(&state).expect("a plan");
        assert!(plan.moves.iter().all(|moving| moving.to == node(back)), "{back}");
        carry_out(&mut state, &plan);
    }
    assert_eq!(owned(&state, "n3"), 0);
    assert!(owned(&state, "n1").abs_diff(owned(&state, "n2")) < 200);
    assert!(readmission(&state).is_none());
}
