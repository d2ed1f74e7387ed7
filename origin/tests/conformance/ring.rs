//! The ledger: init, state, digest, epochs, hints.

use std::time::Duration;

use origin::{InitOutcome, OriginError, RingDigest, TakeOverOutcome};
use placement::Epoch;

use crate::fixture::{Fixture, TTL, claim, member, node, ring_of};

crate::on_both!(
    before_init_there_is_no_ring,
    init_makes_epoch_one_once,
    of_many_inits_at_once_one_wins,
    init_needs_registered_members,
    a_ring_state_is_whole,
);

async fn before_init_there_is_no_ring(f: &Fixture) {
    assert!(f.origin.ring_state().await.expect("a read").is_none());
    assert_eq!(f.origin.ring_digest().await, Ok(RingDigest::default()));
    assert_eq!(f.origin.epoch().await, Ok(Epoch(0)));
    assert_eq!(f.origin.epochs(10).await, Ok(vec![]));
    assert_eq!(f.origin.changes(10).await, Ok(vec![]));
    assert_eq!(f.origin.active_change().await, Ok(None));
}

async fn init_makes_epoch_one_once(f: &Fixture) {
    for name in ["b", "a"] {
        claim(&f.origin, name, TTL).await;
    }
    assert_eq!(f.origin.init_ring(&ring_of(&["b", "a"])).await, Ok(InitOutcome::Created));
    let members = vec![member("a", 100), member("b", 100)];
    let exists = InitOutcome::Exists { epoch: Epoch(1), members: members.clone() };
    assert_eq!(f.origin.init_ring(&ring_of(&["a"])).await, Ok(exists));
    let epochs = f.origin.epochs(10).await.expect("a read");
    assert_eq!((epochs.len(), epochs[0].epoch, epochs[0].change), (1, Epoch(1), None));
    assert_eq!(epochs[0].members, members);
    assert_eq!(f.origin.epoch().await, Ok(Epoch(1)));
}

async fn of_many_inits_at_once_one_wins(f: &Fixture) {
    claim(&f.origin, "n1", TTL).await;
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let origin = f.another();
            tokio::spawn(async move { origin.init_ring(&ring_of(&["n1"])).await })
        })
        .collect();
    let mut created = 0;
    for task in tasks {
        created += usize::from(task.await.expect("a task").expect("an answer") == InitOutcome::Created);
    }
    assert_eq!(created, 1);
}

async fn init_needs_registered_members(f: &Fixture) {
    claim(&f.origin, "n1", TTL).await;
    let outcome = f.origin.init_ring(&ring_of(&["n1", "ghost"])).await;
    assert!(matches!(&outcome, Err(OriginError::Refused { code }) if code.contains("ghost")), "{outcome:?}");
    assert!(f.origin.ring_state().await.expect("a read").is_none());
}

async fn a_ring_state_is_whole(f: &Fixture) {
    f.ring().await;
    let state = f.origin.ring_state().await.expect("a read").expect("a ring");
    assert_eq!(Ok(state.digest.clone()), f.origin.ring_digest().await);
    assert_eq!(state.members, [member("n1", 100)]);
    assert_eq!((state.slots.len(), state.nodes.len()), (4096, 3));
    assert!(state.slots.iter().enumerate().all(|(at, row)| row.slot.index() == at && row.owner == node("n1")));
    assert!(state.change.is_none());
    assert_eq!(state.digest.gained_sum, state.slots.iter().map(|row| row.gained.0).sum::<i64>());
}

#[tokio::test]
async fn a_change_of_the_ring_is_announced_on_postgres() {
    let f = Fixture::postgres().await;
    f.ring().await;
    let hint = async |origin: &origin::Origin| {
        tokio::time::timeout(Duration::from_secs(10), origin.ring_changed()).await.expect("a hint");
    };
    // The first says that listening has begun.
    hint(&f.origin).await;
    let begin = async {
        tokio::task::yield_now().await;
        f.begin(&[1]).await
    };
    tokio::join!(hint(&f.origin), begin);
}

#[tokio::test]
async fn a_leaving_node_and_a_takeover_are_announced_on_postgres() {
    let f = Fixture::postgres().await;
    let [seen, ..] = f.ring().await;
    let hint = async || {
        tokio::time::timeout(Duration::from_secs(10), f.origin.ring_changed()).await.expect("a hint");
    };
    // The first says that listening has begun.
    hint().await;
    let leave = async {
        tokio::task::yield_now().await;
        f.origin.announce_leaving(&node("n1"), seen).await
    };
    assert_eq!(tokio::join!(hint(), leave).1, Ok(true));
    f.origin.release_lease(&node("n1"), seen).await.expect("an answer");
    let take = async {
        tokio::task::yield_now().await;
        f.origin.take_over(&crate::take_over::plan(seen)).await
    };
    let taken = tokio::join!(hint(), take).1;
    assert!(matches!(taken, Ok(TakeOverOutcome::Done { .. })), "{taken:?}");
}

#[tokio::test]
async fn a_lost_connection_of_the_listener_counts_as_a_hint() {
    let mut f = Fixture::postgres().await;
    let origin = f.origin.clone();
    tokio::time::timeout(Duration::from_secs(10), origin.ring_changed()).await.expect("listening");
    let waiter = tokio::spawn(async move { origin.ring_changed().await });
    f.postgres_server().stop().await.expect("stopped");
    f.postgres_server().restart().await.expect("started");
    tokio::time::timeout(Duration::from_secs(20), waiter).await.expect("a hint").expect("a task");
}
