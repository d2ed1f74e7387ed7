//! The queue of a stream: bounded, in order, and never in the way of a write.

use std::time::Duration;

use bytes::Bytes;
use origin::StoredEntry;
use placement::{EntryKey, UserId};
use wire::entries::Version;

use super::*;
use crate::l1::L1;

const HOUR: Duration = Duration::from_secs(3600);

fn name(key: &str) -> EntryName {
    EntryName::new(UserId::parse(b"u").expect("id"), EntryKey::parse(key).expect("key"))
}

fn entry(key: &str, bytes: usize) -> Arc<Held> {
    let content = StoredEntry {
        value: Bytes::from(vec![0; bytes]),
        content_type: String::new(),
        cache_control: None,
        version: Version(1),
    };
    let (l1, reign) = (L1::new(64 << 20, HOUR, HOUR), Reign::new(1));
    l1.put(name(key), reign, Some(Arc::new(content)), None);
    l1.to_hand_on(&name(key), reign).expect("held")
}

fn stream() -> Outgoing {
    let receiver = "n2".parse().expect("node id");
    Outgoing::new("s".to_owned(), ChangeId(1), receiver, "127.0.0.1:1".to_owned(), HashMap::new(), None)
}

/// What would be sent now, in words.
fn sent(stream: &Outgoing) -> Vec<String> {
    match stream.next().expect("not broken") {
        Next::Send(items) => items
            .iter()
            .map(|item| match item {
                Item::Copy(held, _) => format!("copy {}", held.name(name("k").slot).key.as_str()),
                Item::Value(held) => format!("value {}", held.name(name("k").slot).key.as_str()),
                Item::Invalidate(name) => format!("invalidate {}", name.key.as_str()),
                Item::End(_) => "end".to_owned(),
            })
            .collect(),
        Next::Wait => vec!["wait".to_owned()],
        Next::Over => vec!["over".to_owned()],
    }
}

#[test]
fn nothing_is_sent_without_credit_and_then_all_in_order() {
    let stream = stream();
    stream.copy(Some(entry("a", 10)), 11);
    stream.invalidate(&name("a"));
    stream.value(entry("a", 10));
    stream.append_end(Vec::new());
    assert_eq!(sent(&stream), ["wait"]);
    assert!(stream.credited(0, 1000));
    assert_eq!(sent(&stream), ["copy a", "invalidate a", "value a", "end"]);
}

#[test]
fn writes_that_the_receiver_does_not_keep_up_with_lose_their_values_first_and_then_the_stream() {
    let stream = stream();
    let megabytes = limits::HANDOFF_VALUES_QUEUE >> 20;
    let large = entry("k", 1 << 20);
    for _ in 0..2 * megabytes {
        stream.value(Arc::clone(&large));
    }
    assert!(!stream.is_broken());
    assert!(stream.lock().queued_writes <= limits::HANDOFF_VALUES_QUEUE);
    let long = "k".repeat(1000);
    let mut written = 0;
    while !stream.is_broken() {
        stream.invalidate(&name(&long));
        written += long.len();
        assert!(written <= limits::HANDOFF_QUEUE_MAX, "the bound holds");
    }
    assert!(stream.lock().queue.is_empty(), "a broken stream holds no memory");
}

#[test]
fn after_the_end_nothing_is_appended() {
    let stream = stream();
    stream.append_end(Vec::new());
    stream.value(entry("k", 1));
    stream.copy(Some(entry("k", 1)), 1);
    assert!(stream.credited(0, 1000));
    assert_eq!(sent(&stream), ["end"]);
}

#[test]
fn a_loss_before_the_end_breaks_the_stream_and_after_it_only_closes_it() {
    let unfinished = stream();
    unfinished.end_of_reign();
    assert!(unfinished.is_broken());
    let finished = stream();
    finished.append_end(Vec::new());
    assert!(!finished.completed(), "the end has not been sent");
    assert!(finished.credited(0, 1000));
    assert_eq!(sent(&finished), ["end"]);
    assert!(finished.completed());
    finished.break_off("too late");
    finished.end_of_reign();
    assert!(!finished.is_broken());
    assert_eq!(sent(&finished), ["over"]);
}

#[test]
fn a_receiver_cannot_confirm_more_than_was_sent() {
    let stream = stream();
    assert!(!stream.credited(1, 0));
    assert!(!stream.completed());
}

#[test]
fn an_entry_counts_as_copied_once_the_receiver_has_it_or_it_is_gone() {
    let stream = stream();
    stream.begin_copy(2, 30);
    stream.copy(Some(entry("a", 10)), 11);
    stream.copy(None, 19);
    stream.copy_queued();
    assert_eq!((stream.report().entries_copied, stream.report().state), (1, CopyState::Copying));
    assert!(stream.credited(0, 1000));
    let Ok(Next::Send(items)) = stream.next() else { panic!("something to send") };
    stream.sent([Some(&items[0])], 100);
    assert!(stream.credited(1, 100));
    let report = stream.report();
    assert_eq!((report.entries_copied, report.bytes_copied, report.state), (2, 30, CopyState::CaughtUp));
}
