//! Nodes that start while Redis cannot be used: up, degraded, and saying so.

use std::time::Duration;

use tests::cluster::{Cluster, ClusterOptions};
use tests::fault_proxy::{Fault, FaultProxy};
use tests::http::{User, answered};
use tests::poll::eventually;
use tests::processes::free_address;
use tests::redis::RedisServer;

use crate::support::{HEALED, eventually_l2_hit, says, start};

const SECRET: &str = "Zx9SECRET-of-redis";

async fn cluster_with(redis_url: String) -> Cluster {
    let env = vec![("REDIS_URL".to_owned(), redis_url), ("SHARDCACHE_L1_TTL".to_owned(), "50ms".to_owned())];
    start(ClusterOptions { nodes: 1, redis: 0, env, ..ClusterOptions::default() }).await
}

async fn is_degraded_and_says_so(cluster: &mut Cluster) {
    let url = cluster.node("n1").url();
    let ready = answered(User::new(&url, "probe").request(reqwest::Method::GET, "/readyz")).await;
    assert_eq!(ready.status, 200, "{ready:?}");
    let document = ready.json();
    assert_eq!(document["state"], "degraded", "{document}");
    let reasons = document["reasons"].to_string();
    assert!(reasons.contains("L2"), "{reasons}");
    eventually("the log says so", Duration::from_secs(10), async || {
        cluster.node("n1").process.log().contains("L2 server is not usable")
    })
    .await;
    let ada = cluster.user("ada");
    assert_eq!(ada.put("k", "v").await.status, 201);
    assert!(says(&ada.get("k").await, "v"));
    assert_eq!(ada.delete("k").await.status, 204);
    assert_eq!(ada.get("k").await.status, 404);
    assert_eq!(ada.put("k", "v").await.status, 201);
}

#[tokio::test]
async fn a_node_starts_without_a_redis_that_refuses_connections() {
    let mut cluster = cluster_with(format!("redis://{}", free_address())).await;
    is_degraded_and_says_so(&mut cluster).await;
}

#[tokio::test]
async fn a_node_starts_without_a_redis_that_swallows_everything_and_uses_it_once_it_answers() {
    let redis = RedisServer::start().await.expect("redis starts");
    let proxy = FaultProxy::start(&format!("127.0.0.1:{}", redis.port())).await;
    proxy.set(Fault::Blackhole).await;
    let mut cluster = cluster_with(format!("redis://{}", proxy.address())).await;
    is_degraded_and_says_so(&mut cluster).await;
    proxy.set(Fault::Pass).await;
    eventually_l2_hit(&cluster.user("ada"), "k", "v", HEALED).await;
}

#[tokio::test]
async fn a_node_starts_with_a_wrong_redis_password_which_no_log_repeats() {
    let redis = RedisServer::start().await.expect("redis starts");
    redis.cli(&["CONFIG", "SET", "requirepass", "another"]).await.expect("set");
    let mut cluster = cluster_with(format!("redis://:{SECRET}@127.0.0.1:{}", redis.port())).await;
    is_degraded_and_says_so(&mut cluster).await;
    let log = cluster.node("n1").process.log();
    assert!(!log.contains(SECRET), "{log}");
    redis.cli(&["-a", "another", "CONFIG", "SET", "requirepass", SECRET]).await.expect("set");
    eventually_l2_hit(&cluster.user("ada"), "k", "v", HEALED).await;
}
