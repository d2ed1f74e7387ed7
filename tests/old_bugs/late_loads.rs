//! Loads that a write overtakes: the database's answer with the old value is held until the write is acknowledged.

use std::pin::pin;
use std::time::Duration;

use tests::cluster::{Cluster, ClusterOptions, Links};
use tests::door::Door;
use tests::fault_proxy::Fault;
use tests::poll::eventually;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::recorder::{Recorder, body};
use crate::scene::{ADA, NO_L1, STEP, database_link, found, from_l1, one_node, postgres};

/// What the database has before anybody asks.
const OLD: u64 = 1;
/// How [`OLD`] stands in an answer of the database.
const OLD_BODY: &str = "value-1;";
const NEW: u64 = 2;
/// How long a read may take before it counts as one that waits; the load that is held waits for 2.5 s at most.
const QUICK: Duration = Duration::from_millis(200);

#[tokio::test]
async fn a_fill_after_an_invalidation_is_found() {
    found("fill-after-invalidate", async |bug| {
        let scene = LateLoad::play(one_node_with_link(bug, &[]).await).await;
        database_link(&scene.cluster).set(Fault::Pass).await;
        scene.late.await.expect("the read ends");
        scene.recorder.get_answered(3, &scene.door, ADA).await;
        scene.recorder.history()
    })
    .await;
}

#[tokio::test]
async fn a_read_that_joins_an_older_load_is_found() {
    found("join-older-load", async |bug| {
        // The write leaves nothing in L1 for longer than an instant, so that the reads after it load.
        let scene = LateLoad::play(one_node_with_link(bug, &[NO_L1]).await).await;
        let load = async || !from_l1(&scene.recorder.get(3, &scene.door, ADA).await);
        let mut read = pin!(eventually("a read loads", STEP, load));
        if timeout(QUICK, &mut read).await.is_err() {
            // With the bug it waits for the load that is held.
            database_link(&scene.cluster).set(Fault::Pass).await;
            read.await;
        }
        database_link(&scene.cluster).set(Fault::Pass).await;
        scene.late.await.expect("the read ends");
        scene.recorder.history()
    })
    .await;
}

async fn one_node_with_link(bug: Option<&str>, env: &[(&str, &str)]) -> Cluster {
    one_node(bug, env, ClusterOptions { links: Links::Each, redis: 0, ..ClusterOptions::default() }).await
}

/// A load that has read [`OLD`] and is held; [`NEW`] is acknowledged.
struct LateLoad {
    cluster: Cluster,
    recorder: Recorder,
    door: Door,
    /// The read that began the load.
    late: JoinHandle<()>,
}

impl LateLoad {
    async fn play(cluster: Cluster) -> Self {
        let recorder = Recorder::new(&[ADA]);
        let door = Door::of(&cluster, 0);
        let row = format!(
            "INSERT INTO entries (usr, key, value, content_type, version, updated_ms) \
             VALUES ('{ADA}', 'k', '{}', 'text/plain', nextval('version_seq'), 0) RETURNING version",
            body(OLD)
        );
        let version = postgres(&cluster).sql(&row).await.expect("a row can be put in");
        recorder.was_there(ADA, OLD, version.parse().expect("a version"));
        database_link(&cluster).set(Fault::Hold(OLD_BODY)).await;
        let late = tokio::spawn({
            let (recorder, door) = (recorder.clone(), door.clone());
            async move { drop(recorder.get(1, &door, ADA).await) }
        });
        database_link(&cluster).holds().await;
        recorder.put(2, &door, ADA, NEW).await;
        Self { cluster, recorder, door, late }
    }
}
