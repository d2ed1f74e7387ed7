//! What is in a line, when it is written, and what happens to those that cannot be.

use std::sync::{Condvar, Mutex, PoisonError};

use http_body_util::BodyExt;
use serde_json::Value;

use super::*;

/// Where a test reads what was written; writing waits while it is shut.
#[derive(Clone, Default)]
struct Output(Arc<(Mutex<Held>, Condvar)>);

#[derive(Default)]
struct Held {
    written: Vec<u8>,
    shut: bool,
}

impl Output {
    fn shut(&self, shut: bool) {
        let (held, changed) = &*self.0;
        held.lock().unwrap_or_else(PoisonError::into_inner).shut = shut;
        changed.notify_all();
    }

    fn lines(&self) -> Vec<Value> {
        let text =
            String::from_utf8(self.0.0.lock().unwrap_or_else(PoisonError::into_inner).written.clone()).expect("UTF-8");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (held, changed) = &*self.0;
        let held = held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = changed.wait_while(held, |held| held.shut).unwrap_or_else(PoisonError::into_inner);
        held.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn begin(log: &Arc<AccessLog>) -> Entry {
    let client = "2001:db8::7".parse().expect("an address");
    log.begin(client, &Method::GET, Route::get, &HeaderValue::from_static("request-1"))
}

fn key() -> LogHashKey {
    "sixteen bytes and more".parse().expect("a key")
}

#[tokio::test]
async fn a_line_has_all_that_is_known_once_the_body_is_over() {
    let (output, dropped) = (Output::default(), Counter::default());
    let (log, writer) =
        AccessLog::start(output.clone(), UserHash::new(Some(&key())), dropped.clone()).expect("a thread");
    let mut entry = begin(&log);
    entry.of_user(&UserId::parse(b"ada").expect("a user"));
    let mut response = Response::new(AnswerBody::from(Bytes::from_static(b"value")));
    response.headers_mut().insert(CACHE_STATUS, HeaderValue::from_static("shardcache-l1; hit"));
    response.headers_mut().insert(X_CACHE_NODE, HeaderValue::from_static("n1"));
    let response = entry.answered(note_node_time(response, Some(Instant::now())));
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(&body[..], b"value");
    drop(begin(&log));
    writer.end().await;

    let lines = output.lines();
    assert_eq!(lines.len(), 2);
    let known = [
        ("client", "2001:db8::7".into()),
        ("method", "GET".into()),
        ("route", "get".into()),
        ("status", 200.into()),
        ("bytes", 5.into()),
        ("tier", "l1".into()),
        ("node", "n1".into()),
        ("request_id", Value::from("request-1")),
    ];
    for (name, value) in known {
        assert_eq!(lines[0][name], value, "{name} of {}", lines[0]);
    }
    let user = lines[0]["user"].as_str().expect("a hash");
    assert!(user.len() == 32 && user.bytes().all(|byte| byte.is_ascii_hexdigit()), "{user}");
    assert!(lines[0]["gateway_us"].is_u64() && lines[0]["node_us"].is_u64());
    assert!(lines[0]["time"].as_str().is_some_and(|time| time.ends_with('Z')));
    assert!(!lines[0].to_string().contains("ada"));
    assert_eq!((&lines[1]["status"], &lines[1]["user"]), (&499.into(), &Value::Null), "gone before its answer");
    assert_eq!(dropped.get(), 0);
}

#[tokio::test]
async fn a_user_has_the_same_hash_by_the_same_key_and_another_by_another() {
    let mut hashes = Vec::new();
    for key in [key(), key(), LogHashKey::random()] {
        let output = Output::default();
        let (log, writer) =
            AccessLog::start(output.clone(), UserHash::new(Some(&key)), Counter::default()).expect("a thread");
        let mut entry = begin(&log);
        entry.of_user(&UserId::parse(b"ada").expect("a user"));
        drop(entry);
        writer.end().await;
        hashes.push(output.lines()[0]["user"].as_str().expect("a hash").to_owned());
    }
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[0], hashes[2]);
}

#[tokio::test]
async fn what_does_not_fit_is_dropped_and_counted_and_requests_go_on() {
    let (output, dropped) = (Output::default(), Counter::default());
    output.shut(true);
    let (log, writer) =
        AccessLog::start(output.clone(), UserHash::new(Some(&key())), dropped.clone()).expect("a thread");
    let began = 3 * limits::ACCESS_LOG_WAITING_MAX as u64;
    (0..began).for_each(|_| drop(begin(&log)));
    assert!(dropped.get() > 0);
    output.shut(false);
    writer.end().await;
    assert_eq!(output.lines().len() as u64 + dropped.get(), began);
}

#[test]
fn a_key_is_not_shown() {
    assert_eq!(format!("{:?}", key()), "LogHashKey(…)");
    assert!("short-Zx9SECRET".parse::<LogHashKey>().is_err_and(|error| !error.to_string().contains("SECRET")));
}
