//! Claims, leases, heartbeats, fencing of nodes.

use std::time::Duration;

use origin::{ClaimOutcome, NodeRow};
use placement::{Incarnation, Pool, Weight};

use crate::fixture::{Fixture, TTL, claim, eventually, node};

crate::on_both!(
    a_first_claim_registers_the_node,
    a_second_claimer_is_refused_until_the_lease_is_over,
    a_restart_gives_every_slot_a_new_tenure_and_gain,
    a_heartbeat_of_an_older_incarnation_is_fenced,
    a_released_lease_is_over_at_once,
    an_address_belongs_to_one_living_node,
    of_many_claimers_at_once_one_wins,
    a_dead_node_can_be_fenced_and_a_living_one_cannot,
    a_node_says_that_it_leaves_and_a_claim_takes_it_back,
);

async fn a_first_claim_registers_the_node(f: &Fixture) {
    assert_eq!(f.origin.nodes().await, Ok(vec![]));
    let before = f.origin.ring_digest().await.expect("a digest");
    let (incarnation, slots) = claim(&f.origin, "n1", TTL).await;
    assert!(slots.is_empty());
    let nodes = f.origin.nodes().await.expect("a read");
    assert_eq!((nodes.len(), &nodes[0].id, nodes[0].address.as_str()), (1, &node("n1"), "n1:8081"));
    assert_eq!((nodes[0].weight, nodes[0].incarnation), (Weight::default(), incarnation));
    assert!((50_000..=60_000).contains(&nodes[0].lease_left_ms), "{}", nodes[0].lease_left_ms);
    assert_ne!(f.origin.ring_digest().await.expect("a digest"), before);
}

async fn a_second_claimer_is_refused_until_the_lease_is_over(f: &Fixture) {
    let (first, _) = claim(&f.origin, "n1", Duration::from_millis(700)).await;
    let other = f.another();
    match other.claim_node(&node("n1"), "elsewhere:1", Weight::default(), &Pool::default(), TTL).await {
        Ok(ClaimOutcome::LeaseHeld { left_ms }) => assert!((1..=700).contains(&left_ms), "{left_ms}"),
        outcome => panic!("{outcome:?}"),
    }
    eventually("the lease is over", || async {
        let outcome = other.claim_node(&node("n1"), "elsewhere:1", Weight::default(), &Pool::default(), TTL).await;
        matches!(outcome, Ok(ClaimOutcome::Claimed { incarnation, .. }) if incarnation > first)
    })
    .await;
    assert_eq!(f.origin.nodes().await.expect("a read")[0].address, "elsewhere:1");
    assert_eq!(f.origin.renew_lease(&node("n1"), first, TTL).await, Ok(false));
}

async fn a_restart_gives_every_slot_a_new_tenure_and_gain(f: &Fixture) {
    let [first, ..] = f.ring().await;
    let before = f.origin.read_slots(&node("n1"), first).await.expect("a read").expect("not fenced");
    assert_eq!(f.origin.release_lease(&node("n1"), first).await, Ok(true));
    let digest = f.origin.ring_digest().await.expect("a digest");
    let (second, after) = claim(&f.origin, "n1", TTL).await;
    assert_eq!((before.len(), after.len()), (4096, 4096));
    let highest = before.iter().map(|row| row.tenure.0.max(row.gained.0)).max().expect("slots");
    for (old, new) in before.iter().zip(&after) {
        assert_eq!((old.slot, &new.owner), (new.slot, &node("n1")));
        assert!(new.tenure.0 > highest && new.gained.0 > highest);
    }
    let mut tenures: Vec<_> = after.iter().flat_map(|row| [row.tenure.0, row.gained.0]).collect();
    tenures.sort_unstable();
    tenures.dedup();
    assert_eq!(tenures.len(), 2 * 4096, "no number twice");
    assert_ne!(f.origin.ring_digest().await.expect("a digest"), digest);
    assert_eq!(f.origin.read_slots(&node("n1"), first).await, Ok(None));
    assert_eq!(f.origin.read_slots(&node("n1"), second).await, Ok(Some(after)));
}

async fn a_heartbeat_of_an_older_incarnation_is_fenced(f: &Fixture) {
    let (first, _) = claim(&f.origin, "n1", Duration::from_secs(1)).await;
    assert_eq!(f.origin.renew_lease(&node("n1"), first, TTL).await, Ok(true));
    assert!(f.origin.nodes().await.expect("a read")[0].lease_left_ms > 50_000);
    assert_eq!(f.origin.renew_lease(&node("n1"), Incarnation(first.0 + 1), TTL).await, Ok(false));
    assert_eq!(f.origin.renew_lease(&node("n9"), first, TTL).await, Ok(false));
    f.origin.release_lease(&node("n1"), first).await.expect("an answer");
    let (second, _) = claim(&f.origin, "n1", TTL).await;
    assert_eq!(f.origin.renew_lease(&node("n1"), first, TTL).await, Ok(false));
    assert_eq!(f.origin.release_lease(&node("n1"), first).await, Ok(false));
    assert_eq!(f.origin.renew_lease(&node("n1"), second, TTL).await, Ok(true));
}

async fn a_released_lease_is_over_at_once(f: &Fixture) {
    let (first, _) = claim(&f.origin, "n1", TTL).await;
    assert_eq!(f.origin.release_lease(&node("n1"), first).await, Ok(true));
    assert_eq!(f.origin.nodes().await.expect("a read")[0].lease_left_ms, 0);
    let (second, _) = claim(&f.another(), "n1", TTL).await;
    assert!(second > first);
}

async fn an_address_belongs_to_one_living_node(f: &Fixture) {
    let (first, _) = claim(&f.origin, "n1", TTL).await;
    let intruder = f.origin.claim_node(&node("n2"), "n1:8081", Weight::default(), &Pool::default(), TTL).await;
    assert_eq!(intruder, Ok(ClaimOutcome::AddressTaken { by: node("n1") }));
    assert_eq!(f.origin.nodes().await.expect("a read").len(), 1);
    f.origin.release_lease(&node("n1"), first).await.expect("an answer");
    let heir = f.origin.claim_node(&node("n2"), "n1:8081", Weight::default(), &Pool::default(), TTL).await;
    assert!(matches!(heir, Ok(ClaimOutcome::Claimed { .. })), "{heir:?}");
    let back = f.origin.claim_node(&node("n1"), "n1:8081", Weight::default(), &Pool::default(), TTL).await;
    assert_eq!(back, Ok(ClaimOutcome::AddressTaken { by: node("n2") }));
}

async fn of_many_claimers_at_once_one_wins(f: &Fixture) {
    let tasks: Vec<_> = (0..10)
        .map(|number| {
            let origin = f.another();
            // Half want the same name, half the same address.
            let (name, address) = if number % 2 == 0 {
                ("n1".to_owned(), format!("h{number}:1"))
            } else {
                (format!("m{number}"), "h:1".to_owned())
            };
            tokio::spawn(async move {
                origin.claim_node(&node(&name), &address, Weight::default(), &Pool::default(), TTL).await
            })
        })
        .collect();
    let mut won = 0;
    for task in tasks {
        match task.await.expect("a task").expect("an answer") {
            ClaimOutcome::Claimed { .. } => won += 1,
            ClaimOutcome::LeaseHeld { .. } | ClaimOutcome::AddressTaken { .. } => {}
        }
    }
    assert_eq!(won, 2);
}

async fn a_dead_node_can_be_fenced_and_a_living_one_cannot(f: &Fixture) {
    let [first, ..] = f.ring().await;
    assert_eq!(f.origin.fence_node(&node("n1"), first).await, Ok(false));
    f.origin.release_lease(&node("n1"), first).await.expect("an answer");
    assert_eq!(f.origin.fence_node(&node("n1"), Incarnation(first.0 + 1)).await, Ok(false));
    assert_eq!(f.origin.fence_node(&node("n1"), first).await, Ok(true));
    assert_eq!(f.origin.renew_lease(&node("n1"), first, TTL).await, Ok(false));
    assert_eq!(f.origin.read_slots(&node("n1"), first).await, Ok(None));
    let (second, _) = claim(&f.origin, "n1", TTL).await;
    assert!(second.0 > first.0 + 1);
}

async fn a_node_says_that_it_leaves_and_a_claim_takes_it_back(f: &Fixture) {
    let [first, ..] = f.ring().await;
    let leaving = async || {
        let rows = f.origin.nodes().await.expect("a read");
        let state = f.origin.ring_state().await.expect("a read").expect("a ring");
        let names = |rows: &[NodeRow]| -> Vec<String> {
            rows.iter().filter(|row| row.leaving).map(|row| row.id.as_str().to_owned()).collect()
        };
        assert_eq!(names(&rows), names(&state.nodes));
        names(&rows)
    };
    assert_eq!(leaving().await, Vec::<String>::new());
    assert_eq!(f.origin.announce_leaving(&node("n1"), Incarnation(first.0 + 1)).await, Ok(false));
    assert_eq!(f.origin.announce_leaving(&node("n9"), first).await, Ok(false));
    assert_eq!(leaving().await, Vec::<String>::new());
    for _ in 0..2 {
        assert_eq!(f.origin.announce_leaving(&node("n1"), first).await, Ok(true));
        assert_eq!(leaving().await, ["n1"]);
    }
    assert_eq!(f.origin.renew_lease(&node("n1"), first, TTL).await, Ok(true));
    assert_eq!(f.origin.release_lease(&node("n1"), first).await, Ok(true));
    assert_eq!(leaving().await, ["n1"], "neither a heartbeat nor a stop takes it back");
    claim(&f.origin, "n1", TTL).await;
    assert_eq!(leaving().await, Vec::<String>::new());
}
