//! What the scenes share: clusters of nodes that may have a bug, and the judgement.

use std::time::Duration;

use tests::cluster::{Cluster, ClusterOptions, Link};
use tests::fault_proxy::FaultProxy;
use tests::history::History;
use tests::http::Answer;
use tests::linearizable::{Wrong, check};
use tests::postgres::PostgresServer;
use tests::ring_change::warm;

/// The program of the nodes.
pub(crate) const PROGRAM: &str = "cache-node-old-bugs";
/// Chooses the bug.
pub(crate) const VARIABLE: &str = "SHARDCACHE_OLD_BUG";
/// How long a step of a scene may take on a busy machine.
pub(crate) const STEP: Duration = Duration::from_secs(15);
/// L1 forgets at once.
pub(crate) const NO_L1: (&str, &str) = ("SHARDCACHE_L1_TTL", "1ms");
/// The user of the scene, where one is enough.
pub(crate) const ADA: &str = "ada";

/// A cluster of one node, `n1`, with this bug or none.
pub(crate) async fn one_node(bug: Option<&str>, env: &[(&str, &str)], options: ClusterOptions) -> Cluster {
    // No lease may end because the machine is busy: a node without one passes by the caches, and with them the bug.
    // No audit may see the wrong entry before the clients do.
    let mut all = vec![("SHARDCACHE_LEASE_TTL", "60s"), ("SHARDCACHE_AUDIT_EVERY", "0")];
    all.extend(bug.map(|bug| (VARIABLE, bug)));
    all.extend(env);
    let env = all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let cluster = Cluster::start(ClusterOptions { nodes: 1, node_program: PROGRAM, env, ..options }).await;
    // A login by SCRAM costs a program built for debugging a tenth of a second of a core, and the races here are of moments.
    postgres(&cluster).trust_everybody().await.expect("a superuser may");
    warm(&cluster).await;
    assert_eq!(cluster.nodes["n1"].process.log().contains("WRONG ON PURPOSE"), bug.is_some());
    cluster
}

/// Plays the scene with the bug, whose race must be found, and without, which must be clean.
pub(crate) async fn found(bug: &'static str, scene: impl AsyncFn(Option<&'static str>) -> History) {
    let (with, without) = tokio::join!(scene(Some(bug)), scene(None));
    let Err(violation) = check(&with) else { panic!("{bug} was not found: a register can have this: {with:#?}") };
    println!("{bug}: {violation}");
    assert!(matches!(violation.wrong, Wrong::NoOrder | Wrong::NotWritten), "{violation}");
    let checked = check(&without).unwrap_or_else(|violation| panic!("without {bug}: {violation}"));
    println!("without it: {} operations in order", checked.operations);
}

/// The database of a cluster that has one.
pub(crate) fn postgres(cluster: &Cluster) -> &PostgresServer {
    cluster.postgres.as_ref().expect("the cluster is on Postgres")
}

/// The proxy between `n1` and the database.
pub(crate) fn database_link(cluster: &Cluster) -> &FaultProxy {
    cluster.links.of(&Link::NodeDatabase("n1".to_owned()))
}

/// Whether L1 gave the answer.
pub(crate) fn from_l1(answer: &Answer) -> bool {
    answer.header("cache-status") == "shardcache-l1; hit"
}

/// Whether L2 gave the answer.
pub(crate) fn from_l2(answer: &Answer) -> bool {
    answer.header("cache-status").contains("shardcache-l2; hit")
}
