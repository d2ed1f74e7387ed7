//! Reads by a line, each interleaving made by hand. All that a broken line may cost is time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use wire::line::{FromNode, name_hash, write_elsewhere};

use crate::scripted_line::{Asked, LineAct, silence};
use crate::scripted_node::{Act, Lines, ScriptedNode, Seen};
use crate::{CREATED, Cluster, FOUND, MISDIRECTED, status, well};

/// A node whose pool answers `FOUND` and whose lines follow the script; beats are answered.
async fn node(script: impl Fn(&Asked) -> LineAct + Send + Sync + 'static) -> ScriptedNode {
    node_with_pool(well(|_| FOUND), script).await
}

async fn node_with_pool(
    pool: impl Fn(&Seen) -> Act + Send + Sync + 'static,
    script: impl Fn(&Asked) -> LineAct + Send + Sync + 'static,
) -> ScriptedNode {
    let script = move |asked: &Asked| if asked.is_beat { Asked::beat() } else { script(asked) };
    ScriptedNode::with_lines(pool, Lines::Opened(Box::new(script))).await
}

fn found(asked: &Asked) -> LineAct {
    LineAct::Bytes(asked.answer(200, "by line"))
}

fn frame(write: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::new();
    write(&mut out);
    out
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

impl Cluster {
    /// Reads until an answer is as wanted; every answer on the way is a 200.
    async fn read_until(&self, what: &str, done: impl Fn(&str) -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let answer = self.get().await;
            assert_eq!(status(&answer), 200, "{answer}");
            if done(&answer) {
                return;
            }
            assert!(Instant::now() < end, "never: {what}");
        }
    }

    async fn line_is_open(&self) {
        self.read_until("an answer by line", |answer| body(answer) == "by line").await;
    }
}

#[tokio::test]
async fn reads_go_by_the_line_once_it_is_open_and_writes_by_the_pool() {
    let n1 = node_with_pool(well(|seen| if seen.head.starts_with("PUT") { CREATED } else { FOUND }), found).await;
    let cluster = Cluster::start(&[n1.address]).await;
    cluster.line_is_open().await;
    let by_pool = n1.seen().len();
    for _ in 0..5 {
        assert_eq!(body(&cluster.get().await), "by line");
    }
    assert_eq!(n1.seen().len(), by_pool);
    assert_eq!(status(&cluster.put().await), 201);
    assert_eq!((n1.seen().len(), n1.lines()), (by_pool + 1, 1));
}

#[tokio::test]
async fn an_answer_by_line_has_what_the_node_said_and_a_head_no_value() {
    let n1 = node(found).await;
    let cluster = Cluster::start(&[n1.address]).await;
    cluster.line_is_open().await;
    let get = cluster.get().await.to_lowercase();
    assert!(
        get.contains("etag: \"7\"") && get.contains("content-length: 7") && get.contains("x-request-id: "),
        "{get}"
    );
    let head = cluster.ask("HEAD", "").await.to_lowercase();
    assert!(head.contains("etag: \"7\"") && head.contains("content-length: 7") && body(&head).is_empty(), "{head}");
}

#[tokio::test]
async fn a_question_carries_what_the_pool_would_and_nothing_else_of_the_client() {
    let seen = Arc::new(Mutex::new(String::new()));
    let headers = Arc::clone(&seen);
    let n1 = node(move |asked| {
        headers.lock().expect("not poisoned").clone_from(&asked.headers);
        found(asked)
    })
    .await;
    let cluster = Cluster::start(&[n1.address]).await;
    cluster.line_is_open().await;
    let sent = "if-none-match: \"1\"\r\nif-none-match: \"2\"\r\nif-match: *\r\naccept: a/b\r\ntraceparent: 00-1-2-3\r\n\
                tracestate: t\r\nx-request-id: mine\r\ncookie: a=b\r\nx-ring-epoch: 9\r\nauthorization: Bearer x\r\n";
    assert_eq!(body(&cluster.ask("GET", sent).await), "by line");
    let seen = seen.lock().expect("not poisoned").clone();
    let mut lines: Vec<_> = seen.lines().collect();
    lines.sort_unstable();
    let expected = ["accept: a/b", "if-match: *", "if-none-match: \"1\"", "if-none-match: \"2\"", "mine"];
    assert_eq!(lines[..5], expected);
    assert_eq!(lines[5..], ["traceparent: 00-1-2-3", "tracestate: t"]);
}

#[tokio::test]
async fn headers_too_large_for_a_line_go_by_the_pool() {
    let n1 = node(found).await;
    let cluster = Cluster::start(&[n1.address]).await;
    cluster.line_is_open().await;
    let long = format!("if-none-match: \"{}\"\r\n", "x".repeat(8 << 10));
    assert_eq!(body(&cluster.ask("GET", &long).await), "value");
    assert_eq!(body(&cluster.get().await), "by line");
}

#[tokio::test]
async fn a_node_that_refuses_lines_is_served_by_the_pool_and_not_asked_each_time() {
    for refusal in ["404 Not Found", "426 Upgrade Required", "500 Internal Server Error"] {
        let n1 = ScriptedNode::with_lines(well(|_| FOUND), Lines::Refused(refusal)).await;
        let cluster = Cluster::start(&[n1.address]).await;
        let asked = Instant::now() + Duration::from_secs(10);
        while n1.lines() == 0 {
            assert!(Instant::now() < asked, "no line is asked for");
            assert_eq!(body(&cluster.get().await), "value");
        }
        for _ in 0..20 {
            assert_eq!(body(&cluster.get().await), "value");
        }
        assert_eq!(n1.lines(), 1, "{refusal}");
    }
}

#[tokio::test]
async fn a_line_refused_for_its_token_costs_no_read_that_another_node_can_answer() {
    const REFUSED: Act = Act::Answer("HTTP/1.1 401 Unauthorized", "");
    let n1 = ScriptedNode::with_lines(well(|_| REFUSED), Lines::Refused("401 Unauthorized")).await;
    let n2 = ScriptedNode::start(well(|_| FOUND)).await;
    let cluster = Cluster::start(&[n1.address, n2.address]).await;
    cluster.read_until("a line is asked for", |_| n1.lines() > 0).await;
    assert_eq!(body(&cluster.get().await), "value");
}

#[tokio::test]
async fn a_line_cut_in_the_middle_of_an_answer_costs_no_read() {
    let n1 = node(|asked| {
        let mut answer = asked.answer(200, "by line");
        if asked.number == 2 {
            answer.truncate(answer.len() / 2);
            return LineAct::BytesThenClose(answer);
        }
        LineAct::Bytes(answer)
    })
    .await;
    let cluster = Cluster::start(&[n1.address]).await;
    cluster.read_until("three lines", |_| n1.lines() > 2).await;
}

#[tokio::test]
async fn bytes_that_are_no_frame_end_the_line_and_cost_no_read() {
    for garbage in [&[0xff; 64][..], &[0, 0, 0, 1, 99], &[0, 0, 0, 0], b"HTTP/1.1 200 OK\r\n\r\n"] {
        let n1 = node(|asked| if asked.line == 0 { LineAct::Bytes(garbage.into()) } else { found(asked) }).await;
        let cluster = Cluster::start(&[n1.address]).await;
        cluster.line_is_open().await;
        assert_eq!(n1.lines(), 2);
    }
}

#[tokio::test]
async fn an_answer_to_nobody_ends_the_line_and_is_given_to_nobody() {
    let other = name_hash("u", "other");
    let wrong: [fn(&Asked, u64) -> BytesMut; 4] = [
        |asked, _| asked.answer_as(asked.id + 1, name_hash("u", "k"), 200, "wrong"),
        |asked, other| asked.answer_as(asked.id, other, 200, "wrong"),
        |asked, _| asked.answer_as(u64::MAX, 0, 200, "wrong"),
        |asked, other| frame(|out| write_elsewhere(out, asked.id, other)),
    ];
    for answer in wrong {
        let n1 =
            node(move |asked| if asked.line == 0 { LineAct::Bytes(answer(asked, other)) } else { found(asked) }).await;
        let cluster = Cluster::start(&[n1.address]).await;
        cluster
            .read_until("an answer by line", |answer| {
                assert_ne!(body(answer), "wrong");
                body(answer) == "by line"
            })
            .await;
        assert_eq!(n1.lines(), 2);
    }
}

#[tokio::test]
async fn an_answer_that_comes_twice_is_given_once() {
    let n1 = node(|asked| {
        let mut answers = asked.answer(200, "by line");
        answers.extend_from_slice(&asked.answer(200, "again"));
        LineAct::Bytes(answers)
    })
    .await;
    let cluster = Cluster::start(&[n1.address]).await;
    cluster
        .read_until("three lines", |answer| {
            assert_ne!(body(answer), "again");
            n1.lines() > 2
        })
        .await;
}

#[tokio::test]
async fn a_question_without_an_answer_holds_up_no_other_and_its_read_goes_elsewhere() {
    let n1 = node(|asked| if asked.name.1 == "stuck" { silence() } else { found(asked) }).await;
    let n2 = ScriptedNode::start(well(|_| FOUND)).await;
    let cluster = Cluster::start(&[n1.address, n2.address]).await;
    cluster.line_is_open().await;
    let began = Instant::now();
    let stuck = cluster.ask_of("stuck", "GET", "");
    let others = async {
        for _ in 0..20 {
            assert_eq!(body(&cluster.get().await), "by line");
        }
        Instant::now()
    };
    let (stuck, others) = tokio::join!(async { (stuck.await, Instant::now()) }, others);
    assert!(others < stuck.1, "the others waited: {:?} of {:?}", others - began, stuck.1 - began);
    assert_eq!(body(&stuck.0), "value");
    assert!(n2.seen().iter().all(|request| request.has("x-shardcache-detached: 1")));
    assert_eq!(n1.lines(), 1);
}

#[tokio::test]
async fn a_line_that_falls_silent_is_given_up_and_another_opened() {
    let script = |asked: &Asked| match (asked.line, asked.number, asked.is_beat) {
        (0, 1.., _) | (0, _, true) => silence(),
        (.., true) => Asked::beat(),
        _ => found(asked),
    };
    let n1 = ScriptedNode::with_lines(well(|_| FOUND), Lines::Opened(Box::new(script))).await;
    let n2 = ScriptedNode::start(well(|_| FOUND)).await;
    let cluster = Cluster::start(&[n1.address, n2.address]).await;
    cluster.line_is_open().await;
    cluster.read_until("another line", |answer| n1.lines() > 1 && body(answer) == "by line").await;
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_nobody_its_answer() {
    let hold = Arc::new(AtomicBool::new(true));
    let held: Arc<Mutex<BytesMut>> = Arc::default();
    let (holding, late) = (Arc::clone(&hold), Arc::clone(&held));
    let n1 = node(move |asked| {
        if asked.name.1 == "late" && holding.load(Ordering::Acquire) {
            late.lock().expect("not poisoned").extend_from_slice(&asked.answer(200, "too late"));
            return silence();
        }
        // The late answers first: they must go to nobody.
        let mut answers = std::mem::take(&mut *late.lock().expect("not poisoned"));
        answers.extend_from_slice(&asked.answer(200, "by line"));
        LineAct::Bytes(answers)
    })
    .await;
    let cluster = Cluster::start(&[n1.address]).await;
    cluster.line_is_open().await;
    for round in 1..=20 {
        let mut client = TcpStream::connect(cluster.gateway).await.expect("connect");
        client.write_all(b"GET /v1/entries/late HTTP/1.1\r\nhost: x\r\nx-user-id: u\r\n\r\n").await.expect("send");
        let asked = Instant::now() + Duration::from_secs(10);
        while held.lock().expect("not poisoned").is_empty() {
            assert!(Instant::now() < asked, "{round}: the question never comes");
            tokio::task::yield_now().await;
        }
        drop(client);
        hold.store(false, Ordering::Release);
        assert_eq!(body(&cluster.ask_of("late", "GET", "").await), "by line", "{round}");
        hold.store(true, Ordering::Release);
    }
    assert_eq!(n1.lines(), 1);
}

#[tokio::test]
async fn what_does_not_fit_on_the_line_comes_by_the_pool() {
    let n1 = node(|asked| {
        LineAct::Bytes(frame(|out| {
            write_elsewhere(out, asked.id, name_hash(&asked.name.0, &asked.name.1));
        }))
    })
    .await;
    let cluster = Cluster::start(&[n1.address]).await;
    cluster
        .read_until("a line", |answer| {
            assert_eq!(body(answer), "value");
            n1.lines() > 0
        })
        .await;
    assert_eq!(body(&cluster.get().await), "value");
}

#[tokio::test]
async fn after_a_goodbye_what_was_asked_is_answered_and_the_line_is_closed() {
    let n1 = node(|asked| {
        if asked.line > 0 || asked.number < 2 {
            return found(asked);
        }
        let mut answers = frame(FromNode::write_goodbye);
        answers.extend_from_slice(&asked.answer(200, "after goodbye"));
        LineAct::Bytes(answers)
    })
    .await;
    let cluster = Cluster::start(&[n1.address]).await;
    cluster.read_until("an answer after the goodbye", |answer| body(answer) == "after goodbye").await;
    cluster.read_until("another line", |answer| n1.lines() > 1 && body(answer) == "by line").await;
    assert_eq!(n1.lines_closed(), 1);
}

#[tokio::test]
async fn a_421_by_line_is_never_shown() {
    let n1 = node_with_pool(well(|_| MISDIRECTED), |asked| {
        LineAct::Bytes(if asked.detached { asked.answer(200, "by line") } else { asked.answer(421, "") })
    })
    .await;
    let cluster = Cluster::start(&[n1.address]).await;
    // Until the line is open even a detached read is misdirected.
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = cluster.get().await;
        assert!(status(&answer) != 421 && Instant::now() < end, "{answer}");
        if body(&answer) == "by line" {
            return;
        }
    }
}

#[tokio::test]
async fn a_gateway_that_stops_answers_what_is_on_its_lines_first() {
    let (asked_slow, go_on) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
    let (slow, gate) = (Arc::clone(&asked_slow), Arc::clone(&go_on));
    let n1 = node(move |asked| {
        if asked.name.1 != "slow" {
            return found(asked);
        }
        slow.store(true, Ordering::Release);
        LineAct::BytesWhen(Arc::clone(&gate), asked.answer(200, "by line"))
    })
    .await;
    let cluster = Cluster::start(&[n1.address]).await;
    cluster.line_is_open().await;
    let mut client = TcpStream::connect(cluster.gateway).await.expect("connect");
    client.write_all(b"GET /v1/entries/slow HTTP/1.1\r\nhost: x\r\nx-user-id: u\r\n\r\n").await.expect("send");
    let end = Instant::now() + Duration::from_secs(10);
    while !asked_slow.load(Ordering::Acquire) {
        assert!(Instant::now() < end, "the question never comes");
        tokio::task::yield_now().await;
    }
    drop(cluster.stop);
    go_on.notify_one();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.expect("answered and closed");
    let answer = String::from_utf8(answer).expect("ASCII");
    assert_eq!((status(&answer), body(&answer)), (200, "by line"), "{answer}");
}
