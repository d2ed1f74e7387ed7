//! A read by line has the answer of the same read by HTTP, whatever is asked, and is counted like it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use cache_node::{Config, start};
use http::{HeaderMap, HeaderName, HeaderValue};
use origin::{DatabaseUrl, OpenOptions, Origin};
use placement::{Epoch, Member, NodeId, Pool, Ring, Slot, UserId, Weight};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::line::frame::{FROM_NODE_MAX, first};
use wire::line::{ANSWER_HEADERS, FromNode, Read, UPGRADE, VALUE_MAX, name_hash, write_read};

/// Whose slot is the node's, and whose is another node's.
const OURS: &str = "ada";
const ANOTHERS: &str = "bob";

struct Running {
    node: SocketAddr,
    running: service::RunningServer,
    stop: DropGuard,
    _directory: tempfile::TempDir,
}

/// A node `n1` beside another member, which owns the slot of [`ANOTHERS`].
async fn running() -> Running {
    let directory = tempfile::tempdir().expect("directory");
    let url = DatabaseUrl::Sqlite(directory.path().join("db"));
    let origin = Origin::open(&url, OpenOptions::default()).expect("open");
    origin.migrate().await.expect("migrate");
    let id = |name: &str| name.parse::<NodeId>().expect("id");
    origin
        .claim_node(&id("n2"), "127.0.0.1:1", Weight::default(), &Pool::default(), Duration::from_secs(60))
        .await
        .expect("claim");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address").to_string();
    origin
        .claim_node(&id("n1"), &address, Weight::default(), &Pool::default(), Duration::from_millis(1))
        .await
        .expect("claim");
    let anothers = Slot::of_user(&UserId::parse(ANOTHERS.as_bytes()).expect("user"));
    let members = ["n1", "n2"].map(|name| Member { id: id(name), weight: Weight::default() });
    let owner = |slot| if slot == anothers { id("n2") } else { id("n1") };
    origin.init_ring(&Ring::new(Epoch(1), members.into(), owner).expect("ring")).await.expect("init");
    let config = Config { audit_every: 0, ..Config::with_defaults(id("n1"), address) };
    let stop = CancellationToken::new();
    let running = start(config, origin, listener, stop.clone()).await.expect("start");
    let this = Running { node: running.address(), running, stop: stop.drop_guard(), _directory: directory };
    let ready = Instant::now() + Duration::from_secs(20);
    while !this.http("GET", "/readyz", "").await.contains("\"ready\"") {
        assert!(Instant::now() < ready, "the node is never ready");
    }
    this
}

impl Running {
    async fn http(&self, method: &str, path: &str, rest: &str) -> String {
        let rest = if rest.contains("\r\n\r\n") { rest.to_owned() } else { format!("{rest}\r\n") };
        let mut stream = TcpStream::connect(self.node).await.expect("connect");
        let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{rest}");
        stream.write_all(request.as_bytes()).await.expect("send");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("read");
        String::from_utf8(answer).expect("values here are ASCII")
    }

    async fn put(&self, key: &str, headers: &str, value: &str) {
        let rest = format!("x-user-id: {OURS}\r\n{headers}content-length: {}\r\n\r\n{value}", value.len());
        let answer = self.http("PUT", &format!("/v1/entries/{key}"), &rest).await;
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }

    async fn line(&self) -> Line {
        let mut stream = TcpStream::connect(self.node).await.expect("connect");
        let request =
            format!("GET /internal/line HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: {UPGRADE}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("send");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a head"));
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        Line { stream, inbox: BytesMut::new(), asked: 0 }
    }

    async fn counted(&self, labels: &str) -> u64 {
        let text = self.http("GET", "/metrics", "").await;
        let series = format!("shardcache_node_requests_total{{{labels}}} ");
        text.lines().find_map(|line| line.strip_prefix(&series)).map_or(0, |count| count.parse().expect("a number"))
    }
}

/// What a client can tell of an answer: status, headers that go on, value.
type Answer = (u16, Vec<(String, String)>, String);

/// A read, and whether it is detached.
#[derive(Clone, Debug)]
struct Asked {
    user: &'static str,
    key: &'static str,
    head_only: bool,
    detached: bool,
    headers: HeaderMap,
}

struct Line {
    stream: TcpStream,
    inbox: BytesMut,
    asked: u64,
}

impl Line {
    async fn hear(&mut self) -> BytesMut {
        loop {
            if let Some(length) = first(&self.inbox, FROM_NODE_MAX).expect("frames") {
                return self.inbox.split_to(length);
            }
            assert!(self.stream.read_buf(&mut self.inbox).await.expect("read") > 0, "the node has closed the line");
        }
    }

    /// `None`: the node says "elsewhere".
    async fn ask(&mut self, asked: &Asked) -> Option<Answer> {
        self.asked += 1;
        let Asked { user, key, head_only, detached, ref headers } = *asked;
        let mut out = BytesMut::new();
        let read = Read { id: self.asked, head_only, detached, user, key, request_id: b"r" };
        write_read(&mut out, &read, headers.iter()).expect("fits");
        self.stream.write_all(&out).await.expect("send");
        let frame = self.hear().await;
        let ours = (self.asked, name_hash(user, key));
        match FromNode::read(&frame).expect("a frame") {
            FromNode::Answer { id, name, answer } => {
                assert_eq!((id, name), ours);
                let answer = answer.read(head_only).expect("an answer");
                let headers = answer
                    .headers()
                    .iter()
                    .map(|(name, value)| (name.as_str().to_owned(), value.to_str().expect("ASCII").to_owned()));
                Some(answer_of(answer.status().as_u16(), headers.collect(), answer.body()))
            }
            FromNode::Elsewhere { id, name } => {
                assert_eq!((id, name), ours);
                None
            }
            other => panic!("not asked for: {other:?}"),
        }
    }
}

fn answer_of(status: u16, mut headers: Vec<(String, String)>, body: &[u8]) -> Answer {
    let known = |name: &str| name == "content-length" || ANSWER_HEADERS.iter().any(|other| other == name);
    headers.retain(|(name, _)| known(name));
    let body = String::from_utf8(body.to_vec()).expect("values here are ASCII");
    // A length that follows from the value.
    if !body.is_empty() || status == 200 {
        headers.retain(|(name, value)| name != "content-length" || value.parse() != Ok(body.len()));
    }
    headers.sort();
    (status, headers, body)
}

/// The same read by HTTP.
async fn by_http(running: &Running, asked: &Asked) -> Answer {
    let mut rest = format!("x-user-id: {}\r\n", asked.user);
    if asked.detached {
        rest += "x-shardcache-detached: 1\r\n";
    }
    for (name, value) in &asked.headers {
        rest += &format!("{name}: {}\r\n", value.to_str().expect("ASCII"));
    }
    let method = if asked.head_only { "HEAD" } else { "GET" };
    let answer = running.http(method, &format!("/v1/entries/{}", asked.key), &rest).await;
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole answer");
    let mut lines = head.lines();
    let status =
        lines.next().and_then(|line| line.get(9..12)).and_then(|digits| digits.parse().ok()).expect("a status");
    let headers =
        lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_owned(), value.to_owned()));
    answer_of(status, headers.collect(), body.as_bytes())
}

fn all_cases() -> Vec<Asked> {
    let no_headers: &[(&str, &str)] = &[];
    let conditions = [
        no_headers,
        &[("if-none-match", "*")],
        &[("if-none-match", "\"1\", W/\"2\""), ("if-none-match", "\"3\", \"4\", \"5\"")],
        &[("if-none-match", "\"999\"")],
        &[("if-match", "\"999\"")],
        &[("if-match", "*")],
        &[("if-match", "no tag")],
        &[("accept", "image/png"), ("traceparent", "00-1-2-3")],
    ];
    let mut cases = Vec::new();
    for headers in conditions {
        let lines = headers.iter().map(|(name, value)| {
            (name.parse::<HeaderName>().expect("a name"), HeaderValue::from_str(value).expect("a value"))
        });
        let mut headers = HeaderMap::new();
        lines.for_each(|(name, value)| {
            headers.append(name, value);
        });
        for key in ["small", "empty", "own", "absent", "largest", "larger"] {
            for (user, head_only, detached) in [
                (OURS, false, false),
                (OURS, true, false),
                (OURS, false, true),
                (OURS, true, true),
                (ANOTHERS, false, false),
                (ANOTHERS, true, false),
                (ANOTHERS, false, true),
            ] {
                cases.push(Asked { user, key, head_only, detached, headers: headers.clone() });
            }
        }
    }
    cases
}

async fn with_entries() -> Running {
    let running = running().await;
    running.put("small", "content-type: text/plain\r\n", "value").await;
    running.put("empty", "", "").await;
    running.put("own", "cache-control: max-age=5\r\n", "with a cache control of its own").await;
    running.put("largest", "", &"x".repeat(VALUE_MAX)).await;
    running.put("larger", "", &"x".repeat(VALUE_MAX + 1)).await;
    running
}

#[tokio::test]
async fn every_read_has_the_same_answer_by_line_and_by_http() {
    let running = with_entries().await;
    let mut line = running.line().await;
    let mut elsewhere = 0;
    for asked in all_cases() {
        // Twice, so that neither way finds more in L1 than the other.
        by_http(&running, &asked).await;
        let expected = by_http(&running, &asked).await;
        match line.ask(&asked).await {
            Some(answer) => assert_eq!(answer, expected, "{asked:?}"),
            None => {
                assert_eq!((asked.key, asked.head_only, expected.0), ("larger", false, 200), "{asked:?}");
                elsewhere += 1;
            }
        }
    }
    assert!(elsewhere > 0);
}

#[tokio::test]
async fn reads_by_line_are_counted_like_others_and_those_that_go_elsewhere_only_there() {
    let running = with_entries().await;
    let mut line = running.line().await;
    let mut asked = Asked { user: OURS, key: "small", head_only: false, detached: false, headers: HeaderMap::new() };
    for (key, head_only, user, labels, more) in [
        ("small", false, OURS, "route=\"get\",status=\"200\"", 1),
        ("small", true, OURS, "route=\"head\",status=\"200\"", 1),
        ("absent", false, OURS, "route=\"get\",status=\"404\"", 1),
        ("small", false, ANOTHERS, "route=\"get\",status=\"421\"", 1),
        ("larger", false, OURS, "route=\"get\",status=\"200\"", 0),
    ] {
        asked = Asked { key, head_only, user, ..asked };
        let before = running.counted(labels).await;
        line.ask(&asked).await;
        assert_eq!(running.counted(labels).await - before, more, "{labels}");
    }
}

#[tokio::test]
async fn another_version_of_the_line_is_refused_as_a_request() {
    let running = running().await;
    for headers in ["", "connection: upgrade\r\nupgrade: shardcache-line/0\r\n"] {
        let request = format!("GET /internal/line HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        let mut stream = TcpStream::connect(running.node).await.expect("connect");
        stream.write_all(request.as_bytes()).await.expect("send");
        let mut answer = BytesMut::new();
        stream.read_buf(&mut answer).await.expect("read");
        assert!(answer.starts_with(b"HTTP/1.1 400"), "{:?}", Bytes::copy_from_slice(answer.chunk()));
    }
}

#[tokio::test]
async fn a_node_that_stops_waits_for_its_lines_to_be_closed() {
    let running = with_entries().await;
    let mut line = running.line().await;
    let asked = Asked { user: OURS, key: "small", head_only: false, detached: false, headers: HeaderMap::new() };
    line.ask(&asked).await.expect("fits");
    drop(running.stop);
    assert_eq!(FromNode::read(&line.hear().await), Ok(FromNode::Goodbye));
    assert_eq!(line.ask(&asked).await.expect("fits").0, 200);
    drop(line);
    running.running.stopped().await.expect("a clean stop");
}
