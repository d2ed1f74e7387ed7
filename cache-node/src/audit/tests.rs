//! The auditor's interleavings, each step made by hand on a real node over SQLite.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use origin::{SlotRow, StoredEntry};
use placement::{Gained, PinnedUsers, Tenure};
use wire::entries::Version;

use super::*;
use crate::interleavings::{Fixture, begin_change, fixture, id, name, put, value};
use crate::read_path::begin_load_for_test;
use crate::write_path::WriteRequest;

/// Puts an entry into the origin and says what it is there.
async fn written(node: &Arc<Node>, value: &'static str) -> StoredEntry {
    node.write(put("k", value)).await.expect("write");
    let row = node.origin.read_entry(&name("k").user, &name("k").key).await.expect("origin");
    row.expect("just written")
}

/// Puts this into L1 as if it were right.
fn plant(node: &Node, content: Option<StoredEntry>) {
    let reign = node.slots.lock(name("k").slot).hold.reign();
    node.l1.put(name("k"), reign, content.map(Arc::new), None);
}

/// A node whose L1 has an older value than its origin.
async fn with_a_stale_entry() -> Fixture {
    let fixture = fixture().await;
    let old = written(&fixture.node, "old").await;
    written(&fixture.node, "new").await;
    plant(&fixture.node, Some(old));
    fixture
}

/// The audit of a read answered now, its origin read still to come.
async fn sampled(node: &Arc<Node>) -> Audit {
    let read = node.read_under_guard(&name("k")).await.expect("read");
    assert_eq!(read.source, Source::L1);
    node.begin_audit(&name("k"), &read).expect("there is room")
}

fn found(node: &Node) -> (u64, u64) {
    node.metrics.audit.found(HeldIn::l1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_entry_is_found_once_and_dropped_and_the_next_read_is_right() {
    let fixture = with_a_stale_entry().await;
    let node = &fixture.node;
    assert_eq!(value(node, "k").await, (Some("old".to_owned()), Source::L1));
    let (first, second) = (sampled(node).await, sampled(node).await);
    first.run().await;
    second.run().await;
    assert_eq!(found(node), (1, 1));
    assert_eq!(node.metrics.audit.dropped.get(), 1);
    assert_eq!(value(node, "k").await.0, Some("new".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_verdict_the_entry_is_out_of_l1_and_other_audits_of_it_have_none() {
    let fixture = with_a_stale_entry().await;
    let node = &fixture.node;
    let (first, second) = (sampled(node).await, sampled(node).await);
    let row = node.origin.read_entry(&name("k").user, &name("k").key).await.expect("origin").map(Arc::new);
    assert_eq!(first.judge(None, &row), Verdict::Inconsistent);
    assert_eq!(node.l1.stored_at(&name("k"), first.noted.reign), None);
    assert_eq!(second.judge(None, &row), Verdict::Overlapped);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_l2_holds_under_a_right_answer_is_judged_with_it() {
    let fixture = fixture().await;
    let node = &fixture.node;
    let row = Some(Arc::new(written(node, "v1").await));
    let below = |content: &Content| Some(Held { tier: HeldIn::l2, content: content.clone(), served: false });
    assert_eq!(sampled(node).await.judge(below(&row), &row), Verdict::Consistent);
    assert_eq!(sampled(node).await.judge(below(&None), &row), Verdict::Inconsistent);
    assert_eq!((found(node), node.metrics.audit.found(HeldIn::l2)), ((2, 0), (2, 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_value_under_the_right_version_is_found() {
    let fixture = fixture().await;
    let node = &fixture.node;
    let row = written(node, "v1").await;
    for wrong in [
        StoredEntry { value: Bytes::from_static(b"v2"), ..row.clone() },
        StoredEntry { content_type: "text/html".to_owned(), ..row.clone() },
        StoredEntry { cache_control: Some("no-store".to_owned()), ..row.clone() },
    ] {
        plant(node, Some(wrong));
        let (_, before) = found(node);
        sampled(node).await.run().await;
        assert_eq!(found(node).1, before + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absence_remembered_of_an_entry_that_is_there_is_found_and_the_other_way_round() {
    let fixture = fixture().await;
    let node = &fixture.node;
    let row = written(node, "v1").await;
    plant(node, None);
    sampled(node).await.run().await;
    assert_eq!(found(node), (1, 1));
    let absent = name("absent");
    let reign = node.slots.lock(absent.slot).hold.reign();
    node.l1.put(absent.clone(), reign, Some(Arc::new(row)), None);
    let read = node.read_under_guard(&absent).await.expect("read");
    node.begin_audit(&absent, &read).expect("there is room").run().await;
    assert_eq!(found(node), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn right_answers_are_checked_and_left_where_they_are() {
    let fixture = fixture().await;
    let node = &fixture.node;
    written(node, "v1").await;
    sampled(node).await.run().await;
    assert_eq!(found(node), (1, 0));
    assert_eq!(value(node, "k").await, (Some("v1".to_owned()), Source::L1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_write_puts_into_l1_is_what_the_origin_gives_back() {
    let fixture = fixture().await;
    let node = &fixture.node;
    let texts = [("text/plain", None), ("a/b; c=\"d\"", Some("")), ("", Some("no-store, private"))];
    for (content_type, cache_control) in texts {
        let value = Bytes::from_static(&[0, 255]);
        let kind = origin::WriteKind::Put {
            value,
            content_type: content_type.to_owned(),
            cache_control: cache_control.map(str::to_owned),
        };
        node.write(WriteRequest { kind, ..put("k", "") }).await.expect("write");
        sampled(node).await.run().await;
    }
    let delete = WriteRequest { kind: origin::WriteKind::Delete, ..put("k", "") };
    node.write(delete).await.expect("write");
    sampled(node).await.run().await;
    assert_eq!(found(node), (4, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_between_the_answer_and_the_origin_read_is_no_inconsistency() {
    let fixture = fixture().await;
    let node = &fixture.node;
    written(node, "v1").await;
    // 1. a read is answered "v1"; 2. a write commits "v2"; 3. the audit reads "v2" from the origin.
    let audit = sampled(node).await;
    written(node, "v2").await;
    audit.run().await;
    assert_eq!((found(node), node.metrics.audit.skips(Skipped::overlapped)), ((0, 0), 1));
    assert_eq!(value(node, "k").await, (Some("v2".to_owned()), Source::L1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_has_committed_and_not_ended_is_no_inconsistency() {
    let fixture = fixture().await;
    let node = &fixture.node;
    let old = written(node, "v1").await;
    let audit = sampled(node).await;
    let registered = node.register_for_test(&name("k"));
    // What the audit would read once the statement of that write has committed.
    let new = StoredEntry { version: Version(old.version.0 + 1), ..old };
    assert_eq!(audit.judge(None, &Some(Arc::new(new))), Verdict::Overlapped);
    drop(registered);
    assert_eq!(found(node), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_unknown_outcome_takes_the_verdict_away_until_it_is_settled() {
    let fixture = with_a_stale_entry().await;
    let node = &fixture.node;
    let (meanwhile, afterwards) = (sampled(node).await, sampled(node).await);
    let sent = node.register_for_test(&name("k")).sent_for_test();
    meanwhile.run().await;
    drop(sent);
    node.write(put("other", "v")).await.expect("a write that waits until the unknown one is settled");
    afterwards.run().await;
    assert_eq!((found(node), node.metrics.audit.skips(Skipped::overlapped)), ((0, 0), 2));
}

/// The test user's slot as a table read may show it.
fn row(node: &Node, owner: &str, newer: i64) -> SlotRow {
    let slot = name("k").slot;
    let tenure = node.slots.lock(slot).hold.tenure().0 + newer;
    SlotRow {
        slot,
        owner: id(owner),
        tenure: Tenure(tenure),
        gained: Gained(tenure),
        l2_space: None,
        pinned: PinnedUsers::NONE,
        pool: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_lost_during_the_audit_gives_no_verdict() {
    let fixture = with_a_stale_entry().await;
    let node = &fixture.node;
    let audit = sampled(node).await;
    node.apply_rows(&[row(node, "n2", 1)], node.slots.era());
    audit.run().await;
    assert_eq!((found(node), node.metrics.audit.skips(Skipped::not_ours)), ((0, 0), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_lost_and_won_back_during_the_audit_gives_no_verdict() {
    let fixture = with_a_stale_entry().await;
    let node = &fixture.node;
    let audit = sampled(node).await;
    let rows = [row(node, "n2", 1), row(node, "n1", 2)];
    node.apply_rows(&rows, node.slots.era());
    audit.run().await;
    assert_eq!((found(node), node.metrics.audit.skips(Skipped::overlapped)), ((0, 0), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_over_after_the_origin_read_gives_no_verdict() {
    let fixture = with_a_stale_entry().await;
    let node = &fixture.node;
    // Frozen after the answer for longer than the lease, the node cannot know what a new owner has written.
    let audit = sampled(node).await;
    node.lease.end();
    audit.run().await;
    assert_eq!((found(node), node.metrics.audit.skips(Skipped::overlapped)), ((0, 0), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sealed_slot_gives_no_verdict() {
    let fixture = with_a_stale_entry().await;
    let node = &fixture.node;
    let audit = sampled(node).await;
    let change = begin_change(node).await;
    node.seal(change, &[name("k").slot]).await.expect("sealed");
    audit.run().await;
    assert_eq!((found(node), node.metrics.audit.skips(Skipped::overlapped)), ((0, 0), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_that_fails_is_no_inconsistency() {
    let fixture = with_a_stale_entry().await;
    let node = &fixture.node;
    let audit = sampled(node).await;
    node.origin.close().await;
    audit.run().await;
    assert_eq!((found(node), node.metrics.audit.skips(Skipped::origin)), ((0, 0), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_has_read_the_wrong_entry_cannot_store_it_after_the_drop() {
    let fixture = with_a_stale_entry().await;
    let node = &fixture.node;
    // 1. a load begins and finds the wrong entry in L2; 2. an audit drops it; 3. the load ends.
    let load = begin_load_for_test(node, &name("k"));
    let audit = sampled(node).await;
    let wrong = audit.answer.content.clone();
    audit.run().await;
    load.finish_for_test(wrong);
    let (text, source) = value(node, "k").await;
    assert_eq!(text, Some("new".to_owned()));
    assert!(matches!(source, Source::Origin { .. }), "{source:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_pass_the_caches_by_while_a_wrong_entry_is_being_dropped_and_writes_wait() {
    let fixture = with_a_stale_entry().await;
    let node = &fixture.node;
    let audit = sampled(node).await;
    // A writer in progress: the drop waits for its turn, as a write does.
    let row = node.origin.read_entry(&name("k").user, &name("k").key).await.expect("origin");
    assert_eq!(audit.judge(None, &row.map(Arc::new)), Verdict::Inconsistent);
    let registered = node.register_for_test(&name("k"));
    let mut dropping = Box::pin(audit.drop_everywhere());
    assert!(futures_util::poll!(dropping.as_mut()).is_pending());
    assert_eq!(value(node, "k").await.0, Some("new".to_owned()));
    drop(registered);
    dropping.await;
    assert_eq!(node.metrics.audit.dropped.get(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn audits_over_the_bound_are_left_out_and_counted() {
    let fixture = fixture().await;
    let node = &fixture.node;
    written(node, "v1").await;
    let mut audits = Vec::new();
    for _ in 0..limits::AUDITS_IN_PROGRESS_MAX {
        audits.push(sampled(node).await);
    }
    let read = node.read_under_guard(&name("k")).await.expect("read");
    assert!(node.begin_audit(&name("k"), &read).is_none());
    assert_eq!(node.metrics.audit.skips(Skipped::busy), 1);
    drop(audits);
    sampled(node).await.run().await;
    assert_eq!(found(node), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_from_the_origin_are_not_audited() {
    let fixture = fixture().await;
    let node = &fixture.node;
    written(node, "v1").await;
    node.l1.remove(&name("k"));
    let loaded = node.read_under_guard(&name("k")).await.expect("read");
    assert!(matches!(loaded.source, Source::Origin { .. }));
    assert!(node.begin_audit(&name("k"), &loaded).is_none());
    let direct = node.read_direct(&name("k"), placement::freshness::Bypass::Detached).await.expect("read");
    assert!(node.begin_audit(&name("k"), &direct).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hit_that_is_not_sampled_takes_no_lock() {
    let fixture = fixture().await;
    let node = &fixture.node;
    written(node, "v1").await;
    let (stripe, slot) = (node.keys.lock(&name("k")), node.slots.lock(name("k").slot));
    let (told, answer) = std::sync::mpsc::channel();
    let (handle, reader) = (tokio::runtime::Handle::current(), Arc::clone(node));
    let thread = std::thread::spawn(move || {
        let read = handle.block_on(reader.read(&name("k")));
        let _ = told.send(read.expect("read").source);
    });
    let answered = answer.recv_timeout(Duration::from_secs(10));
    drop((slot, stripe));
    thread.join().expect("the reader");
    assert_eq!(answered, Ok(Source::L1));
}
