//! A line at a node, each interleaving made by hand. That its answers are those of HTTP: `tests/line`.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, header};
use placement::Epoch;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wire::headers::{DEFAULT_CONTENT_TYPE, X_REQUEST_TIMEOUT_MS, X_RING_EPOCH};
use wire::line::frame::{FROM_NODE_MAX, first};
use wire::line::{FromNode, OUTSTANDING_MAX, Read, ToNode, name_hash, write_read};

use super::serve::{Ended, serve};
use crate::http::hit::{self, PlainQuestion};
use crate::interleavings::{fixture, name, put};
use crate::limits;
use crate::metrics::{Tier, TierLabels};
use crate::node::Node;
use crate::read_path::begin_load_for_test;
use crate::write_path::WriteRequest;

/// The gateway's end of a line.
struct Gateway {
    connection: DuplexStream,
    inbox: BytesMut,
    stop: CancellationToken,
    served: JoinHandle<Result<(), Ended>>,
}

/// What came of a question.
#[derive(Debug)]
enum Said {
    Answer(u64, u64, Response<Bytes>),
    Beat,
    Goodbye,
}

impl Gateway {
    /// A line with so many bytes on their way at most.
    fn open(node: &Arc<Node>, room: usize) -> Self {
        let (connection, theirs) = tokio::io::duplex(room);
        let (node, stop) = (Arc::clone(node), CancellationToken::new());
        let stopped = stop.clone();
        let served = tokio::spawn(async move { serve(node, theirs, &stopped).await });
        Self { connection, inbox: BytesMut::new(), stop, served }
    }

    async fn ask(&mut self, id: u64, key: &str) {
        self.connection.write_all(&question(id, key)).await.expect("the line is open");
    }

    /// The next of what the node says; `None`: it has closed the line.
    async fn hear(&mut self) -> Option<Said> {
        let frame = self.frame().await?;
        Some(match FromNode::read(&frame).expect("a frame") {
            FromNode::Answer { id, name, answer } => Said::Answer(id, name, answer.read(false).expect("a GET's")),
            FromNode::Beat => Said::Beat,
            FromNode::Goodbye => Said::Goodbye,
            FromNode::Elsewhere { .. } => panic!("nothing here is too large"),
        })
    }

    async fn frame(&mut self) -> Option<BytesMut> {
        loop {
            if let Some(length) = first(&self.inbox, FROM_NODE_MAX).expect("frames") {
                return Some(self.inbox.split_to(length));
            }
            if self.connection.read_buf(&mut self.inbox).await.expect("no errors in memory") == 0 {
                return None;
            }
        }
    }

    /// The next answer: which question's, its status and value.
    async fn answer(&mut self) -> (u64, u16, Bytes) {
        match self.hear().await {
            Some(Said::Answer(id, _, answer)) => (id, answer.status().as_u16(), answer.into_body()),
            other => panic!("no answer: {other:?}"),
        }
    }

    async fn ended(self) -> Result<(), Ended> {
        self.served.await.expect("no panic")
    }
}

/// A question of the user of these tests.
fn question(id: u64, key: &str) -> BytesMut {
    question_with(id, key, false, &HeaderMap::new())
}

fn question_with(id: u64, key: &str, head_only: bool, headers: &HeaderMap) -> BytesMut {
    let mut out = BytesMut::new();
    let read = Read { id, head_only, detached: false, user: "user-1", key, request_id: b"r" };
    write_read(&mut out, &read, headers.iter()).expect("fits");
    out
}

const ROOM: usize = 1 << 20;

async fn until(what: &str, so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !so() {
        assert!(Instant::now() < end, "never: {what}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_miss_holds_up_no_hit() {
    let fixture = fixture().await;
    fixture.node.write(put("hit", "v1")).await.expect("write");
    let load = begin_load_for_test(&fixture.node, &name("miss"));
    let mut gateway = Gateway::open(&fixture.node, ROOM);
    gateway.ask(1, "miss").await;
    for id in 2..100 {
        gateway.ask(id, "hit").await;
        assert_eq!(gateway.answer().await, (id, 200, Bytes::from_static(b"v1")));
    }
    load.finish_for_test(None);
    let (id, status, _) = gateway.answer().await;
    assert_eq!((id, status), (1, 404));
}

/// A condition that holds: makes a question go the long way, and changes nothing else.
fn long_way() -> HeaderMap {
    HeaderMap::from_iter([(header::IF_MATCH, HeaderValue::from_static("*"))])
}

#[tokio::test]
async fn both_ways_to_an_entry_in_l1_give_the_same_answer() {
    let fixture = fixture().await;
    let node = &fixture.node;
    let mut gateway = Gateway::open(node, ROOM);
    let texts = [("text/plain", None), (DEFAULT_CONTENT_TYPE, Some("no-store")), ("", Some("")), ("text/html", None)];
    for (epoch, (content_type, cache_control)) in (7..).zip(texts) {
        let kind = origin::WriteKind::Put {
            value: Bytes::from_static(b"value"),
            content_type: content_type.to_owned(),
            cache_control: cache_control.map(str::to_owned),
        };
        node.write(WriteRequest { kind, ..put("k", "value") }).await.expect("write");
        node.status.set_epoch(Epoch(epoch));
        for head_only in [false, true] {
            let (name, about) = (name("k"), name_hash("user-1", "k"));
            let asked = PlainQuestion { id: 1, name: name.asked(), about, head_only };
            let mut short = BytesMut::new();
            hit::answer_on_line(node, &asked, &mut short).expect("L1 has it");
            let before = node.metrics.reads.get(&TierLabels { tier: Tier::l1 });
            for headers in [HeaderMap::new(), long_way()] {
                let question = question_with(1, "k", head_only, &headers);
                gateway.connection.write_all(&question).await.expect("the line is open");
                assert_eq!(gateway.frame().await, Some(short.clone()), "{headers:?}");
            }
            assert_eq!(node.metrics.reads.get(&TierLabels { tier: Tier::l1 }) - before, 2);
            let Ok(FromNode::Answer { answer, .. }) = FromNode::read(&short) else { panic!("no answer: {short:?}") };
            let answer = answer.read(head_only).expect("an answer");
            assert_eq!(answer.headers()[header::CONTENT_TYPE], content_type);
            assert_eq!(answer.headers()[X_RING_EPOCH], epoch.to_string().as_str());
        }
    }
}

#[tokio::test]
async fn what_l1_does_not_hold_as_it_is_sent_has_no_answer_at_once() {
    let fixture = fixture().await;
    let value = Bytes::from(vec![b'x'; limits::HIT_COPIED_MAX]);
    let kind = origin::WriteKind::Put { value, content_type: "text/plain".to_owned(), cache_control: None };
    fixture.node.write(WriteRequest { kind, ..put("large", "") }).await.expect("write");
    let mut gateway = Gateway::open(&fixture.node, ROOM);
    for (key, status) in [("large", 200), ("absent", 404), ("absent", 404)] {
        let (name, mut out) = (name(key), BytesMut::new());
        let asked = PlainQuestion { id: 1, name: name.asked(), about: 2, head_only: false };
        assert!(hit::answer_on_line(&fixture.node, &asked, &mut out).is_none() && out.is_empty());
        gateway.ask(1, key).await;
        assert_eq!(gateway.answer().await.1, status);
    }
}

#[tokio::test]
async fn a_beat_is_answered_while_a_read_waits() {
    let fixture = fixture().await;
    let load = begin_load_for_test(&fixture.node, &name("miss"));
    let mut gateway = Gateway::open(&fixture.node, ROOM);
    let mut asked = question(1, "miss");
    ToNode::write_beat(&mut asked);
    gateway.connection.write_all(&asked).await.expect("the line is open");
    assert!(matches!(gateway.hear().await, Some(Said::Beat)));
    load.finish_for_test(None);
    assert_eq!(gateway.answer().await.0, 1);
}

#[tokio::test]
async fn an_answer_names_the_entry_that_was_read() {
    let fixture = fixture().await;
    fixture.node.write(put("hit", "v1")).await.expect("write");
    let mut gateway = Gateway::open(&fixture.node, ROOM);
    for key in ["hit", "absent"] {
        gateway.ask(7, key).await;
        let Some(Said::Answer(7, about, _)) = gateway.hear().await else { panic!("no answer") };
        assert_eq!(about, name_hash("user-1", key));
    }
}

#[tokio::test]
async fn questions_come_in_pieces_and_many_at_a_time() {
    let fixture = fixture().await;
    fixture.node.write(put("hit", "v1")).await.expect("write");
    let mut gateway = Gateway::open(&fixture.node, ROOM);
    let all: Vec<u8> = (0..500).flat_map(|id| question(id, "hit").to_vec()).collect();
    for piece in all.chunks(1777) {
        gateway.connection.write_all(piece).await.expect("the line is open");
        tokio::task::yield_now().await;
    }
    for id in 0..500 {
        assert_eq!(gateway.answer().await, (id, 200, Bytes::from_static(b"v1")));
    }
}

#[tokio::test]
async fn more_than_may_be_in_progress_is_refused_as_such() {
    let fixture = fixture().await;
    fixture.node.write(put("hit", "v1")).await.expect("write");
    let all = u32::try_from(limits::REQUESTS_IN_PROGRESS_MAX).expect("a small number");
    let permits = fixture.node.in_progress.try_acquire_many(all).expect("nothing is in progress");
    let mut gateway = Gateway::open(&fixture.node, ROOM);
    for key in ["hit", "miss"] {
        gateway.ask(1, key).await;
        let (_, status, problem) = gateway.answer().await;
        assert_eq!(status, 503);
        assert!(problem.windows(10).any(|window| window == b"overloaded"), "{problem:?}");
    }
    drop(permits);
    gateway.ask(2, "hit").await;
    assert_eq!(gateway.answer().await.1, 200);
}

#[tokio::test]
async fn questions_over_the_bound_wait_and_are_answered() {
    let fixture = fixture().await;
    let load = begin_load_for_test(&fixture.node, &name("miss"));
    let mut gateway = Gateway::open(&fixture.node, ROOM);
    let asked = OUTSTANDING_MAX as u64 + 100;
    for id in 0..asked {
        gateway.ask(id, "miss").await;
    }
    load.finish_for_test(None);
    let mut answered = Vec::new();
    for _ in 0..asked {
        let (id, status, _) = gateway.answer().await;
        assert_eq!(status, 404);
        answered.push(id);
    }
    answered.sort_unstable();
    assert!(answered.into_iter().eq(0..asked), "each once");
}

#[tokio::test]
async fn bytes_that_are_no_question_end_the_line() {
    let fixture = fixture().await;
    let no_key = question(1, "a\nb");
    for garbage in [&[0xff; 64][..], &[0, 0, 0, 1, 99], &[0, 0, 0, 0], b"GET / HTTP/1.1\r\n\r\n", &no_key] {
        let mut gateway = Gateway::open(&fixture.node, ROOM);
        gateway.connection.write_all(garbage).await.expect("the line is open");
        assert!(gateway.hear().await.is_none(), "{garbage:?}");
        assert!(matches!(gateway.ended().await, Err(Ended::Frame(_) | Ended::Name)), "{garbage:?}");
    }
}

#[tokio::test]
async fn a_gateway_that_closes_its_line_leaves_nothing_behind() {
    let fixture = fixture().await;
    let load = begin_load_for_test(&fixture.node, &name("miss"));
    let mut gateway = Gateway::open(&fixture.node, ROOM);
    gateway.ask(1, "miss").await;
    until("a read waits", || fixture.node.in_progress.available_permits() < limits::REQUESTS_IN_PROGRESS_MAX).await;
    gateway.connection.shutdown().await.expect("open");
    gateway.ended().await.expect("a good end");
    until("it is dropped", || fixture.node.in_progress.available_permits() == limits::REQUESTS_IN_PROGRESS_MAX).await;
    load.finish_for_test(None);
}

#[tokio::test]
async fn a_question_whose_answer_is_of_no_use_any_more_is_answered_503_and_holds_nothing() {
    let fixture = fixture().await;
    let load = begin_load_for_test(&fixture.node, &name("miss"));
    let mut gateway = Gateway::open(&fixture.node, ROOM);
    let headers = HeaderMap::from_iter([(X_REQUEST_TIMEOUT_MS, HeaderValue::from_static("30"))]);
    gateway.connection.write_all(&question_with(1, "miss", false, &headers)).await.expect("the line is open");
    assert_eq!(gateway.answer().await.1, 503);
    until("it is dropped", || fixture.node.in_progress.available_permits() == limits::REQUESTS_IN_PROGRESS_MAX).await;
    load.finish_for_test(None);
}

#[tokio::test]
async fn a_node_that_stops_says_goodbye_and_answers_until_the_gateway_closes() {
    let fixture = fixture().await;
    fixture.node.write(put("hit", "v1")).await.expect("write");
    let load = begin_load_for_test(&fixture.node, &name("miss"));
    let mut gateway = Gateway::open(&fixture.node, ROOM);
    gateway.ask(1, "miss").await;
    gateway.stop.cancel();
    assert!(matches!(gateway.hear().await, Some(Said::Goodbye)));
    gateway.ask(2, "hit").await;
    assert_eq!(gateway.answer().await.0, 2);
    load.finish_for_test(None);
    assert_eq!(gateway.answer().await.0, 1);
    gateway.connection.shutdown().await.expect("open");
    gateway.ended().await.expect("a good end");
}

#[tokio::test]
async fn a_gateway_that_never_reads_or_never_sends_is_given_up() {
    let fixture = fixture().await;
    fixture.node.write(put("hit", "v1")).await.expect("write");
    tokio::time::pause();
    for asked in [0, 100] {
        let mut gateway = Gateway::open(&fixture.node, 4096);
        for id in 0..asked {
            let _ = tokio::time::timeout(Duration::from_millis(1), gateway.ask(id, "hit")).await;
        }
        let Gateway { served, connection, .. } = gateway;
        let ended = tokio::time::timeout(3 * limits::LINE_SILENCE, served).await.expect("given up in time");
        assert!(matches!(ended.expect("no panic"), Err(Ended::Silent)), "{asked}");
        drop(connection);
    }
}
