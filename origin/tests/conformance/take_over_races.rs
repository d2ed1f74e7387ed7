//! Takeover against all that may go on at the same time: claims, heartbeats, writes, changes, other controllers.

use std::time::Duration;

use origin::{BeginOutcome, ClaimOutcome, Control, FlipOutcome, TakeOver, TakeOverOutcome, Term, WriteAnswer};
use placement::{Epoch, Incarnation, Phase, Pool, Slot, Weight};

use crate::fixture::{Fixture, TTL, claim, moving, node, put, slot};
use crate::postgres_faults::until_waiting;
use crate::take_over::{plan, state};

crate::on_both!(
    of_a_takeover_and_a_claim_at_once_one_has_the_slots,
    of_a_takeover_and_a_heartbeat_at_once_one_wins,
    of_many_takeovers_at_once_one_wins,
    of_a_takeover_and_a_flip_at_once_one_makes_the_epoch,
    of_a_takeover_and_a_new_term_at_once_the_takeover_is_first_or_refused,
    no_write_of_the_old_tenure_commits_once_the_slots_are_taken_over,
);

/// All slots from one node to another, at this epoch.
fn all_to(from: &str, to: &str, seen: Incarnation, from_epoch: Epoch) -> TakeOver {
    let owners = Slot::all().map(|slot| (slot, node(to))).collect();
    TakeOver { node: node(from), from_epoch, owners, ..plan(seen) }
}

async fn of_a_takeover_and_a_claim_at_once_one_has_the_slots(f: &Fixture) {
    f.ring().await;
    let other = f.another();
    for _ in 0..10 {
        let before = state(f).await;
        let (owner, heir) = if before.slots[0].owner == node("n1") { ("n1", "n2") } else { ("n2", "n1") };
        let seen = before.nodes.iter().find(|row| row.id == node(owner)).expect("a row").incarnation;
        f.origin.release_lease(&node(owner), seen).await.expect("an answer");
        let plan = all_to(owner, heir, seen, before.digest.epoch);
        let (id, address) = (node(owner), format!("{owner}:8081"));
        let pool = Pool::default();
        let (taken, claimed) =
            tokio::join!(f.origin.take_over(&plan), other.claim_node(&id, &address, Weight::default(), &pool, TTL));
        let claimed = claimed.expect("an answer");
        let ClaimOutcome::Claimed { incarnation, slots } = claimed else { panic!("{claimed:?}") };
        match taken.expect("an answer") {
            TakeOverOutcome::Done { .. } => assert_eq!((slots.len(), incarnation.0), (0, seen.0 + 2)),
            TakeOverOutcome::NodeIsBack => assert_eq!((slots.len(), incarnation.0), (4096, seen.0 + 1)),
            outcome => panic!("{outcome:?}"),
        }
        let has_them = if slots.is_empty() { heir } else { owner };
        assert!(state(f).await.slots.iter().all(|row| row.owner == node(has_them)));
    }
}

async fn of_a_takeover_and_a_heartbeat_at_once_one_wins(f: &Fixture) {
    f.ring().await;
    let other = f.another();
    for _ in 0..10 {
        let before = state(f).await;
        let (owner, heir) = if before.slots[0].owner == node("n1") { ("n1", "n2") } else { ("n2", "n1") };
        let seen = before.nodes.iter().find(|row| row.id == node(owner)).expect("a row").incarnation;
        // A heartbeat in time for the database may still come after its lease: then it renews what nobody has taken.
        f.origin.release_lease(&node(owner), seen).await.expect("an answer");
        let plan = all_to(owner, heir, seen, before.digest.epoch);
        let id = node(owner);
        let (taken, renewed) = tokio::join!(f.origin.take_over(&plan), other.renew_lease(&id, seen, TTL));
        match taken.expect("an answer") {
            TakeOverOutcome::Done { .. } => {
                assert_eq!(renewed, Ok(false));
                claim(&f.origin, owner, TTL).await;
            }
            TakeOverOutcome::NodeIsBack => assert_eq!(renewed, Ok(true)),
            outcome => panic!("{outcome:?}"),
        }
    }
}

async fn of_many_takeovers_at_once_one_wins(f: &Fixture) {
    let [seen, ..] = f.ring().await;
    f.origin.release_lease(&node("n1"), seen).await.expect("an answer");
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let (origin, plan) = (f.another(), plan(seen));
            tokio::spawn(async move { origin.take_over(&plan).await })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        match task.await.expect("a task").expect("an answer") {
            TakeOverOutcome::Done { .. } => done += 1,
            outcome => assert_eq!(outcome, TakeOverOutcome::StalePlan { epoch: Epoch(2) }),
        }
    }
    assert_eq!((done, f.origin.changes(10).await.expect("a read").len()), (1, 1));
}

async fn of_a_takeover_and_a_flip_at_once_one_makes_the_epoch(f: &Fixture) {
    let incarnations = f.ring().await;
    f.origin.release_lease(&node("n3"), incarnations[2]).await.expect("an answer");
    let mut seen = incarnations[2];
    let other = f.another();
    for round in 0..10 {
        let epoch = f.origin.epoch().await.expect("a read");
        let begun = f.origin.begin_change(&moving(epoch.0, &[])).await;
        let Ok(BeginOutcome::Begun(id)) = begun else { panic!("round {round}: {begun:?}") };
        assert_eq!(f.origin.record_seal(id, &[]).await, Ok(true));
        let empty = TakeOver { node: node("n3"), owners: vec![], from_epoch: epoch, ..plan(seen) };
        let (taken, flipped) = tokio::join!(f.origin.take_over(&empty), other.flip_change(id));
        match taken.expect("an answer") {
            TakeOverOutcome::Done { .. } => {
                assert_eq!(flipped, Ok(FlipOutcome::NotSealed(Phase::Aborted)));
                seen = Incarnation(seen.0 + 1);
            }
            // The flip came first: the plan's epoch is no longer the newest.
            outcome => {
                assert_eq!(outcome, TakeOverOutcome::StalePlan { epoch: epoch.next() });
                assert_eq!(flipped, Ok(FlipOutcome::Flipped { epoch: epoch.next() }));
                assert_eq!(f.origin.finish_change(id).await, Ok(true));
            }
        }
        assert_eq!(f.origin.epoch().await, Ok(epoch.next()));
    }
}

async fn of_a_takeover_and_a_new_term_at_once_the_takeover_is_first_or_refused(f: &Fixture) {
    let [seen, ..] = f.ring().await;
    f.origin.release_lease(&node("n1"), seen).await.expect("an answer");
    let other = f.another();
    let taken = f.origin.take_control("a", TTL).await;
    assert_eq!(taken, Ok(Control::Ours(Term(1))));
    let plan = TakeOver { term: Some(Term(1)), ..plan(seen) };
    // So that it is connected.
    assert_eq!(other.controller().await.expect("a read").expect("a row").term, Term(1));
    let (outcome, successor) = tokio::join!(f.origin.take_over(&plan), async {
        assert_eq!(other.release_control(Term(1)).await, Ok(true));
        other.take_control("b", Duration::from_secs(10)).await
    });
    assert_eq!(successor, Ok(Control::Ours(Term(2))));
    match outcome.expect("an answer") {
        TakeOverOutcome::Done { .. } => assert_eq!(f.origin.epoch().await, Ok(Epoch(2))),
        outcome => {
            assert_eq!(outcome, TakeOverOutcome::TermOver);
            assert_eq!(f.origin.epoch().await, Ok(Epoch(1)));
        }
    }
}

async fn no_write_of_the_old_tenure_commits_once_the_slots_are_taken_over(f: &Fixture) {
    f.ring().await;
    for round in 0..10 {
        let before = state(f).await;
        let (owner, heir) = if before.slots[0].owner == node("n1") { ("n1", "n2") } else { ("n2", "n1") };
        let seen = before.nodes.iter().find(|row| row.id == node(owner)).expect("a row").incarnation;
        f.origin.release_lease(&node(owner), seen).await.expect("an answer");
        let old = before.slots[slot(7).index()].tenure;
        let name = format!("k{}", round % 3);
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let origin = f.origin.clone();
                let write = put(old, &name, &format!("old {round} {writer}"));
                tokio::spawn(async move { origin.write_entry(&write).await })
            })
            .collect();
        let taken = f.origin.take_over(&all_to(owner, heir, seen, before.digest.epoch)).await;
        assert!(matches!(taken, Ok(TakeOverOutcome::Done { .. })), "{taken:?}");
        let found = f.read(&name).await;
        for writer in writers {
            writer.await.expect("a task").expect("an answer");
        }
        assert_eq!(f.read(&name).await, found, "a write of the old tenure landed after the takeover");
        claim(&f.origin, owner, TTL).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_waits_for_a_writer_and_meanwhile_its_term_and_its_receivers_cannot_end() {
    let mut f = Fixture::postgres().await;
    let [seen, second, _] = f.ring().await;
    let tenure = f.tenure(7).await;
    f.write(put(tenure, "a", "1")).await.expect("an answer");
    f.origin.release_lease(&node("n1"), seen).await.expect("an answer");
    assert_eq!(f.origin.take_control("a", TTL).await, Ok(Control::Ours(Term(1))));
    let mut holder = f.postgres_server().session().await.expect("a session");
    holder.run("BEGIN; SELECT 1 FROM entries WHERE key = 'a' FOR UPDATE").await.expect("a row lock");

    // 1. A late write holds its slot and waits for the entry; 2. the takeover waits for the slot; 3. the end of the term
    // and of a receiver's lease wait for the takeover.
    let origin = f.origin.clone();
    let writer = tokio::spawn(async move { origin.write_entry(&put(tenure, "a", "2")).await });
    until_waiting(&mut f, 1).await;
    let origin = f.origin.clone();
    let plan = TakeOver { term: Some(Term(1)), ..plan(seen) };
    let takeover = tokio::spawn(async move { origin.take_over(&plan).await });
    until_waiting(&mut f, 2).await;
    let origin = f.origin.clone();
    let end_of_term = tokio::spawn(async move { origin.release_control(Term(1)).await });
    let origin = f.origin.clone();
    let end_of_lease = tokio::spawn(async move { origin.release_lease(&node("n2"), second).await });
    until_waiting(&mut f, 4).await;
    assert_eq!((f.tenure(7).await, f.origin.epoch().await), (tenure, Ok(Epoch(1))));

    holder.run("COMMIT").await.expect("released");
    assert!(matches!(writer.await.expect("a task"), Ok(WriteAnswer::Replaced(_))));
    let taken = takeover.await.expect("a task");
    assert!(matches!(taken, Ok(TakeOverOutcome::Done { .. })), "{taken:?}");
    assert_eq!(end_of_term.await.expect("a task"), Ok(true));
    assert_eq!(end_of_lease.await.expect("a task"), Ok(true));
    assert_eq!(f.write(put(tenure, "a", "3")).await, Ok(WriteAnswer::Fenced));
    assert_eq!(f.read("a").await.expect("an entry").0, "2");
}
