//! Sick nodes in a running cluster: all of them frozen, one that fails its writes and is ejected, a slow one that is hedged.

mod support;

use std::time::{Duration, Instant};

use reqwest::Method;
use tests::fault_proxy::Fault;
use tests::http::answered;
use tests::poll::eventually;

use support::{assert_unavailable, cluster, counter, far_node, readiness, user_of};

/// How long anything may take that heals by itself.
const HEALS: Duration = Duration::from_secs(40);
/// How long a refusal may take once the gateway knows, on a busy machine.
const QUICK: Duration = Duration::from_secs(2);

#[tokio::test]
async fn with_all_nodes_frozen_every_request_gets_a_quick_503_and_it_heals_by_itself() {
    let cluster = cluster(2, &[]).await;
    let user = cluster.user("frozen");
    assert_eq!(user.put("k", "v").await.status, 201);
    cluster.nodes.values().for_each(|node| node.process.pause());
    eventually("both are known not to answer", HEALS, async || {
        let (read, write) = (user.get("k").await, user.put("k", "w").await);
        // What the nodes had begun when they were stopped may still be answered.
        assert!([200, 503].contains(&read.status) && [503, 504].contains(&write.status), "{read:?} {write:?}");
        readiness(&cluster).await.matches("does not answer").count() == 2
    })
    .await;
    for _ in 0..3 {
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let began = Instant::now();
            let request = user.request(method.clone(), "/v1/entries/k");
            assert_unavailable(&answered(if method == Method::PUT { request.body("w") } else { request }).await);
            assert!(began.elapsed() < QUICK, "{method} took {:?}", began.elapsed());
        }
        let began = Instant::now();
        assert_unavailable(&answered(user.request(Method::GET, "/v1/entries")).await);
        assert!(began.elapsed() < QUICK, "a list took {:?}", began.elapsed());
    }
    cluster.nodes.values().for_each(|node| node.process.resume());
    eventually("reads and writes go on", HEALS, async || {
        user.get("k").await.status == 200 && [201, 204].contains(&user.put("k", "x").await.status)
    })
    .await;
}

#[tokio::test]
async fn a_node_that_breaks_its_writes_is_ejected_keeps_its_users_and_comes_back() {
    let mut cluster = cluster(2, &[("SHARDCACHE_OUTLIER", "on")]).await;
    // Health checks and reads get through: only writes show that it is sick.
    let proxy = far_node(&mut cluster, "PUT ").await;
    let user = user_of(&cluster, "far").await;
    assert_eq!(user.put("k", "v").await.status, 201);
    proxy.set(Fault::Reset).await;
    eventually("the node is ejected", HEALS, async || {
        user.put("k", "w").await;
        readiness(&cluster).await.contains("member far is ejected")
    })
    .await;
    let began = Instant::now();
    let refused = user.put("k", "w").await;
    assert_unavailable(&refused);
    assert!(began.elapsed() < QUICK, "{:?}", began.elapsed());
    let read = user.get("k").await;
    assert!(read.status == 200 && read.header("x-cache-node") != "far", "{read:?}");
    assert!(read.header("cache-status").contains("detail=detached"), "{read:?}");
    let page = answered(user.request(Method::GET, "/")).await.text();
    assert!(page.contains("class=ejected>ejected<"), "{page}");
    assert_eq!(counter(&cluster, "shardcache_gateway_nodes{condition=\"ejected\"}").await, 1);
    assert_eq!(counter(&cluster, "shardcache_gateway_ejections_total{reason=\"consecutive_errors\"}").await, 1);
    let located = answered(user.request(Method::GET, "/v1/ring/locate")).await.json();
    assert_eq!(located["owner"], "far", "ejection moves nobody");
    let other = user_of(&cluster, "n1").await;
    assert_eq!(other.put("k", "v").await.status, 201, "the users of the others go on");

    proxy.set(Fault::Pass).await;
    eventually("it takes writes again", HEALS, async || [201, 204].contains(&user.put("k", "x").await.status)).await;
    eventually("it gets reads again", HEALS, async || user.get("k").await.header("x-cache-node") == "far").await;
    assert!(!readiness(&cluster).await.contains("ejected"));
}

#[tokio::test]
async fn reads_of_a_slow_node_are_answered_by_another_in_time() {
    const SLOW: Duration = Duration::from_millis(700);
    let mut cluster = cluster(1, &[("SHARDCACHE_HEDGE", "50ms")]).await;
    let proxy = far_node(&mut cluster, "").await;
    let user = user_of(&cluster, "far").await;
    assert_eq!(user.put("k", "v").await.status, 201);
    assert_eq!(user.get("k").await.header("x-cache-node"), "far");
    proxy.set(Fault::Delay(SLOW)).await;
    let began = Instant::now();
    let read = user.get("k").await;
    assert_eq!((read.status, read.header("x-cache-node"), read.text().as_str()), (200, "n1", "v"));
    assert!(began.elapsed() < SLOW * 2, "its own answer would take there and back: {:?}", began.elapsed());
    assert!(counter(&cluster, "shardcache_gateway_hedges_total{result=\"won\"}").await >= 1);
    // Sent once, to its owner, however slow that is.
    assert_eq!(user.put("k", "w").await.status, 204);
    assert_eq!(user.get("k").await.text(), "w");
}
