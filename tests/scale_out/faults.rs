//! Nodes and database that fail in the middle of a change: it ends within a bound, done or given up, and all serve (D02).

use std::time::{Duration, Instant};

use tests::cluster::Cluster;
use tests::poll::until;
use tests::processes::Process;

use crate::support::{Door, FlipHeld, add_standby, cluster, done, json, members, refused, users};

/// How long a change may go on with a node or database that is gone: its longest wait is 15 s.
const CHANGE_BOUND: Duration = Duration::from_secs(25);
/// How soon everything is served again after a fault is over: a lease and a poll.
const HEAL_BOUND: Duration = Duration::from_secs(8);

async fn cluster_with_standby() -> (Cluster, Door) {
    let mut cluster = cluster(1).await;
    // A short lease: that a killed receiver is gone is known soon.
    add_standby(&mut cluster, "n4", &[("SHARDCACHE_LEASE_TTL", "1s")]).await;
    let gateway = Door::of(&cluster, 0);
    (cluster, gateway)
}

/// Waits until a write is taken for each user, and reads all of them.
async fn all_serve(gateway: &Door, value: &str) {
    let all = users(60);
    for user in &all {
        let written =
            until(HEAL_BOUND, async || matches!(gateway.put(user, value).await.status, 201 | 204).then_some(()));
        assert!(written.await.is_some(), "no write for {user} in {HEAL_BOUND:?}");
    }
    gateway.read_all(&all, value).await;
}

/// How the migrator ended, within the bound.
async fn code_of(migrator: &mut Process) -> i32 {
    migrator.wait_end(CHANGE_BOUND).await.code().expect("no signal")
}

#[tokio::test]
async fn a_change_is_given_up_in_time_when_an_old_owner_does_not_seal() {
    let (cluster, gateway) = cluster_with_standby().await;
    let start = gateway.ring().await;
    let began = Instant::now();
    cluster.nodes["n1"].process.pause();
    let mut migrator = cluster.start_migrator(&["add-node", "n4", "--cold"]);
    assert_eq!(code_of(&mut migrator).await, 4, "{}", migrator.log());
    println!("given up after {:?}", began.elapsed());
    let says = migrator.log();
    assert!(says.contains("was aborted, the ring is as before: n1 did not seal its slots"), "{says}");
    let last = json(&cluster, &["status"]).await["last_change"].clone();
    assert!(last["reason"].to_string().contains("n1 did not seal its slots"), "{last}");
    cluster.nodes["n1"].process.resume();
    all_serve(&gateway, "after the pause").await;
    gateway.follows(1).await;
    assert_eq!(members(&gateway.ring().await), members(&start));
    done(&cluster, &["add-node", "n4"]).await;
    gateway.follows(2).await;
    all_serve(&gateway, "after the change").await;
}

#[tokio::test]
async fn a_change_is_given_up_when_its_receiver_dies_before_the_flip() {
    let (mut cluster, gateway) = cluster_with_standby().await;
    // Held in phase 'copy' until the receiver's lease is over.
    cluster.nodes["n1"].process.pause();
    let mut migrator = cluster.start_migrator(&["add-node", "n4"]);
    gateway.sees_phase("copy").await;
    cluster.node("n4").process.kill();
    let gone = until(HEAL_BOUND, async || {
        let status = json(&cluster, &["status"]).await;
        (status["standbys"][0]["state"] == "down").then_some(())
    });
    assert!(gone.await.is_some(), "the lease of n4 ends");
    cluster.nodes["n1"].process.resume();
    assert_eq!(code_of(&mut migrator).await, 4, "{}", migrator.log());
    assert!(migrator.log().contains("n4 is down"), "{}", migrator.log());
    gateway.follows(1).await;
    all_serve(&gateway, "one").await;

    // The receiver is another process by the time of the flip.
    cluster.node("n4").restart();
    cluster.node("n4").wait_ready().await;
    let held = FlipHeld::of(&cluster, "n1").await;
    let mut migrator = cluster.start_migrator(&["add-node", "n4"]);
    gateway.sees_phase("sealed").await;
    migrator.kill();
    cluster.node("n4").restart();
    held.release().await;
    cluster.node("n4").wait_ready().await;
    refused(&cluster, &["resume"], 4, "the ring is as before").await;
    gateway.follows(1).await;
    all_serve(&gateway, "two").await;
    done(&cluster, &["add-node", "n4"]).await;
    gateway.follows(2).await;
    all_serve(&gateway, "three").await;
}

#[tokio::test]
async fn a_change_over_which_the_database_restarts_ends_by_resume_and_by_abort() {
    let (mut cluster, gateway) = cluster_with_standby().await;
    let mut epoch = 1;
    for verb in ["abort", "resume"] {
        let held = FlipHeld::of(&cluster, "n1").await;
        let mut migrator = cluster.start_migrator(&["add-node", "n4"]);
        gateway.sees_phase("sealed").await;
        let postgres = cluster.postgres.as_mut().expect("on Postgres");
        postgres.stop().await.expect("it stops");
        drop(held);
        postgres.restart().await.expect("it starts");
        let code = code_of(&mut migrator).await;
        println!("{verb}: the migrator ended with {code}: {}", migrator.log_tail());
        let status = json(&cluster, &["status"]).await;
        if status["change"].is_null() {
            // It found the database again in time, and ended the change itself.
            assert!(matches!(code, 0 | 4), "{code}");
            refused(&cluster, &[verb], 1, "no ring change is active").await;
        } else {
            assert_eq!(code, 1);
            done(&cluster, &[verb]).await;
        }
        let status = json(&cluster, &["status"]).await;
        let is_done = status["last_change"]["phase"] == "done";
        epoch += u64::from(is_done);
        assert_eq!((status["epoch"].as_u64(), status["change"].is_null()), (Some(epoch), true), "{status}");
        gateway.follows(epoch).await;
        all_serve(&gateway, verb).await;
        if is_done {
            done(&cluster, &["remove-node", "n4"]).await;
            epoch += 1;
        }
    }
}
