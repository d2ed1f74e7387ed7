//! The hop from gateway to node, each interleaving made by hand: nodes that die, freeze, lie or have moved on.
//!
//! All slots belong to `n1`; `n2` is a member without any, for detached reads.

mod lines;
mod scripted_line;
mod scripted_node;
mod sick;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gateway::{Config, start};
use origin::{DatabaseUrl, OpenOptions, Origin};
use placement::{Epoch, Member, NodeId, Pool, Ring, Weight};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use scripted_node::{Act, ScriptedNode, Seen, exchange};

const FOUND: Act = Act::Answer("HTTP/1.1 200 OK\r\netag: \"7\"\r\nx-cache-node: n1", "value");
const MISDIRECTED: Act = Act::Answer("HTTP/1.1 421 Misdirected Request\r\nx-ring-epoch: 2", "");
const CREATED: Act = Act::Answer("HTTP/1.1 201 Created\r\netag: \"8\"", "");
const READYZ: &str = "GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

struct Cluster {
    gateway: SocketAddr,
    origin: Origin,
    _running: service::RunningServer,
    stop: DropGuard,
    _directory: tempfile::TempDir,
}

impl Cluster {
    /// A gateway that knows a ring of these nodes, `n1` first.
    async fn start(addresses: &[SocketAddr]) -> Self {
        Self::start_with(Config::default(), addresses).await
    }

    async fn start_with(config: Config, addresses: &[SocketAddr]) -> Self {
        let directory = tempfile::tempdir().expect("directory");
        let url = DatabaseUrl::Sqlite(directory.path().join("ring.db"));
        let origin = Origin::open(&url, OpenOptions::default()).expect("open");
        origin.migrate().await.expect("migrate");
        let id = |index: usize| format!("n{}", index + 1).parse::<NodeId>().expect("id");
        let lease = Duration::from_secs(60);
        for (index, address) in addresses.iter().enumerate() {
            origin
                .claim_node(&id(index), &address.to_string(), Weight::default(), &Pool::default(), lease)
                .await
                .expect("claim");
        }
        let members = (0..addresses.len()).map(|index| Member { id: id(index), weight: Weight::default() }).collect();
        let ring = Ring::new(Epoch(1), members, |_| id(0)).expect("ring");
        origin.init_ring(&ring).await.expect("init");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let stop = CancellationToken::new();
        let running = start(config, origin.clone(), listener, stop.clone()).await.expect("start");
        let cluster = Self {
            gateway: running.address(),
            origin,
            _running: running,
            stop: stop.drop_guard(),
            _directory: directory,
        };
        let ready = Instant::now() + Duration::from_secs(10);
        while status(&exchange(cluster.gateway, READYZ).await) != 200 {
            assert!(Instant::now() < ready, "the gateway never knew the ring");
        }
        cluster
    }

    async fn ask(&self, method: &str, more: &str) -> String {
        self.ask_of("k", method, more).await
    }

    async fn ask_of(&self, key: &str, method: &str, more: &str) -> String {
        let head =
            format!("{method} /v1/entries/{key} HTTP/1.1\r\nhost: x\r\nx-user-id: u\r\nconnection: close\r\n{more}");
        exchange(self.gateway, &if more.contains("\r\n\r\n") { head } else { head + "\r\n" }).await
    }

    async fn get(&self) -> String {
        self.ask("GET", "").await
    }

    async fn put(&self) -> String {
        self.ask("PUT", "content-length: 3\r\n\r\nabc").await
    }
}

fn status(answer: &str) -> u16 {
    answer.get(9..12).and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

/// A node that does `act` except for probes, which it answers.
fn well(act: impl Fn(&Seen) -> Act + Send + Sync + 'static) -> impl Fn(&Seen) -> Act + Send + Sync + 'static {
    move |seen| if seen.is_probe() { Act::Answer("HTTP/1.1 200 OK", "ok") } else { act(seen) }
}

/// An address where nothing listens.
async fn refusing() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    listener.local_addr().expect("address")
}

#[tokio::test]
async fn a_421_is_never_shown_and_the_request_goes_again_whole() {
    let n1 = ScriptedNode::start(well(|seen| if seen.number < 2 { MISDIRECTED } else { CREATED })).await;
    let cluster = Cluster::start(&[n1.address]).await;
    let answer = cluster.put().await;
    assert_eq!(status(&answer), 201, "{answer}");
    let seen = n1.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|request| request.body == "abc" && request.has("x-ring-epoch: 1")), "{seen:?}");
}

#[tokio::test]
async fn a_read_that_is_sent_in_circles_is_answered_by_the_origin_and_a_write_is_refused_as_not_executed() {
    let n1 =
        ScriptedNode::start(well(|seen| if seen.has("x-shardcache-detached: 1") { FOUND } else { MISDIRECTED })).await;
    let cluster = Cluster::start(&[n1.address]).await;
    assert_eq!(status(&cluster.get().await), 200);
    let refused = cluster.put().await;
    assert!(status(&refused) == 503 && refused.contains("owner_unavailable"), "{refused}");
    assert!(refused.to_lowercase().contains("retry-after: "), "{refused}");
}

#[tokio::test]
async fn a_node_that_misdirects_even_a_detached_read_is_passed_by() {
    let n1 = ScriptedNode::start(well(|_| MISDIRECTED)).await;
    let cluster = Cluster::start(&[n1.address]).await;
    let answer = cluster.get().await;
    assert!(status(&answer) == 503 && answer.contains("owner_unavailable"), "{answer}");
}

#[tokio::test]
async fn a_write_whose_connection_dies_unanswered_is_unknown_and_sent_once() {
    let n1 = ScriptedNode::start(well(|_| Act::RawThenClose(""))).await;
    let cluster = Cluster::start(&[n1.address]).await;
    let answer = cluster.put().await;
    assert!(status(&answer) == 504 && answer.contains("write_outcome_unknown"), "{answer}");
    assert_eq!(n1.seen().len(), 1);
}

#[tokio::test]
async fn a_write_to_a_node_that_is_not_there_is_refused_at_once_as_not_executed() {
    let n2 = ScriptedNode::start(well(|_| CREATED)).await;
    let cluster = Cluster::start(&[refusing().await, n2.address]).await;
    let began = Instant::now();
    let answer = cluster.put().await;
    assert!(status(&answer) == 503 && answer.contains("owner_unavailable"), "{answer}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(n2.seen().is_empty(), "no other node may write");
}

#[tokio::test]
async fn a_read_on_a_pooled_connection_that_closes_under_it_goes_again_on_a_fresh_one() {
    let n1 =
        ScriptedNode::start(well(|seen| if seen.in_connection == 0 { FOUND } else { Act::RawThenClose("") })).await;
    let cluster = Cluster::start(&[n1.address]).await;
    assert_eq!(status(&cluster.get().await), 200);
    let second = cluster.get().await;
    assert_eq!(status(&second), 200, "{second}");
    let seen = n1.seen();
    assert!(seen.iter().all(|request| !request.has("x-shardcache-detached: 1")), "the owner can answer: {seen:?}");
}

#[tokio::test]
async fn a_write_on_a_pooled_connection_closed_before_it_is_executed_once() {
    let n1 = ScriptedNode::start(well(|_| Act::RawThenClose("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"))).await;
    let cluster = Cluster::start(&[n1.address]).await;
    for number in 1..=20 {
        assert_eq!(status(&cluster.put().await), 200);
        assert_eq!(n1.seen().len(), number);
    }
}

#[tokio::test]
async fn the_users_of_a_frozen_node_read_through_another_and_soon_at_once() {
    let frozen = ScriptedNode::start(|_| Act::Silence).await;
    let other = ScriptedNode::start(well(|_| FOUND)).await;
    let cluster = Cluster::start(&[frozen.address, other.address]).await;
    let began = Instant::now();
    assert_eq!(status(&cluster.get().await), 200);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(other.seen().iter().all(|request| request.has("x-shardcache-detached: 1")));
    let asked = frozen.seen().len();
    let in_doubt = Instant::now() + Duration::from_secs(10);
    while !exchange(cluster.gateway, READYZ).await.contains("n1") {
        assert!(Instant::now() < in_doubt, "the node is never in doubt");
    }
    assert_eq!(status(&cluster.get().await), 200);
    assert_eq!(frozen.seen().len(), asked, "a node in doubt is not waited for again");
}

#[tokio::test]
async fn a_detached_read_does_not_spend_all_its_time_on_a_second_frozen_node() {
    let frozen = [ScriptedNode::start(|_| Act::Silence).await, ScriptedNode::start(|_| Act::Silence).await];
    let well = ScriptedNode::start(well(|_| FOUND)).await;
    let cluster = Cluster::start(&[frozen[0].address, frozen[1].address, well.address]).await;
    // Which of the two others is asked first is chance: some of these meet the frozen one.
    for _ in 0..6 {
        let answer = cluster.get().await;
        assert_eq!(status(&answer), 200, "{answer}");
    }
}

#[tokio::test]
async fn an_answer_cut_or_frozen_half_way_never_looks_complete() {
    const HALF: &str = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf";
    for act in [|| Act::RawThenClose(HALF), || Act::Raw(HALF)] {
        let n1 = ScriptedNode::start(well(move |_| act())).await;
        let cluster = Cluster::start(&[n1.address]).await;
        let answer = cluster.get().await;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        assert!(answer.to_lowercase().contains("content-length: 10") && body.len() < 10, "{answer}");
    }
}

#[tokio::test]
async fn nothing_of_a_client_that_is_not_on_the_list_reaches_a_node() {
    let n1 = ScriptedNode::start(well(|_| {
        let head = "HTTP/1.1 200 OK\r\nx-private: 1\r\nconnection: keep-alive\r\nkeep-alive: timeout=5\r\netag: \"7\"";
        Act::Answer(head, "v")
    }))
    .await;
    let cluster = Cluster::start(&[n1.address]).await;
    let lies = "x-ring-epoch: 999\r\nx-shardcache-detached: 1\r\nauthorization: Bearer x\r\nx-cache-node: n9\r\n\
                cache-status: hit\r\ncookie: a=b\r\nte: trailers\r\nupgrade: h2c\r\nif-none-match: \"1\"\r\n\
                traceparent: 00-1-2-3\r\nx-request-id: mine\r\n";
    let answer = cluster.ask("GET", lies).await.to_lowercase();
    assert!(answer.starts_with("http/1.1 200") && answer.contains("x-request-id: mine"), "{answer}");
    assert!(!answer.contains("x-private") && !answer.contains("keep-alive"), "{answer}");
    let seen = n1.seen().remove(0);
    for line in
        ["if-none-match: \"1\"", "traceparent: 00-1-2-3", "x-request-id: mine", "x-ring-epoch: 1", "x-user-id: u"]
    {
        assert!(seen.has(line), "{line} is missing in {}", seen.head);
    }
    for name in ["999", "detached", "authorization", "x-cache-node", "cache-status", "cookie", "te:", "upgrade"] {
        assert!(!seen.head.contains(name), "{name} came through in {}", seen.head);
    }
}

#[tokio::test]
async fn a_head_keeps_the_length_and_the_next_request_its_own_answer() {
    let n1 = ScriptedNode::start(well(|seen| {
        if seen.head.starts_with("HEAD") { Act::Raw("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n") } else { FOUND }
    }))
    .await;
    let cluster = Cluster::start(&[n1.address]).await;
    let head = "HEAD /v1/entries/k HTTP/1.1\r\nhost: x\r\nx-user-id: u\r\n\r\n";
    let get = "GET /v1/entries/k HTTP/1.1\r\nhost: x\r\nx-user-id: u\r\nconnection: close\r\n\r\n";
    let both = exchange(cluster.gateway, &format!("{head}{get}")).await.to_lowercase();
    assert_eq!(both.matches("content-length: 5").count(), 2, "{both}");
    assert!(both.matches("http/1.1 200").count() == 2 && both.ends_with("\r\n\r\nvalue"), "{both}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_over_the_cap_of_a_slow_node_are_refused_while_the_others_wait() {
    const CAP: usize = 256;
    let go_on = Arc::new(AtomicBool::new(false));
    let open = Arc::clone(&go_on);
    let n1 = ScriptedNode::start(well(move |_| if open.load(Ordering::Acquire) { FOUND } else { Act::Silence })).await;
    let cluster = Arc::new(Cluster::start(&[n1.address]).await);
    // Writes, for they wait for their node longer than a place in the queue is kept.
    let mut asked = JoinSet::new();
    let ask = |asked: &mut JoinSet<String>| {
        let cluster = Arc::clone(&cluster);
        asked.spawn(async move { cluster.put().await });
    };
    let full = Instant::now() + Duration::from_secs(4);
    for already in 0..CAP {
        ask(&mut asked);
        // One connection after the other: all at once, some would take longer to be made than they may.
        while n1.seen().len() <= already {
            assert!(Instant::now() < full, "only {already} of {CAP} requests reached the node");
            tokio::task::yield_now().await;
        }
    }
    for _ in 0..8 {
        ask(&mut asked);
    }
    for _ in 0..8 {
        let refused = asked.join_next().await.expect("asked").expect("no panic");
        assert!(status(&refused) == 503 && refused.contains("overloaded"), "{refused}");
    }
    assert_eq!(n1.seen().len(), CAP);
    asked.abort_all();
    go_on.store(true, Ordering::Release);
    let free = Instant::now() + Duration::from_secs(10);
    while status(&cluster.get().await) != 200 {
        assert!(Instant::now() < free, "clients that went away keep their connections");
    }
}

#[tokio::test]
async fn without_its_database_the_gateway_goes_on_by_the_copy_it_holds() {
    let n1 = ScriptedNode::start(well(|_| FOUND)).await;
    let cluster = Cluster::start(&[n1.address]).await;
    cluster.origin.close().await;
    let noticed = Instant::now() + Duration::from_secs(20);
    while !exchange(cluster.gateway, READYZ).await.contains("degraded") {
        assert!(Instant::now() < noticed, "the missing database is never noticed");
    }
    assert_eq!(status(&exchange(cluster.gateway, READYZ).await), 200);
    assert_eq!(status(&cluster.get().await), 200);
}
