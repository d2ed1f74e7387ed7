//! The harness itself: that a cluster of real processes starts, is seen to fail, and comes back.

use tests::cluster::{Cluster, ClusterOptions, Database};

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
