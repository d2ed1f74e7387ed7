//! Takeover of a dead node (protocol L3): what it does, and each reason for which it does nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use origin::{Control, L2SpaceChange, RingState, TakeOver, TakeOverOutcome, Term, WriteAnswer};
use placement::{ChangeId, Epoch, Incarnation, NodeId, Phase, Slot};

use crate::fixture::{Fixture, TTL, claim, created, eventually, member, moving, node, put, replaced, slot};

crate::on_both!(
    a_takeover_moves_all_slots_of_the_node_and_journals_it,
    a_takeover_fences_the_old_incarnation,
    a_node_without_slots_is_taken_over_all_the_same,
    a_node_whose_lease_holds_is_not_taken_over,
    a_takeover_needs_the_epoch_and_the_slots_of_its_plan,
    a_line_said_twice_counts_once_and_a_contradiction_is_refused,
    a_takeover_aborts_a_change_before_its_flip,
    a_flipped_change_is_finished_first,
    a_takeover_needs_the_term_it_was_decided_in,
    a_receiver_must_have_a_lease,
    a_lease_that_runs_out_is_enough,
);

/// The takeover of n1, which owns every slot, by n2 and n3 in turn.
pub(crate) fn plan(seen: Incarnation) -> TakeOver {
    TakeOver {
        node: node("n1"),
        seen,
        from_epoch: Epoch(1),
        action: "takeover n1".to_owned(),
        members: vec![member("n3", 100), member("n2", 50)],
        owners: Slot::all().map(|slot| (slot, node(["n2", "n3"][slot.index() % 2]))).collect(),
        operator: "controller".to_owned(),
        term: None,
    }
}

pub(crate) async fn state(f: &Fixture) -> RingState {
    f.origin.ring_state().await.expect("a read").expect("a ring")
}

/// A ring whose n1 has just lost its lease.
async fn ring_without_n1(f: &Fixture) -> [Incarnation; 3] {
    let incarnations = f.ring().await;
    assert_eq!(f.origin.release_lease(&node("n1"), incarnations[0]).await, Ok(true));
    incarnations
}

async fn done(f: &Fixture, plan: &TakeOver) -> (ChangeId, Epoch) {
    match f.origin.take_over(plan).await {
        Ok(TakeOverOutcome::Done { change, epoch }) => (change, epoch),
        other => panic!("not done: {other:?}"),
    }
}

/// The takeover is refused like this, and nothing has changed.
async fn refused(f: &Fixture, plan: &TakeOver, with: impl FnOnce(&TakeOverOutcome) -> bool) {
    let (before, journal) = (state(f).await, f.origin.changes(10).await.expect("a read"));
    let outcome = f.origin.take_over(plan).await.expect("an answer");
    assert!(with(&outcome), "{outcome:?}");
    let after = state(f).await;
    assert_eq!((after.digest, after.slots, after.members), (before.digest, before.slots, before.members));
    let incarnations =
        |state: &[origin::NodeRow]| -> Vec<Incarnation> { state.iter().map(|row| row.incarnation).collect() };
    assert_eq!(incarnations(&after.nodes), incarnations(&before.nodes));
    assert_eq!(f.origin.changes(10).await, Ok(journal));
}

async fn a_takeover_moves_all_slots_of_the_node_and_journals_it(f: &Fixture) {
    let [seen, ..] = ring_without_n1(f).await;
    let space = L2SpaceChange::New { identity: "run/replid".to_owned() };
    f.origin.renew_tenure(&node("n1"), &[(slot(7), f.tenure(7).await)], &space).await.expect("an answer");
    let before = state(f).await;
    let highest = before.slots.iter().map(|row| row.tenure.0.max(row.gained.0)).max().expect("slots");

    let (change, epoch) = done(f, &plan(seen)).await;
    assert_eq!(epoch, Epoch(2));
    let after = state(f).await;
    assert_ne!(after.digest, before.digest);
    assert!(after.digest.gained_sum > before.digest.gained_sum);
    assert_eq!((after.digest.epoch, after.digest.change), (Epoch(2), Some((change, Phase::Done))));
    assert_eq!(after.members, [member("n2", 50), member("n3", 100)]);
    assert!(after.change.is_none());
    let mut numbers = BTreeSet::new();
    for (old, new) in before.slots.iter().zip(&after.slots) {
        assert_eq!((&new.owner, &new.l2_space), (&node(["n2", "n3"][new.slot.index() % 2]), &old.l2_space));
        numbers.extend([new.tenure.0, new.gained.0]);
    }
    assert!(after.slots[7].l2_space.is_some());
    assert_eq!((numbers.len(), numbers.first() > Some(&highest)), (2 * 4096, true), "new numbers, none twice");

    let row = f.origin.change(change).await.expect("a read").expect("a change");
    assert_eq!((row.phase, row.action.as_str(), row.operator.as_str()), (Phase::Done, "takeover n1", "controller"));
    assert_eq!((row.from_epoch, row.to_epoch, row.members), (Epoch(1), Epoch(2), after.members));
    assert_eq!((row.seal.len(), row.reason, row.attended), (0, None, false));
    assert!(row.started_ms > 1_600_000_000_000 && row.ended_ms == Some(row.started_ms));
    let tenures: Vec<_> = after.slots.iter().map(|row| (row.slot, row.tenure)).collect();
    assert_eq!(row.flip, tenures);
    assert!(
        row.moves
            .iter()
            .zip(&after.slots)
            .all(|(line, now)| line.slot == now.slot && line.from == node("n1") && line.to == now.owner)
    );
    assert_eq!(row.moves.len(), 4096);
    let epochs = f.origin.epochs(10).await.expect("a read");
    assert_eq!((epochs.len(), epochs[0].epoch, epochs[0].change), (2, Epoch(2), Some(change)));
    refused(f, &plan(seen), |outcome| *outcome == TakeOverOutcome::StalePlan { epoch: Epoch(2) }).await;
}

async fn a_takeover_fences_the_old_incarnation(f: &Fixture) {
    let [seen, second, _] = f.ring().await;
    let old = f.tenure(7).await;
    created(f.write(put(old, "a", "1")).await);
    f.origin.release_lease(&node("n1"), seen).await.expect("an answer");
    done(f, &plan(seen)).await;
    assert_eq!(f.origin.renew_lease(&node("n1"), seen, TTL).await, Ok(false));
    assert_eq!(f.origin.release_lease(&node("n1"), seen).await, Ok(false));
    assert_eq!(f.origin.announce_leaving(&node("n1"), seen).await, Ok(false));
    assert_eq!(f.origin.read_slots(&node("n1"), seen).await, Ok(None));
    assert_eq!(f.write(put(old, "a", "2")).await, Ok(WriteAnswer::Fenced));
    assert_eq!(f.renew(7, old).await, []);
    assert_eq!(f.read("a").await.expect("an entry").0, "1");

    let theirs = f.origin.read_slots(&node("n2"), second).await.expect("a read").expect("not fenced");
    assert_eq!(theirs.iter().filter(|row| row.owner == node("n2")).count(), 2048);
    replaced(f.write(put(f.tenure(7).await, "a", "3")).await);
    let (next, slots) = claim(&f.origin, "n1", TTL).await;
    assert_eq!((next, slots.len()), (Incarnation(seen.0 + 2), 0), "it comes back with nothing");
}

async fn a_node_without_slots_is_taken_over_all_the_same(f: &Fixture) {
    let [_, _, seen] = f.ring().await;
    f.origin.release_lease(&node("n3"), seen).await.expect("an answer");
    let (before, digest) = (state(f).await.slots, f.origin.ring_digest().await.expect("a digest"));
    // The node itself may stay a member.
    let members = vec![member("n1", 100), member("n3", 100)];
    let nothing = TakeOver { node: node("n3"), members: members.clone(), owners: vec![], ..plan(seen) };
    let (change, epoch) = done(f, &nothing).await;
    assert_eq!(epoch, Epoch(2));
    let after = state(f).await;
    assert_eq!((after.slots, after.members), (before, members));
    assert_ne!(after.digest, digest);
    let row = f.origin.change(change).await.expect("a read").expect("a change");
    assert_eq!((row.moves, row.flip, row.phase), (vec![], vec![], Phase::Done));
    assert_eq!(f.origin.renew_lease(&node("n3"), seen, TTL).await, Ok(false));
}

async fn a_node_whose_lease_holds_is_not_taken_over(f: &Fixture) {
    let [seen, ..] = f.ring().await;
    let is_back = |outcome: &TakeOverOutcome| *outcome == TakeOverOutcome::NodeIsBack;
    refused(f, &plan(seen), is_back).await;
    f.origin.release_lease(&node("n1"), seen).await.expect("an answer");
    refused(f, &plan(Incarnation(seen.0 + 1)), is_back).await;
    refused(f, &TakeOver { node: node("n9"), owners: vec![], ..plan(seen) }, is_back).await;
    let (back, _) = claim(&f.origin, "n1", TTL).await;
    f.origin.release_lease(&node("n1"), back).await.expect("an answer");
    refused(f, &plan(seen), is_back).await;
    done(f, &plan(back)).await;
}

async fn a_takeover_needs_the_epoch_and_the_slots_of_its_plan(f: &Fixture) {
    let early = TakeOver { from_epoch: Epoch(0), owners: vec![], ..plan(Incarnation(1)) };
    assert_eq!(f.origin.take_over(&early).await, Ok(TakeOverOutcome::StalePlan { epoch: Epoch(0) }));
    let [seen, ..] = ring_without_n1(f).await;
    let stale = |outcome: &TakeOverOutcome| *outcome == TakeOverOutcome::StalePlan { epoch: Epoch(1) };
    for epoch in [0, 2, 9] {
        refused(f, &TakeOver { from_epoch: Epoch(epoch), ..plan(seen) }, stale).await;
    }
    let mut too_few = plan(seen);
    too_few.owners.pop();
    refused(f, &too_few, stale).await;
    refused(f, &TakeOver { owners: vec![], ..plan(seen) }, stale).await;

    // n2 owns a slot that the plan gives away as n1's.
    let id = f.begin(&[7]).await;
    let back = claim(&f.origin, "n1", TTL).await.0;
    let nodes = state(f).await.nodes;
    let seal = f.seal_list(&[7], [nodes[0].incarnation, nodes[1].incarnation, nodes[2].incarnation]).await;
    f.origin.record_seal(id, &seal).await.expect("an answer");
    f.origin.flip_change(id).await.expect("an answer");
    f.origin.finish_change(id).await.expect("an answer");
    f.origin.release_lease(&node("n1"), back).await.expect("an answer");
    let mut plan = TakeOver { from_epoch: Epoch(2), ..plan(back) };
    refused(f, &plan, |outcome| *outcome == TakeOverOutcome::StalePlan { epoch: Epoch(2) }).await;
    plan.owners.retain(|(number, _)| *number != slot(7));
    assert_eq!(done(f, &plan).await.1, Epoch(3));
}

async fn a_line_said_twice_counts_once_and_a_contradiction_is_refused(f: &Fixture) {
    let [seen, ..] = ring_without_n1(f).await;
    let mut torn = plan(seen);
    torn.owners.push((slot(7), node("n2")));
    let before = f.origin.ring_digest().await;
    let outcome = f.origin.take_over(&torn).await;
    assert!(matches!(&outcome, Err(origin::OriginError::Refused { code }) if code.contains("slot 7")), "{outcome:?}");
    assert_eq!(f.origin.ring_digest().await, before);
    let mut twice = plan(seen);
    twice.owners.reverse();
    twice.owners.extend([(slot(7), node("n3")), (slot(0), node("n2"))]);
    let (change, _) = done(f, &twice).await;
    let row = f.origin.change(change).await.expect("a read").expect("a change");
    assert_eq!((row.moves.len(), row.flip.len()), (4096, 4096));
}

async fn a_takeover_aborts_a_change_before_its_flip(f: &Fixture) {
    let [_, second, third] = f.ring().await;
    let mut seen = f.origin.nodes().await.expect("a read")[0].incarnation;
    for (round, sealed) in [false, true].into_iter().enumerate() {
        let from_epoch = 1 + round as u64;
        f.origin.release_lease(&node("n1"), seen).await.expect("an answer");
        let outcome = f.origin.begin_change(&moving(from_epoch, &[7])).await;
        let Ok(origin::BeginOutcome::Begun(id)) = outcome else { panic!("{outcome:?}") };
        if sealed {
            let seal = f.seal_list(&[7], [seen, second, third]).await;
            assert_eq!(f.origin.record_seal(id, &seal).await, Ok(true));
        }
        let empty = TakeOver { from_epoch: Epoch(from_epoch), owners: vec![], ..plan(seen) };
        let plan = if sealed { empty } else { TakeOver { from_epoch: Epoch(from_epoch), ..plan(seen) } };
        // Refused for another reason, it leaves the change alone.
        let someone_down = TakeOver { owners: vec![(slot(7), node("n9"))], ..plan.clone() };
        refused(f, &someone_down, |outcome| *outcome == TakeOverOutcome::ReceiverDown(node("n9"))).await;
        let (change, _) = done(f, &plan).await;
        let row = f.origin.change(id).await.expect("a read").expect("a change");
        assert_eq!((row.phase, row.reason.as_deref()), (Phase::Aborted, Some("n1 was taken over")));
        assert!(row.ended_ms >= Some(row.started_ms) && change > id);
        assert_eq!(f.origin.active_change().await, Ok(None));
        seen = claim(&f.origin, "n1", TTL).await.0;
    }
}

async fn a_flipped_change_is_finished_first(f: &Fixture) {
    let incarnations = f.ring().await;
    let id = f.begin(&[]).await;
    f.origin.record_seal(id, &[]).await.expect("an answer");
    f.origin.flip_change(id).await.expect("an answer");
    f.origin.release_lease(&node("n1"), incarnations[0]).await.expect("an answer");
    let plan = TakeOver { from_epoch: Epoch(2), ..plan(incarnations[0]) };
    let active = |outcome: &TakeOverOutcome| matches!(outcome, TakeOverOutcome::Active(row) if (row.id, row.phase) == (id, Phase::Flipped));
    refused(f, &plan, active).await;
    f.origin.finish_change(id).await.expect("an answer");
    assert_eq!(done(f, &plan).await.1, Epoch(3));
}

async fn a_takeover_needs_the_term_it_was_decided_in(f: &Fixture) {
    let [seen, ..] = ring_without_n1(f).await;
    let over = |outcome: &TakeOverOutcome| *outcome == TakeOverOutcome::TermOver;
    let in_term = |term: i64| TakeOver { term: Some(Term(term)), ..plan(seen) };
    refused(f, &in_term(1), over).await;
    let taken = f.origin.take_control("a", Duration::from_millis(50)).await;
    assert_eq!(taken, Ok(Control::Ours(Term(1))));
    eventually("the term is over", || async {
        f.origin.controller().await.expect("a read").expect("a row").left_ms == 0
    })
    .await;
    refused(f, &in_term(1), over).await;
    let taken = || async { f.origin.take_control("b", TTL).await == Ok(Control::Ours(Term(2))) };
    eventually("another takes the post", taken).await;
    refused(f, &in_term(1), over).await;
    refused(f, &in_term(3), over).await;
    done(f, &in_term(2)).await;
}

async fn a_receiver_must_have_a_lease(f: &Fixture) {
    let [seen, second, _] = ring_without_n1(f).await;
    f.origin.release_lease(&node("n2"), second).await.expect("an answer");
    let down = |name: &str| {
        let id: NodeId = node(name);
        move |outcome: &TakeOverOutcome| *outcome == TakeOverOutcome::ReceiverDown(id)
    };
    refused(f, &plan(seen), down("n2")).await;
    // Nor can the node have its own slots back, nor a stranger get them.
    for name in ["n1", "ghost"] {
        let owners = Slot::all().map(|slot| (slot, node(name))).collect();
        refused(f, &TakeOver { owners, ..plan(seen) }, down(name)).await;
    }
    claim(&f.origin, "n2", TTL).await;
    done(f, &plan(seen)).await;
}

async fn a_lease_that_runs_out_is_enough(f: &Fixture) {
    let [seen, ..] = f.ring().await;
    assert_eq!(f.origin.renew_lease(&node("n1"), seen, Duration::from_millis(50)).await, Ok(true));
    eventually("the node can be taken over", || async {
        match f.origin.take_over(&plan(seen)).await.expect("an answer") {
            TakeOverOutcome::Done { .. } => true,
            TakeOverOutcome::NodeIsBack => false,
            other => panic!("{other:?}"),
        }
    })
    .await;
    assert_eq!(f.origin.renew_lease(&node("n1"), seen, TTL).await, Ok(false));
}
