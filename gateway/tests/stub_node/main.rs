//! What the gateway does when a node has more to do than it can: places, the queue, deadlines, and clients that go away.

mod node;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use gateway::{Concurrency, Config, ShedSettings, start};
use node::StubNode;
use origin::{DatabaseUrl, OpenOptions, Origin};
use placement::{Epoch, Member, NodeId, Pool, Ring, Weight};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long what must happen may take: generous, for a busy machine.
const SOON: Duration = Duration::from_secs(20);

struct Running {
    gateway: SocketAddr,
    node: StubNode,
    _running: service::RunningServer,
    _stop: DropGuard,
    _directory: tempfile::TempDir,
}

/// A gateway whose only node is a stub.
async fn running(concurrency: Concurrency) -> Running {
    let directory = tempfile::tempdir().expect("directory");
    let url = DatabaseUrl::Sqlite(directory.path().join("db"));
    let origin = Origin::open(&url, OpenOptions::default()).expect("open");
    origin.migrate().await.expect("migrate");
    let (node, id) = (StubNode::start().await, "n1".parse::<NodeId>().expect("id"));
    let lease = Duration::from_secs(3600);
    origin.claim_node(&id, &node.address.to_string(), Weight::default(), &Pool::default(), lease).await.expect("claim");
    let members = vec![Member { id: id.clone(), weight: Weight::default() }];
    origin.init_ring(&Ring::new(Epoch(1), members, |_| id.clone()).expect("ring")).await.expect("init");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let config = Config { shed: ShedSettings { concurrency }, ..Config::default() };
    let stop = CancellationToken::new();
    let running = start(config, origin, listener, stop.clone()).await.expect("start");
    let gateway = running.address();
    let this = Running { gateway, node, _running: running, _stop: stop.drop_guard(), _directory: directory };
    this.eventually("the gateway has the ring", async || {
        ask(gateway, "GET /readyz", "").await.starts_with("HTTP/1.1 200")
    })
    .await;
    this
}

impl Running {
    async fn eventually(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let end = Instant::now() + SOON;
        while !holds().await {
            assert!(Instant::now() < end, "never: {what}; the node was sent {:#?}", self.node.heads());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn has_been_sent(&self, requests: usize) {
        self.eventually("the node is sent its requests", async || self.node.heads().len() >= requests).await;
    }

    async fn metric(&self, name: &str) -> u64 {
        let text = ask(self.gateway, "GET /metrics", "").await;
        let values = text.lines().filter(|line| line.starts_with(name)).filter_map(|line| line.rsplit_once(' '));
        values.map(|(_, value)| value.parse::<u64>().expect("a number")).sum()
    }
}

/// The whole answer to a request of one user, as text.
async fn ask(gateway: SocketAddr, method_and_path: &str, more: &str) -> String {
    let mut stream = sent(gateway, method_and_path, more).await;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

/// The connection on which it was sent.
async fn sent(gateway: SocketAddr, method_and_path: &str, more: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gateway).await.expect("connect");
    let request = format!("{method_and_path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-user-id: ada\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).await.expect("send");
    stream
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

const GET: &str = "GET /v1/entries/k";
const PUT: &str = "PUT /v1/entries/k";

async fn surplus_is_refused(method_and_path: &'static str) {
    let running = running(Concurrency::Fixed(4)).await;
    let gateway = running.gateway;
    let mut requests = JoinSet::new();
    for _ in 0..50 {
        requests.spawn(ask(gateway, method_and_path, ""));
    }
    // All that can be answered without the node.
    for _ in 0..46 {
        let answer = requests.join_next().await.expect("one more").expect("no panic");
        assert_eq!(status(&answer), "503", "{answer}");
        assert!(answer.contains("\"code\":\"overloaded\"") && answer.contains("retry-after: 1\r\n"), "{answer}");
    }
    running.has_been_sent(4).await;
    running.node.answer(4);
    while let Some(answer) = requests.join_next().await {
        assert_eq!(status(&answer.expect("no panic")), "200");
    }
    assert_eq!(running.node.heads().len(), 4, "what was refused was never sent");
    assert_eq!(running.metric("shardcache_gateway_shed_total").await, 46);
    running.node.answer(1);
    assert_eq!(status(&ask(gateway, method_and_path, "").await), "200");
}

#[tokio::test]
async fn reads_beyond_the_places_of_a_node_are_refused_and_the_others_are_answered() {
    surplus_is_refused(GET).await;
}

#[tokio::test]
async fn writes_beyond_the_places_of_a_node_are_refused_unsent_and_the_others_are_waited_for() {
    surplus_is_refused(PUT).await;
}

#[tokio::test]
async fn reads_and_writes_do_not_take_each_others_places_and_off_is_no_bound() {
    let running = running(Concurrency::Fixed(1)).await;
    let read = sent(running.gateway, GET, "").await;
    running.has_been_sent(1).await;
    let write = sent(running.gateway, PUT, "").await;
    running.has_been_sent(2).await;
    drop((read, write));
    let unbounded = self::running(Concurrency::Off).await;
    let mut all = Vec::new();
    for _ in 0..100 {
        all.push(sent(unbounded.gateway, GET, "").await);
    }
    unbounded.has_been_sent(100).await;
}

#[tokio::test]
async fn clients_that_go_away_leave_their_places() {
    let running = running(Concurrency::Fixed(2)).await;
    for _ in 0..5 {
        // As soon as the gateway has noticed that the last two have gone.
        let mut held = Vec::new();
        while held.len() < 2 {
            let before = running.node.heads().len();
            let mut request = sent(running.gateway, GET, "").await;
            let mut first = [0; 12];
            tokio::select! {
                read = request.read_exact(&mut first) => {
                    read.expect("an answer");
                    assert_eq!(&first, b"HTTP/1.1 503");
                }
                () = running.has_been_sent(before + 1) => held.push(request),
            }
        }
        assert_eq!(status(&ask(running.gateway, GET, "").await), "503");
    }
}

#[tokio::test]
async fn a_node_is_told_how_long_its_answer_is_of_use_and_only_if_the_client_says_so() {
    let running = running(Concurrency::Off).await;
    running.node.answer(3);
    assert_eq!(status(&ask(running.gateway, GET, "x-request-timeout-ms: 60000\r\n").await), "200");
    assert_eq!(status(&ask(running.gateway, PUT, "X-Request-Timeout-Ms: 50000\r\n").await), "200");
    assert_eq!(status(&ask(running.gateway, GET, "").await), "200");
    let told = |head: &String| {
        let line = head.lines().find_map(|line| line.strip_prefix("x-request-timeout-ms: "));
        line.map(|text| text.parse::<u64>().expect("a number"))
    };
    let told: Vec<_> = running.node.heads().iter().map(told).collect();
    assert!(told[0].is_some_and(|ms| (30_000..=59_980).contains(&ms)), "{told:?}");
    assert!(told[1].is_some_and(|ms| (20_000..=49_980).contains(&ms)), "{told:?}");
    assert_eq!(told[2], None);
}

#[tokio::test]
async fn who_waits_no_longer_is_answered_though_the_node_is_not_and_a_write_is_not_called_undone() {
    let running = running(Concurrency::Off).await;
    let read = ask(running.gateway, GET, "x-request-timeout-ms: 1000\r\n").await;
    assert_eq!(status(&read), "503");
    assert!(read.contains("\"owner_unavailable\"") && read.contains("retry-after: "), "{read}");
    let write = ask(running.gateway, PUT, "x-request-timeout-ms: 1000\r\n").await;
    assert_eq!(status(&write), "504");
    assert!(write.contains("\"write_outcome_unknown\""), "{write}");
    assert_eq!(running.node.heads().len(), 2, "nothing is sent twice");
    // A client in a hurry throws no doubt on the node.
    assert!(ask(running.gateway, "GET /readyz", "").await.contains("\"ready\""));
    for bad in ["0", "60001", "soon", "-1", "5\r\nx-request-timeout-ms: 5"] {
        let answer = ask(running.gateway, GET, &format!("x-request-timeout-ms: {bad}\r\n")).await;
        assert!(status(&answer) == "400" && answer.contains("\"request_invalid\""), "{bad}: {answer}");
    }
    assert_eq!(running.node.heads().len(), 2);
}
