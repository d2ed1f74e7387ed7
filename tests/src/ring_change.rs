//! Changes of the ring as tests make them: clusters ready for one, the migrator's verbs, and holding a flip back.

use reqwest::Method;
use serde_json::Value;

use crate::cluster::{Cluster, ClusterOptions, Database};
use crate::door::{CONCURRENCY, Door, PHASE_BOUND, each, users};
use crate::http::answered;
use crate::poll::eventually;
use crate::postgres::SqlSession;
use crate::processes::Finished;

/// Three members on Postgres and Redis, with all their connections made.
pub async fn cluster(gateways: usize) -> Cluster {
    start(ClusterOptions { gateways, ..ClusterOptions::default() }).await
}

/// A cluster with all its connections made.
pub async fn start(options: ClusterOptions) -> Cluster {
    let cluster = Cluster::start(options).await;
    warm(&cluster).await;
    cluster
}

/// Has every node make its connections to the database: in a debug build each handshake takes so much computing that a
/// node which makes all of them under load would answer "overloaded" for its first second.
pub async fn warm(cluster: &Cluster) {
    let readers = users(CONCURRENCY);
    for node in cluster.nodes.values() {
        let door = Door::new(&node.url());
        eventually("the node reads the database", PHASE_BOUND, async || {
            let read = async |user: &str| {
                let read = door.request(Method::GET, user, "/v1/entries/warm").header("X-Shardcache-Detached", "1");
                answered(read).await.status
            };
            each(&readers, read).await.iter().all(|status| *status == 404)
        })
        .await;
    }
}

/// Starts a further node, ready to be added under load.
pub async fn add_standby(cluster: &mut Cluster, name: &str, more: &[(&str, &str)]) {
    cluster.add_standby(name, more).await;
    warm(cluster).await;
}

/// Waits until every slot has a space in L2, as soon after a start every one gets.
pub async fn l2_in_use(cluster: &Cluster) {
    let postgres = cluster.postgres.as_ref().expect("on Postgres");
    eventually("every slot has its L2 space", PHASE_BOUND, async || {
        let without = postgres.sql("SELECT count(*) FROM slots WHERE l2space IS NULL").await;
        without.is_ok_and(|count| count == "0")
    })
    .await;
}

/// Members on a file, without Redis.
pub async fn cluster_on_a_file(nodes: usize) -> Cluster {
    Cluster::start(ClusterOptions { nodes, database: Database::Sqlite, redis: 0, ..ClusterOptions::default() }).await
}

/// Runs a verb that must end well.
pub async fn done(cluster: &Cluster, args: &[&str]) -> Finished {
    let finished = cluster.migrator(args).await;
    assert_eq!(finished.code, Some(0), "{args:?}: {finished:#?}\n{}", cluster.log_tails());
    finished
}

/// Runs a verb that must end with this code, and say why in words of which `reason` is a part.
pub async fn refused(cluster: &Cluster, args: &[&str], code: i32, reason: &str) -> Finished {
    let finished = cluster.migrator(args).await;
    assert_eq!(finished.code, Some(code), "{args:?}: {finished:#?}");
    assert!(finished.stderr.contains(reason), "{args:?} should say {reason:?}: {finished:#?}");
    finished
}

/// The JSON a verb prints; of a change, whose events come first, the result.
pub async fn json(cluster: &Cluster, args: &[&str]) -> Value {
    let finished = done(cluster, &[args, &["--json"]].concat()).await;
    serde_json::from_str(finished.stdout.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{args:?} prints no JSON ({error}): {finished:#?}"))
}

/// Holds any flip that takes slots of this owner, until it is dropped or released. Longer than the migrator's
/// statements may take (3 s), it fails them.
pub struct FlipHeld(SqlSession);

impl FlipHeld {
    /// Takes the locks; `owner` must have slots.
    pub async fn of(cluster: &Cluster, owner: &str) -> Self {
        let mut session = cluster.postgres.as_ref().expect("on Postgres").session().await.expect("psql");
        let rows = format!("SELECT count(*) FROM (SELECT 1 FROM slots WHERE owner = '{owner}' FOR UPDATE) held");
        session.run("BEGIN").await.expect("a transaction");
        let held = session.run(&rows).await.expect("the lock");
        assert_ne!(held, ["0"], "{owner} has slots");
        Self(session)
    }

    /// Lets the flip go on.
    pub async fn release(mut self) {
        self.0.run("COMMIT").await.expect("the end of the transaction");
    }
}
