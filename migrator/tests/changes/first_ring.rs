//! `init`: waits for its nodes, is idempotent, refuses nonsense.

use std::time::Duration;

use migrator::{Failure, Initialised, Progress, init};
use origin::{ClaimOutcome, DatabaseUrl, OpenOptions, Origin};
use placement::{Epoch, Pool, Weight};

use crate::fake_cluster::{FakeCluster, node};

#[tokio::test]
async fn a_second_init_changes_nothing_whatever_nodes_it_names() {
    let cluster = FakeCluster::with_members(&["n1", "n2"]).await;
    let before = cluster.map().await;
    for names in [&["n1", "n2"][..], &["n3"], &["not-registered"]] {
        let ids: Vec<_> = names.iter().map(|name| node(name)).collect();
        let done = init(&cluster.origin, &ids, Duration::from_secs(5), &Progress::Silent).await.expect("done");
        assert_eq!(done, Initialised::Already(Epoch(1)));
    }
    assert_eq!(cluster.map().await, before);
}

#[tokio::test]
async fn the_first_ring_waits_for_its_nodes_and_gives_each_its_own_weight() {
    let data = tempfile::tempdir().expect("a directory");
    let url = DatabaseUrl::Sqlite(data.path().join("new").join("shardcache.db"));
    let origin = Origin::open(&url, OpenOptions::default()).expect("an origin");
    let ids = [node("a"), node("b")];
    let failure =
        init(&origin, &ids, Duration::from_millis(300), &Progress::Silent).await.expect_err("nobody is there");
    assert!(matches!(&failure, Failure::NotRegistered { missing, .. } if missing == &ids), "{failure}");
    assert_eq!(failure.code(), 1);
    let late = async {
        for (id, weight, port) in [("a", 100, 1), ("b", 300, 2)] {
            let weight = Weight::try_from(weight).expect("a weight");
            let address = format!("127.0.0.1:{port}");
            let claimed =
                origin.claim_node(&node(id), &address, weight, &Pool::default(), Duration::from_secs(60)).await;
            assert!(matches!(claimed, Ok(ClaimOutcome::Claimed { .. })));
        }
    };
    let (done, ()) = tokio::join!(init(&origin, &ids, Duration::from_secs(20), &Progress::Silent), late);
    assert_eq!(done.expect("done"), Initialised::Created(Epoch(1)));
    let ring = origin.ring_state().await.expect("a read").expect("a ring");
    assert_eq!(ring.members[1].weight.get(), 300);
    let owned_by_b = ring.slots.iter().filter(|row| row.owner == node("b")).count();
    assert!((2900..=3230).contains(&owned_by_b), "{owned_by_b}");
}

#[tokio::test]
async fn a_name_given_twice_is_a_usage_error() {
    let data = tempfile::tempdir().expect("a directory");
    let url = DatabaseUrl::Sqlite(data.path().join("shardcache.db"));
    let origin = Origin::open(&url, OpenOptions::default()).expect("an origin");
    let twice = [node("a"), node("b"), node("a")];
    let failure = init(&origin, &twice, Duration::from_secs(5), &Progress::Silent).await.expect_err("refused");
    assert_eq!((failure.code(), failure.to_string().as_str()), (2, "--nodes names a twice"));
}
