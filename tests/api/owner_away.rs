//! The hop from gateway to node when the node goes: restarted (E01), dead, or dying in the middle of an answer (E10).

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use reqwest::Method;
use tests::cluster::Cluster;
use tests::fault_proxy::{Fault, FaultProxy};
use tests::http::{RawConnection, User, answered, client};
use tests::poll::eventually;
use tests::processes::{Process, free_address};

use crate::support::{ask, assert_problem, small_cluster, user_of, variables, version, with_headers};

/// How long a node may take until it owns its slots again: a lease and a margin.
const BACK: Duration = Duration::from_secs(15);
const CONNECTIONS: usize = 16;
const ROUNDS: usize = 4;

async fn is_ready(base: &str) -> bool {
    let ready = ask(base, Method::GET, "/readyz", &[]).await;
    ready.status == 200 && ready.json()["state"] == "ready"
}

/// The present tag of each key; all requests at once, so that each has a connection of its own.
async fn put_all(user: &User, tags: &[String]) -> Vec<String> {
    let puts = tags.iter().enumerate().map(async |(number, tag)| {
        // Carried out twice, it would be refused.
        let condition = if tag.is_empty() { ("If-None-Match", "*") } else { ("If-Match", tag.as_str()) };
        let answer = with_headers(user, Method::PUT, &format!("k{number}"), &[condition], "v").await;
        assert_eq!(answer.status, if tag.is_empty() { 201 } else { 204 }, "{answer:?}");
        assert!(version(&answer) > tag.trim_matches('"').parse().unwrap_or(0));
        answer.header("etag").to_owned()
    });
    join_all(puts).await
}

#[tokio::test]
async fn after_a_restart_of_the_node_every_pooled_connection_serves_a_read_and_a_write() {
    let mut cluster = small_cluster(1, &[("SHARDCACHE_LEASE_TTL", "1s")]).await;
    let user = cluster.user("pool");
    let mut tags = put_all(&user, &vec![String::new(); CONNECTIONS]).await;
    for round in 0..ROUNDS {
        let node = cluster.node("n1");
        if round % 2 == 0 {
            assert_eq!(node.process.stop().await.code(), Some(0), "{}", node.process.log_tail());
        }
        // In odd rounds without a chance to say good-bye.
        node.restart();
        node.wait_ready().await;
        let url = node.url();
        eventually("the node owns its slots", BACK, async || is_ready(&url).await).await;
        if round < ROUNDS / 2 {
            let reads = join_all((0..CONNECTIONS).map(async |number| user.get(&format!("k{number}")).await)).await;
            for (answer, tag) in reads.iter().zip(&tags) {
                assert_eq!((answer.status, answer.header("etag")), (200, tag.as_str()), "{answer:?}");
            }
        }
        tags = put_all(&user, &tags).await;
    }
}

#[tokio::test]
async fn without_its_owner_a_user_reads_through_another_node_and_writes_are_refused_at_once() {
    let mut cluster = small_cluster(2, &[]).await;
    let user = user_of(&cluster, "n1").await;
    let before = user.put("k", "v").await;
    cluster.node("n1").process.kill();
    eventually("reads go through the other node", BACK, async || {
        let read = user.get("k").await;
        assert_eq!((read.status, read.header("etag")), (200, before.header("etag")), "{read:?}");
        read.header("x-cache-node") == "n2" && read.header("cache-status").contains("detail=detached")
    })
    .await;
    for key in ["k", "new"] {
        let began = Instant::now();
        assert_problem(&user.put(key, "w").await, 503, "owner_unavailable");
        assert_problem(&user.delete(key).await, 503, "owner_unavailable");
        assert!(began.elapsed() < Duration::from_secs(4), "refused only after {:?}", began.elapsed());
    }
    assert_problem(&user.get("new").await, 404, "entry_not_found");
    assert_eq!(user.get("k").await.header("etag"), before.header("etag"), "refused is not executed");
    let listed = answered(user.request(Method::GET, "/v1/entries")).await;
    assert_eq!((listed.status, listed.json()["entries"].as_array().map(Vec::len)), (200, Some(1)));
    let other = user_of(&cluster, "n2").await;
    assert_eq!(other.put("k", "v").await.status, 201, "users of the living node go on");
}

/// A node whose link to the gateway is a proxy, and a user of it.
async fn behind_a_proxy(cluster: &Cluster) -> (FaultProxy, Process, User) {
    let address = free_address();
    let proxy = FaultProxy::start(&address.to_string()).await;
    let (listen, advertise) = (address.to_string(), proxy.address().to_string());
    let own = [("SHARDCACHE_NODE_ID", "far"), ("SHARDCACHE_LISTEN", &listen), ("SHARDCACHE_ADVERTISE", &advertise)];
    let mut node = Process::start("cache-node", &[], &[cluster.migrator_env(), variables(&own)].concat());
    node.wait_ready(address, "/readyz").await;
    let added = cluster.migrator(&["add-node", "far"]).await;
    assert_eq!(added.code, Some(0), "{added:?}\n{}", node.log_tail());
    let user = user_of(cluster, "far").await;
    (proxy, node, user)
}

#[tokio::test]
async fn an_answer_cut_in_the_middle_never_looks_complete_and_is_not_kept() {
    const SIZE: usize = 4 << 20;
    let cluster = small_cluster(1, &[("SHARDCACHE_MAX_VALUE_BYTES", "4MiB")]).await;
    let (proxy, _node, user) = behind_a_proxy(&cluster).await;
    assert_eq!(user.put("big", vec![7; SIZE]).await.status, 201);
    let id = user.request(Method::GET, "/").build().expect("a request").headers()["x-user-id"].clone();

    // 16 KiB each 10 ms: 4 MiB take 2.5 s.
    proxy.set(Fault::Delay(Duration::from_millis(10))).await;
    let path = format!("{}/v1/entries/big", cluster.gateway_url());
    let answer = client().get(path).header("X-User-ID", id.clone()).send().await.expect("a head");
    assert_eq!(answer.status(), 200);
    let (mut body, mut read) = (answer.bytes_stream(), 0);
    let mut cut = false;
    let end = loop {
        match body.next().await {
            Some(Ok(bytes)) => read += bytes.len(),
            other => break other,
        }
        if read > SIZE / 4 && !cut {
            cut = true;
            proxy.set(Fault::Reset).await;
        }
    };
    assert!(cut && read < SIZE && matches!(end, Some(Err(_))), "{read} bytes, then {end:?}");

    proxy.set(Fault::Pass).await;
    eventually("the node is reached again", BACK, async || {
        let whole = user.get("big").await;
        assert!(whole.status != 200 || whole.body.len() == SIZE, "{} bytes are kept", whole.body.len());
        whole.status == 200 && whole.header("x-cache-node") == "far"
    })
    .await;

    // The same for a client that would take the end of the connection for the end of the body.
    proxy.set(Fault::Delay(Duration::from_millis(10))).await;
    let mut old = RawConnection::open(cluster.gateways[0].address).await;
    let id = id.to_str().expect("text").to_owned();
    old.send(format!("GET /v1/entries/big HTTP/1.0\r\nX-User-ID: {id}\r\n\r\n").as_bytes()).await;
    assert_eq!(old.answer(Duration::from_millis(500)).await, None, "4 MiB do not come this fast");
    proxy.set(Fault::Reset).await;
    assert_eq!(old.answer(BACK).await, None, "fewer bytes than Content-Length says");
    assert!(old.closes_within(BACK).await);
    assert_eq!(ask(&cluster.gateway_url(), Method::GET, "/healthz", &[]).await.status, 200);
}
