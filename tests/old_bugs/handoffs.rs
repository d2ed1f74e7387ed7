//! Slots that change their owner: what the old owner still does, what was copied too early, and what it finds when it
//! comes back. All slots go from `n1` to `n2`.

use std::pin::pin;
use std::time::Duration;

use tests::cluster::{Cluster, ClusterOptions, Link, Links};
use tests::door::{Door, PHASE_BOUND};
use tests::fault_proxy::Fault;
use tests::history::History;
use tests::poll::eventually;
use tests::ring_change::{FlipHeld, done};
use tokio::time::timeout;

use crate::recorder::Recorder;
use crate::scene::{ADA, NO_L1, STEP, database_link, found, one_node, postgres};

const MOVE: [&str; 3] = ["replace-node", "n1", "n2"];
const MOVE_BACK: [&str; 3] = ["replace-node", "n2", "n1"];
/// What keeps a copy busy: two of them take four seconds at [`SLOWLY`].
const BALLAST_BYTES: usize = 512 << 10;
const SLOWLY: [&str; 4] = ["--max-rate", "256KiB", "--max-p99", "0"];
/// How long a change may take that copies slowly.
const CHANGE_BOUND: Duration = Duration::from_secs(30);
/// How long the old owner may take to answer from its memory.
const QUICK: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_copy_that_overtakes_a_write_is_found() {
    found("copy-overtakes-write", copied_too_early).await;
}

async fn copied_too_early(bug: Option<&'static str>) -> History {
    let cluster = two_nodes(bug, Links::None, &[]).await;
    let (recorder, door) = (Recorder::new(&[ADA]), Door::of(&cluster, 0));
    for ballast in ["b1", "b2"] {
        assert_eq!(cluster.user(ADA).put(ballast, vec![b'x'; BALLAST_BYTES]).await.status, 201);
    }
    recorder.put(1, &door, ADA, 1).await;
    // The hottest go first.
    for _ in 0..5 {
        recorder.get(1, &door, ADA).await;
    }
    let mut migrator = cluster.start_migrator(&[&MOVE[..], &SLOWLY].concat());
    let n1 = Door::new(&cluster.nodes["n1"].url());
    eventually("the entry is copied", STEP, async || {
        n1.counted("shardcache_node_handoff_entries_sent_total").await > 0
    })
    .await;
    migrator.pause();
    recorder.put(1, &door, ADA, 2).await;
    migrator.resume();
    let end = migrator.wait_end(CHANGE_BOUND).await;
    assert_eq!(end.code(), Some(0), "{}", migrator.log_tail());
    recorder.get_answered(2, &door, ADA).await;
    recorder.history()
}

#[tokio::test]
async fn an_owner_switch_before_its_acknowledgement_is_found() {
    found("owner-switch-before-acknowledgement", the_old_owner_serves_on).await;
}

/// The flip happens while the old owner and the gateway cannot see it: both have the old ring.
async fn the_old_owner_serves_on(bug: Option<&'static str>) -> History {
    let cluster = two_nodes(bug, Links::Each, &[]).await;
    let (recorder, old_way) = (Recorder::new(&[ADA]), Door::of(&cluster, 0));
    let new_owner = Door::new(&cluster.nodes["n2"].url());
    recorder.put(1, &old_way, ADA, 1).await;
    recorder.get(1, &old_way, ADA).await;
    let flip = FlipHeld::of(&cluster, "n1").await;
    let _migrator = cluster.start_migrator(&MOVE);
    in_phase(&cluster, "sealed").await;
    let cut_off = [database_link(&cluster), cluster.links.of(&Link::GatewayDatabase(0))];
    for link in cut_off {
        link.set(Fault::Blackhole).await;
    }
    flip.release().await;
    eventually("the new owner serves", STEP, async || new_owner.get(ADA).await.status == 200).await;
    recorder.put(2, &new_owner, ADA, 2).await;
    let mut read = pin!(recorder.get_answered(3, &old_way, ADA));
    if timeout(QUICK, &mut read).await.is_err() {
        // Without the bug it waits for the database.
        for link in cut_off {
            link.set(Fault::Pass).await;
        }
        read.await;
    }
    recorder.history()
}

#[tokio::test]
async fn a_returning_owners_old_entries_are_found() {
    found("returning-owners-entries", async |bug| {
        // The second owner keeps nothing in memory that it could hand back.
        let cluster = two_nodes(bug, Links::None, &[NO_L1]).await;
        let (recorder, door) = (Recorder::new(&[ADA]), Door::of(&cluster, 0));
        recorder.put(1, &door, ADA, 1).await;
        done(&cluster, &MOVE).await;
        recorder.put(1, &door, ADA, 2).await;
        done(&cluster, &MOVE_BACK).await;
        recorder.get_answered(2, &door, ADA).await;
        recorder.history()
    })
    .await;
}

/// `n1` and the standby `n2`, which has `more` variables.
async fn two_nodes(bug: Option<&str>, links: Links, more: &[(&str, &str)]) -> Cluster {
    let mut cluster = one_node(bug, &[], ClusterOptions { links, redis: 0, ..ClusterOptions::default() }).await;
    cluster.add_standby("n2", more).await;
    cluster
}

/// Waits until the change is in this phase, as the database has it.
async fn in_phase(cluster: &Cluster, phase: &str) {
    eventually(&format!("the change is {phase}"), PHASE_BOUND, async || {
        let now = postgres(cluster).sql("SELECT phase FROM ring_changes ORDER BY id DESC LIMIT 1").await;
        now.is_ok_and(|now| now == phase)
    })
    .await;
}
