//! The harness itself: that a cluster of real processes starts, is seen to fail, and comes back.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::Method;
use tests::cluster::{Cluster, ClusterOptions, Database, Link, Links};
use tests::door::Door;
use tests::fault_proxy::Fault;
use tests::http::{User, answered};
use tests::poll::eventually;
use tests::postgres::PostgresServer;
use tests::redis::RedisServer;

/// How soon a program notices that a link is cut or mended.
const NOTICED: Duration = Duration::from_secs(15);

async fn serves_and_comes_back(database: Database, redis: usize) {
    let mut cluster = Cluster::start(ClusterOptions { nodes: 2, database, redis, ..ClusterOptions::default() }).await;
    let user = cluster.user("ada");
    assert_eq!(user.put("greeting", "hello").await.status, 201);
    let read = user.get("greeting").await;
    assert_eq!((read.status, &read.body[..]), (200, &b"hello"[..]));
    assert_eq!(user.get("nothing").await.code(), "entry_not_found");

    cluster.add_standby("n3", &[]).await;
    let status = cluster.migrator(&["status"]).await;
    assert_eq!(status.code, Some(0), "{status:#?}");
    assert!(status.stdout.contains("n3"), "{status:#?}");

    for name in ["n1", "n2"] {
        let node = cluster.node(name);
        let end = node.process.stop().await;
        assert_eq!(end.code(), Some(0), "{}", node.process.log_tail());
        node.restart();
        node.wait_ready().await;
    }
    assert_eq!(user.get("greeting").await.text(), "hello");
}

#[tokio::test]
async fn a_cluster_on_postgres_and_redis_serves_and_comes_back() {
    serves_and_comes_back(Database::Postgres, 1).await;
}

#[tokio::test]
async fn a_cluster_on_a_file_without_redis_serves_and_comes_back() {
    serves_and_comes_back(Database::Sqlite, 0).await;
}

#[tokio::test]
#[should_panic(expected = "instead of getting ready")]
async fn a_program_that_ends_at_its_start_is_reported_with_its_log() {
    let options = ClusterOptions {
        nodes: 1,
        gateways: 1,
        database: Database::Sqlite,
        redis: 0,
        env: vec![("SHARDCACHE_LEASE_TTL".to_owned(), "never".to_owned())],
        ..ClusterOptions::default()
    };
    let mut cluster = Cluster::start(options).await;
    cluster.node("n1").wait_ready().await;
}

/// How many L2 servers the node is in touch with.
async fn l2_sessions(cluster: &Cluster, node: &str) -> u64 {
    Door::new(&cluster.nodes[node].url()).counted("shardcache_node_l2_sessions").await
}

#[tokio::test]
async fn each_link_of_a_cluster_can_be_cut_by_itself_and_mended() {
    let options = ClusterOptions { nodes: 2, links: Links::Each, ..ClusterOptions::default() };
    let cluster = Cluster::start(options).await;
    let link = |link: Link| cluster.links.of(&link);
    let redis = |node: &str| Link::NodeRedis(node.to_owned(), 0);
    eventually("both use L2", NOTICED, async || {
        l2_sessions(&cluster, "n1").await + l2_sessions(&cluster, "n2").await == 2
    })
    .await;
    link(redis("n1")).set(Fault::Cut).await;
    eventually("n1 has lost L2", NOTICED, async || l2_sessions(&cluster, "n1").await == 0).await;
    assert_eq!(l2_sessions(&cluster, "n2").await, 1);
    link(redis("n1")).set(Fault::Pass).await;

    // A node that answers by itself, but not its gateway.
    link(Link::NodePeer("n2".to_owned())).set(Fault::Cut).await;
    for number in 0..20 {
        let answer = cluster.user(&format!("user-{number}")).get("k").await;
        assert!(answer.status == 404 && answer.header("x-cache-node") != "n2", "{answer:?}");
    }
    let itself = User::new(&cluster.nodes["n2"].url(), "ada");
    assert_eq!(answered(itself.request(Method::GET, "/healthz")).await.status, 200);
    link(Link::NodePeer("n2".to_owned())).set(Fault::Pass).await;

    link(Link::MigratorDatabase).set(Fault::Cut).await;
    assert_eq!(cluster.migrator(&["status"]).await.code, Some(1));
    link(Link::MigratorDatabase).set(Fault::Pass).await;
    assert_eq!(cluster.migrator(&["status"]).await.code, Some(0));
}

#[tokio::test]
async fn the_logs_of_a_cluster_live_through_restarts() {
    let logs = tempfile::tempdir().expect("a directory");
    let (nodes, database) = (1, Database::Sqlite);
    let logs_path = Some(logs.path().to_owned());
    let options = ClusterOptions { nodes, database, redis: 0, logs: logs_path, ..ClusterOptions::default() };
    let mut cluster = Cluster::start(options).await;
    let node = cluster.node("n1");
    node.restart();
    node.wait_ready().await;
    let log = std::fs::read_to_string(logs.path().join("n1.log")).expect("a log");
    assert_eq!(log.matches("\"starting\"").count(), 2, "{log}");
}

#[tokio::test]
async fn frozen_programs_and_servers_end_with_their_owner() {
    let (nodes, database) = (1, Database::Sqlite);
    let cluster = Cluster::start(ClusterOptions { nodes, database, redis: 0, ..ClusterOptions::default() }).await;
    let (postgres, redis) = tokio::join!(PostgresServer::start(), RedisServer::start());
    let (postgres, redis) = (postgres.expect("postgres starts"), redis.expect("redis starts"));
    let node = &cluster.nodes["n1"].process;
    let pid = node.pid();
    node.pause();
    postgres.pause().expect("paused");
    redis.pause().expect("paused");
    let ports = [postgres.port(), redis.port()];
    drop((cluster, postgres, redis));
    assert!(!PathBuf::from(format!("/proc/{pid}")).exists());
    for port in ports {
        let gone = async || std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
        eventually("the server has left its port", NOTICED, gone).await;
    }
}
