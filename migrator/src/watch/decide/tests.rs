//! The leader's decisions, look by look, on rings made by hand.

use origin::{RingDigest, SlotRow};
use placement::{Epoch, Gained, Member, PinnedUsers, Pool, Slot, Tenure, Weight};

use super::*;

const GRACE: Duration = Duration::from_secs(10);

fn node(name: &str) -> NodeId {
    name.parse().expect("a node id")
}

/// Members n1, n2, … with equal parts of the slots, all up.
fn ring(members: usize) -> RingState {
    let names: Vec<NodeId> = (1..=members).map(|number| node(&format!("n{number}"))).collect();
    let row = |id: &NodeId| NodeRow {
        id: id.clone(),
        address: format!("{id}:7000"),
        weight: Weight::default(),
        pool: Pool::default(),
        incarnation: Incarnation(1),
        lease_left_ms: 2000,
        leaving: false,
    };
    let slot = |slot: Slot| SlotRow {
        slot,
        owner: names[slot.index() % names.len()].clone(),
        tenure: Tenure(1),
        gained: Gained(1),
        l2_space: None,
        pinned: PinnedUsers::NONE,
        pool: None,
    };
    RingState {
        digest: RingDigest { epoch: Epoch(1), ..RingDigest::default() },
        members: names.iter().map(|id| Member { id: id.clone(), weight: Weight::default() }).collect(),
        slots: Slot::all().map(slot).collect(),
        nodes: names.iter().map(row).collect(),
        change: None,
    }
}

fn row<'a>(ring: &'a mut RingState, name: &str) -> &'a mut NodeRow {
    ring.nodes.iter_mut().find(|row| row.id.as_str() == name).expect("a node")
}

fn without(mut ring: RingState, down: &[&str]) -> RingState {
    down.iter().for_each(|name| row(&mut ring, name).lease_left_ms = 0);
    ring
}

/// The member gives its slots to the others that have some, evenly.
fn emptied(mut ring: RingState, name: &str) -> RingState {
    let others: Vec<NodeId> = owners(&ring).into_iter().filter(|id| id.as_str() != name).cloned().collect();
    let given = ring.slots.iter_mut().filter(|slot| slot.owner.as_str() == name);
    for (number, slot) in given.enumerate() {
        slot.owner = others[number % others.len()].clone();
    }
    ring
}

fn leaving(mut ring: RingState, name: &str) -> RingState {
    row(&mut ring, name).leaving = true;
    ring
}

fn with_change(mut ring: RingState, phase: Phase, attended: bool) -> RingState {
    ring.change = Some(ChangeRow {
        id: ChangeId(7),
        action: "add-node n9".to_owned(),
        from_epoch: Epoch(1),
        to_epoch: Epoch(2),
        members: Vec::new(),
        moves: Vec::new(),
        phase,
        seal: Vec::new(),
        flip: Vec::new(),
        operator: "somebody".to_owned(),
        attended,
        reason: None,
        started_ms: 0,
        ended_ms: None,
    });
    ring
}

/// A leader and its clock.
struct Watching {
    controller: Controller,
    now: Duration,
}

impl Watching {
    fn begin() -> Self {
        Self { controller: Controller::new(GRACE), now: Duration::from_secs(1000) }
    }

    /// Looks at this ring twice a second for so long, beginning now; the last decision.
    fn watch(&mut self, ring: &RingState, time: Duration) -> Decision {
        let end = self.now + time;
        self.controller.look(ring, self.now);
        while self.now < end {
            self.now += Duration::from_millis(500);
            self.controller.look(ring, self.now);
        }
        self.controller.decide(ring, None, self.now)
    }

    fn seconds(&mut self, ring: &RingState, seconds: u64) -> Decision {
        self.watch(ring, Duration::from_secs(seconds))
    }

    fn ended(&mut self, errand: Errand, well: bool) {
        self.controller.ended(errand, well, self.now);
    }
}

fn took(decision: &Decision) -> Option<&str> {
    match &decision.action {
        Some(Action::TakeOver(id, _)) => Some(id.as_str()),
        _ => None,
    }
}

fn begun(decision: Decision) -> Option<Errand> {
    match decision.action {
        Some(Action::Begin(errand)) => Some(errand),
        _ => None,
    }
}

#[test]
fn a_healthy_ring_is_left_alone() {
    let decision = Watching::begin().seconds(&ring(3), 60);
    assert_eq!(decision, Decision { action: None, note: "all members are up".to_owned() });
}

#[test]
fn a_node_that_is_down_is_taken_over_when_the_grace_is_over_and_not_before() {
    let mut leader = Watching::begin();
    leader.seconds(&ring(3), 60);
    let down = without(ring(3), &["n3"]);
    let waiting = leader.watch(&down, GRACE - Duration::from_millis(500));
    assert_eq!((waiting.action, waiting.note.as_str()), (None, "down: n3, to be taken over after 10s"));
    let over = leader.watch(&down, Duration::from_millis(500));
    assert_eq!(over.action, Some(Action::TakeOver(node("n3"), Incarnation(1))));
}

#[test]
fn a_new_leader_gives_the_whole_grace_again() {
    let down = without(ring(3), &["n3"]);
    assert_eq!(took(&Watching::begin().seconds(&down, 10)), Some("n3"));
    assert_eq!(took(&Watching::begin().seconds(&down, 9)), None);
}

#[test]
fn a_node_that_comes_back_or_starts_anew_has_a_whole_grace_before_it() {
    let down = without(ring(3), &["n3"]);
    let mut leader = Watching::begin();
    leader.seconds(&down, 9);
    leader.seconds(&ring(3), 1);
    assert_eq!(took(&leader.seconds(&down, 9)), None, "it was back in between");
    // It was back and is gone again, and nobody looked while it was there.
    let mut another = down.clone();
    row(&mut another, "n3").incarnation = Incarnation(2);
    assert_eq!(took(&leader.seconds(&another, 9)), None);
    assert_eq!(leader.seconds(&another, 1).action, Some(Action::TakeOver(node("n3"), Incarnation(2))));
}

#[test]
fn no_time_passes_while_the_database_does_not_answer() {
    let down = without(ring(3), &["n3"]);
    let mut leader = Watching::begin();
    leader.seconds(&down, 6);
    leader.now += Duration::from_secs(60);
    assert_eq!(took(&leader.seconds(&down, 3)), None, "nine seconds seen in all");
    assert_eq!(took(&leader.seconds(&down, 1)), Some("n3"));
}

#[test]
fn half_of_the_nodes_with_slots_may_be_down_but_not_more() {
    let half = without(ring(4), &["n3", "n4"]);
    assert_eq!(took(&Watching::begin().seconds(&half, 20)), Some("n3"));
    let most = without(ring(5), &["n3", "n4", "n5"]);
    let decision = Watching::begin().seconds(&most, 600);
    assert_eq!(decision.action, None);
    let note = "down: n3, n4, n5, more than half of the 5 nodes with slots: nothing is taken over";
    assert_eq!(decision.note, note);
    // Those that were taken over before do not count any more.
    let later = without(emptied(ring(3), "n3"), &["n2", "n3"]);
    assert_eq!(took(&Watching::begin().seconds(&later, 20)), Some("n2"));
    let all = without(ring(1), &["n1"]);
    assert_eq!(took(&Watching::begin().seconds(&all, 600)), None);
}

#[test]
fn after_most_were_down_those_that_still_are_have_a_whole_grace_before_them() {
    let mut leader = Watching::begin();
    leader.seconds(&without(ring(3), &["n1", "n2", "n3"]), 60);
    leader.seconds(&without(ring(3), &["n2", "n3"]), 60);
    let last = without(ring(3), &["n3"]);
    assert_eq!(took(&leader.seconds(&last, 9)), None);
    assert_eq!(took(&leader.seconds(&last, 2)), Some("n3"));
}

#[test]
fn a_node_without_slots_may_be_down_for_ever() {
    let down = without(emptied(ring(3), "n3"), &["n3"]);
    assert_eq!(Watching::begin().seconds(&down, 600).action, None);
}

#[test]
fn slots_that_nobody_can_take_stay() {
    let nobody = leaving(without(ring(2), &["n2"]), "n1");
    let decision = Watching::begin().seconds(&nobody, 600);
    assert_eq!(decision.action, None);
    assert!(decision.note.contains("nobody can take the slots over"), "{decision:?}");
}

#[test]
fn a_member_that_is_back_without_slots_gets_them_after_two_seconds_and_one_at_a_time() {
    let back = emptied(emptied(ring(4), "n3"), "n4");
    let mut leader = Watching::begin();
    assert_eq!(leader.watch(&back, Duration::from_millis(1500)).action, None);
    let decision = leader.watch(&back, Duration::from_millis(500));
    assert_eq!(begun(decision), Some(Errand::Readmit(node("n3"))));
    let busy = leader.controller.decide(&back, Some(&Errand::Readmit(node("n3"))), leader.now);
    let note = "giving n3 its share of the slots again".to_owned();
    assert_eq!(busy, Decision { action: None, note });
    // One that cannot be let in does not keep the next from it, and is tried again.
    leader.ended(Errand::Readmit(node("n3")), false);
    assert_eq!(begun(leader.watch(&back, Duration::ZERO)), Some(Errand::Readmit(node("n4"))));
    assert_eq!(begun(leader.seconds(&back, 1)), Some(Errand::Readmit(node("n3"))));
}

#[test]
fn a_member_with_clearly_less_than_its_share_gets_the_rest_once_nobody_is_away() {
    let mut uneven = ring(3);
    let of_n3 = uneven.slots.iter_mut().filter(|slot| slot.owner.as_str() == "n3");
    of_n3.take(700).for_each(|slot| slot.owner = node("n1"));
    assert_eq!(begun(Watching::begin().seconds(&uneven, 3)), Some(Errand::Readmit(node("n3"))));
    assert_eq!(begun(Watching::begin().seconds(&without(uneven, &["n2"]), 3)), None);
}

#[test]
fn a_member_that_is_down_without_slots_is_said_to_be() {
    let down = without(emptied(ring(3), "n3"), &["n3"]);
    assert_eq!(Watching::begin().seconds(&down, 5).note, "down, without slots: n3");
}

#[test]
fn standbys_and_leavers_get_no_slots() {
    let mut ring = emptied(ring(3), "n3");
    ring.members.truncate(2);
    assert_eq!(Watching::begin().seconds(&ring, 60).action, None, "a standby is added by an operator");
    let leaver = leaving(emptied(self::ring(3), "n3"), "n3");
    assert_eq!(Watching::begin().seconds(&leaver, 60).action, None);
}

#[test]
fn a_node_that_is_leaving_is_emptied_at_once_while_somebody_can_take_its_slots() {
    let mut leader = Watching::begin();
    let wants = leaving(ring(3), "n2");
    assert_eq!(begun(leader.watch(&wants, Duration::ZERO)), Some(Errand::Drain(node("n2"))));
    let nobody = without(leaving(leaving(ring(3), "n1"), "n2"), &["n3"]);
    let decision = leader.watch(&nobody, Duration::ZERO);
    assert_eq!(decision.action, None);
    assert!(decision.note.contains("leaving: n1, n2, but nobody can take the slots"), "{decision:?}");
    let gone = without(leaving(ring(3), "n2"), &["n2"]);
    assert_eq!(leader.watch(&gone, Duration::ZERO).action, None, "it has stopped, and the grace runs");
}

#[test]
fn a_change_that_somebody_attends_to_is_left_alone_and_nothing_else_begins() {
    for phase in [Phase::Copy, Phase::Sealed, Phase::Flipped] {
        let busy = with_change(leaving(emptied(ring(3), "n3"), "n2"), phase, true);
        assert_eq!(Watching::begin().seconds(&busy, 60).action, None, "{phase:?}");
    }
}

#[test]
fn a_change_whose_migrator_died_is_carried_on_and_before_the_flip_given_up_after_three_failures() {
    let carry_on = Errand::CarryOn(ChangeId(7));
    for phase in [Phase::Copy, Phase::Sealed, Phase::Flipped] {
        let orphan = with_change(ring(3), phase, false);
        let mut leader = Watching::begin();
        for _ in 0..3 {
            assert_eq!(begun(leader.seconds(&orphan, 40)), Some(carry_on.clone()), "{phase:?}");
            leader.ended(carry_on.clone(), false);
        }
        let last = if phase == Phase::Flipped { carry_on.clone() } else { Errand::GiveUp(ChangeId(7)) };
        assert_eq!(begun(leader.seconds(&orphan, 40)), Some(last), "{phase:?}");
    }
}

#[test]
fn a_takeover_waits_for_no_change_but_one_that_has_flipped() {
    let down = without(ring(3), &["n3"]);
    let mut leader = Watching::begin();
    leader.seconds(&down, 20);
    for phase in [Phase::Copy, Phase::Sealed] {
        assert_eq!(took(&leader.watch(&with_change(down.clone(), phase, true), Duration::ZERO)), Some("n3"));
        let busy = leader.controller.decide(&down, Some(&Errand::Readmit(node("n2"))), leader.now);
        assert_eq!(took(&busy), Some("n3"));
    }
    let flipped = leader.watch(&with_change(down.clone(), Phase::Flipped, true), Duration::ZERO);
    assert_eq!(flipped.action, None);
    assert_eq!(flipped.note, "down: n3, to be taken over once change 7 (add-node n9) is finished");
    let orphan = leader.watch(&with_change(down, Phase::Flipped, false), Duration::ZERO);
    assert_eq!(begun(orphan), Some(Errand::CarryOn(ChangeId(7))));
}
