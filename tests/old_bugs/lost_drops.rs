//! Redis and the node at odds: a drop that never arrives, and a reply that comes too late.

use tests::cluster::{Cluster, ClusterOptions, Link, Links};
use tests::door::Door;
use tests::fault_proxy::{Fault, FaultProxy};
use tests::poll::eventually;
use tests::ring_change::l2_in_use;

use crate::recorder::Recorder;
use crate::scene::{ADA, NO_L1, STEP, found, from_l2, one_node};

const BOB: &str = "bob";
/// How the value 1 stands in a reply of Redis.
const ONE_BODY: &str = "value-1;";

#[tokio::test]
async fn a_failed_drop_that_is_taken_for_done_is_found() {
    found("failed-drop-taken-for-done", async |bug| {
        let cluster = one_node_on_redis(bug).await;
        let (recorder, door) = (Recorder::new(&[ADA]), Door::of(&cluster, 0));
        recorder.put(1, &door, ADA, 1).await;
        comes_from_l2(&recorder, &door, ADA).await;
        redis_link(&cluster).set(Fault::Reset).await;
        recorder.put(1, &door, ADA, 2).await;
        redis_link(&cluster).set(Fault::Pass).await;
        comes_from_l2(&recorder, &door, ADA).await;
        recorder.history()
    })
    .await;
}

#[tokio::test]
async fn a_late_reply_that_is_given_to_another_key_is_found() {
    found("late-reply", async |bug| {
        let cluster = one_node_on_redis(bug).await;
        let (recorder, door) = (Recorder::new(&[ADA, BOB]), Door::of(&cluster, 0));
        for (user, value) in [(ADA, 1), (BOB, 2)] {
            recorder.put(1, &door, user, value).await;
            comes_from_l2(&recorder, &door, user).await;
        }
        // A reply that is late by half a second is given up for good, the node's own commands may come in between, and several
        // replies of the wrong kind end the session: on a busy machine once may not be enough.
        let n1 = Door::new(&cluster.nodes["n1"].url());
        for _ in 0..5 {
            eventually("L2 is in use", STEP, async || n1.counted("shardcache_node_l2_sessions").await == 1).await;
            redis_link(&cluster).set(Fault::Hold(ONE_BODY)).await;
            recorder.get(1, &door, ADA).await;
            redis_link(&cluster).set(Fault::Pass).await;
            for user in [BOB, ADA, BOB] {
                recorder.get(2, &door, user).await;
            }
        }
        recorder.history()
    })
    .await;
}

async fn one_node_on_redis(bug: Option<&str>) -> Cluster {
    let cluster = one_node(bug, &[NO_L1], ClusterOptions { links: Links::Each, ..ClusterOptions::default() }).await;
    l2_in_use(&cluster).await;
    cluster
}

fn redis_link(cluster: &Cluster) -> &FaultProxy {
    cluster.links.of(&Link::NodeRedis("n1".to_owned(), 0))
}

/// Reads until L2 gives the entry.
async fn comes_from_l2(recorder: &Recorder, door: &Door, user: &str) {
    eventually("L2 gives the entry", STEP, async || from_l2(&recorder.get(1, door, user).await)).await;
}
