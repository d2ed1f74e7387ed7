//! A line whose node answers in any order, to clients of whom many go away.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, Response};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use wire::line::frame::{TO_NODE_MAX, first};
use wire::line::{FromNode, ToNode, name_hash, write_answer};

use super::carry::Ended;
use super::*;

const QUESTIONS: usize = 10_000;

/// What the node answers to a key.
fn value_of(key: &str) -> String {
    format!("the value of {key}")
}

/// Answers every question, in any order, a few at a time.
async fn node(stream: DuplexStream, mut random: StdRng) {
    let (mut from, mut to) = tokio::io::split(stream);
    let (mut inbox, mut held) = (BytesMut::new(), Vec::new());
    loop {
        while let Some(length) = first(&inbox, TO_NODE_MAX).expect("frames") {
            let mut frame = BytesMut::new();
            match ToNode::read(&inbox[..length]).expect("a frame") {
                ToNode::Beat => FromNode::write_beat(&mut frame),
                ToNode::Read(read, _) => {
                    let answer = Response::new(Bytes::from(value_of(read.key)));
                    write_answer(&mut frame, read.id, name_hash(read.user, read.key), &answer, false).expect("fits");
                }
            }
            inbox.advance(length);
            held.push(frame);
        }
        held.shuffle(&mut random);
        // Some stay behind, but not for want of something to come.
        let kept = if random.random_bool(0.5) { held.len() / 2 } else { 0 };
        for frame in held.drain(kept..) {
            to.write_all(&frame).await.expect("the line is open");
        }
        if held.is_empty() && from.read_buf(&mut inbox).await.expect("no errors in memory") == 0 {
            return;
        }
    }
}

fn ask(line: &Line, key: &str) -> Option<oneshot::Receiver<Told>> {
    let headers = HeaderMap::new();
    let question = Question { user: "u", key, head_only: false, detached: false, request_id: b"r", headers: &headers };
    line.ask(&question, Instant::now() + Duration::from_secs(60))
}

fn value(told: Result<Told, oneshot::error::RecvError>) -> Bytes {
    match told.expect("the line lives") {
        Ok(Said::Answer(answer)) => answer.into_body(),
        other => panic!("no answer: {other:?}"),
    }
}

/// A line with a peer in memory; the task carries it.
fn line(node_end: impl FnOnce(DuplexStream)) -> (Arc<Line>, tokio::task::JoinHandle<Result<(), Ended>>) {
    let (ours, theirs) = tokio::io::duplex(4096);
    node_end(theirs);
    let line = Arc::new(Line::default());
    let carried = Arc::clone(&line);
    let task = tokio::spawn(async move { carry(&carried, tokio::io::split(ours), BytesMut::new()).await });
    (line, task)
}

#[tokio::test]
async fn of_ten_thousand_reads_of_which_a_third_is_dropped_none_gets_anothers_answer() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let of_node = StdRng::seed_from_u64(seed + 1);
    let (line, task) = line(|stream| drop(tokio::spawn(node(stream, of_node))));
    let (mut waiting, mut asked, mut answered) = (Vec::new(), 0, 0);
    while asked < QUESTIONS || !waiting.is_empty() {
        let most = random.random_range(0..200).min(QUESTIONS - asked);
        for _ in 0..most {
            let key = asked.to_string();
            // All places are taken: by those in front, or by dropped ones.
            let Some(told) = ask(&line, &key) else { break };
            asked += 1;
            waiting.push((key, told));
        }
        waiting.shuffle(&mut random);
        // Before its answer or after it.
        waiting.truncate(waiting.len() - waiting.len() / 3);
        for (key, told) in waiting.drain(waiting.len() / 2..) {
            assert_eq!(value(told.await), value_of(&key));
            answered += 1;
        }
        tokio::task::yield_now().await;
    }
    assert!(answered > QUESTIONS / 4, "{answered}");
    line.retire();
    task.await.expect("no panic").expect("a good end");
    assert!(line.board().waiting.next_id().is_some());
}

#[tokio::test]
async fn nobody_boards_a_full_line_until_an_answer_comes() {
    let (mut peer, taken) = (None, wire::line::OUTSTANDING_MAX);
    let (line, _task) = line(|stream| peer = Some(stream));
    let mut told: Vec<_> = (0..taken).map(|key| ask(&line, &key.to_string()).expect("room")).collect();
    assert!(ask(&line, "one more").is_none());
    // Who goes away leaves the place taken.
    told.truncate(1);
    assert!(ask(&line, "one more").is_none());
    tokio::spawn(node(peer.expect("made"), StdRng::seed_from_u64(1)));
    value(told.remove(0).await);
    assert!(ask(&line, "one more").is_some());
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_learns_it_and_who_waits_on_a_silent_line_that_it_broke() {
    let mut peer = None;
    let (line, task) = line(|stream| peer = Some(stream));
    let headers = HeaderMap::new();
    let question =
        Question { user: "u", key: "k", head_only: false, detached: false, request_id: b"r", headers: &headers };
    let soon = line.ask(&question, Instant::now() + Duration::from_secs(1)).expect("room");
    let late = line.ask(&question, Instant::now() + Duration::from_secs(60)).expect("room");
    assert_eq!(soon.await.expect("told").err(), Some(SendFailed::TimedOut));
    assert_eq!(late.await.expect("told").err(), Some(SendFailed::Broken));
    assert!(matches!(task.await.expect("no panic"), Err(Ended::Silent)));
    assert!(ask(&line, "k").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_line_on_which_one_answer_never_comes_is_retired_without_harm_to_the_others() {
    let mut peer = None;
    let (line, task) = line(|stream| peer = Some(stream));
    let never = ask(&line, "never").expect("room");
    drop(never);
    let (mut from, mut to) = tokio::io::split(peer.expect("made"));
    tokio::spawn(async move {
        // Beats are answered, questions are not.
        let (mut sink, mut beat) = (vec![0; 4096], BytesMut::new());
        FromNode::write_beat(&mut beat);
        while from.read(&mut sink).await.is_ok_and(|read| read > 0) {
            let _ = to.write_all(&beat).await;
        }
    });
    task.await.expect("no panic").expect("a good end");
    assert!(ask(&line, "k").is_none());
}

#[tokio::test]
async fn a_task_that_is_dropped_leaves_nobody_waiting() {
    let mut peer = None;
    let (line, task) = line(|stream| peer = Some(stream));
    let told = ask(&line, "k").expect("room");
    tokio::task::yield_now().await;
    task.abort();
    assert_eq!(told.await.expect("told").err(), Some(SendFailed::Broken));
    assert!(ask(&line, "k").is_none());
}
