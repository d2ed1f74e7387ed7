//! Nodes that are killed: taken over after the grace, not before, not while most are down; and let in again when they are back.

use std::time::{Duration, Instant};

use tests::poll::eventually;

use crate::support::{HEALED, Users, cluster, done, epoch, leader, logs, shares};

#[tokio::test]
async fn a_node_that_stays_away_is_taken_over_and_gets_its_share_again_with_nothing_old() {
    const GRACE: Duration = Duration::from_secs(2);
    let mut cluster = cluster().await;
    let _watch = leader(&cluster, "2s").await;
    let all = Users::new(&cluster, 150);
    all.put_all("first").await;
    all.read_all("first").await;
    let of_n3 = all.of("n3").await;

    cluster.node("n3").process.kill();
    let killed = Instant::now();
    eventually("its users can write again", HEALED, async || of_n3.can_put_all("second").await).await;
    println!("writable again after {:?}", killed.elapsed());
    assert!(killed.elapsed() >= GRACE);
    all.put_all("second").await;
    assert_eq!(done(&cluster).await, ["takeover n3"]);
    let after = shares(&cluster).await;
    assert_eq!((after["n3"], after.len(), after.values().sum::<u64>()), (0, 3, 4096), "it stays a member: {after:?}");

    cluster.node("n3").restart();
    eventually("it has its share again", HEALED, async || shares(&cluster).await["n3"] > 1000).await;
    for _ in 0..3 {
        all.read_all("second").await;
    }
    let of_n3 = all.of("n3").await;
    all.put_all("third").await;
    all.read_all("third").await;
    assert!(of_n3.read_all("third").await.iter().all(|answer| answer.header("X-Cache-Node") == "n3"));
    assert_eq!(done(&cluster).await, ["takeover n3", "readmit n3"]);
}

#[tokio::test]
async fn a_node_that_is_back_before_the_grace_is_over_keeps_its_users_and_slots() {
    let mut cluster = cluster().await;
    let watch = leader(&cluster, "60s").await;
    let all = Users::new(&cluster, 150);
    all.put_all("first").await;
    let before = shares(&cluster).await;
    let of_n3 = all.of("n3").await;
    cluster.node("n3").process.kill();
    logs(&watch, "down: n3, to be taken over after 60s").await;
    cluster.node("n3").restart();
    cluster.node("n3").wait_ready().await;
    eventually("its users can write again", HEALED, async || of_n3.can_put_all("second").await).await;
    assert!(of_n3.read_all("second").await.iter().all(|answer| answer.header("X-Cache-Node") == "n3"));
    assert_eq!((shares(&cluster).await, epoch(&cluster).await), (before, 1));
}

#[tokio::test]
async fn while_more_than_half_are_down_nothing_moves() {
    // Longer than leases differ, so that no node's grace is over before the other is seen down.
    const GRACE: Duration = Duration::from_secs(3);
    let mut cluster = cluster().await;
    let watch = leader(&cluster, "3s").await;
    let all = Users::new(&cluster, 60);
    all.put_all("first").await;
    let before = shares(&cluster).await;
    for name in ["n2", "n3"] {
        cluster.node(name).process.kill();
    }
    logs(&watch, "down: n2, n3, more than half of the 3 nodes with slots: nothing is taken over").await;
    // That nothing happens can only be seen by waiting.
    tokio::time::sleep(2 * GRACE).await;
    all.read_all("first").await;
    assert_eq!((shares(&cluster).await, epoch(&cluster).await), (before.clone(), 1));
    for name in ["n2", "n3"] {
        cluster.node(name).restart();
    }
    eventually("all users can write again", HEALED, async || all.can_put_all("second").await).await;
    assert_eq!((shares(&cluster).await, epoch(&cluster).await), (before, 1));
    logs(&watch, "all members are up").await;
}
