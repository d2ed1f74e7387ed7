//! Tests of the interleavings that the protocol is about, each step made by hand on a real node over SQLite.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use origin::{DatabaseUrl, NewChange, OpenOptions, Origin, Precondition, SlotRow, StoredEntry, WriteAnswer, WriteKind};
use placement::freshness::Bypass;
use placement::ring::SlotMove;
use placement::{ChangeId, EntryKey, Epoch, Member, NodeId, PinnedUsers, Pool, Ring, Slot, UserId, Weight};
use tokio_util::sync::CancellationToken;
use wire::entries::Version;

use crate::config::Config;
use crate::entry_name::EntryName;
use crate::l1::Content;
use crate::node::{Node, Refreshed};
use crate::read_path::{LoadByHand, ReadRefused, Source, begin_load_for_test};
use crate::write_path::{WriteRefused, WriteRequest};

pub(crate) const LEASE: Duration = Duration::from_secs(30);

pub(crate) struct Fixture {
    pub(crate) node: Arc<Node>,
    stop: CancellationToken,
    _dir: tempfile::TempDir,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) fn id(name: &str) -> NodeId {
    name.parse().expect("node id")
}

/// A claimed node "n1" that owns every slot, with its renewals running and nothing else: no poll, no heartbeat.
pub(crate) async fn fixture() -> Fixture {
    let dir = tempfile::tempdir().expect("temp dir");
    let url: DatabaseUrl = format!("sqlite://{}/db", dir.path().display()).parse().expect("url");
    let origin = Origin::open(&url, OpenOptions::default()).expect("open");
    origin.migrate().await.expect("migrate");
    // Reads are counted for the sampling; audits are begun by hand.
    let audit_every = u64::MAX;
    let config = Config { lease_ttl: LEASE, audit_every, ..Config::with_defaults(id("n1"), "127.0.0.1:1".to_owned()) };
    let node = Arc::new(Node::new(config, origin));
    let stop = CancellationToken::new();
    claim(&node).await;
    let members = vec![Member { id: id("n1"), weight: Weight::default() }];
    let ring = Ring::new(Epoch(1), members, |_| id("n1")).expect("ring");
    node.origin.init_ring(&ring).await.expect("init");
    assert_eq!(node.refresh_slots().await, Ok(Refreshed::Current));
    tokio::spawn(crate::renewals::run(Arc::clone(&node), stop.clone()));
    Fixture { node, stop, _dir: dir }
}

/// What `ownership::lease_renewal` does at a start.
pub(crate) async fn claim(node: &Node) {
    let asked_at = crate::clock::Moment::now();
    let config = &node.config;
    let claimed = node.origin.claim_node(&config.node_id, &config.advertise, config.weight, &config.pool, LEASE).await;
    let Ok(origin::ClaimOutcome::Claimed { incarnation, slots }) = claimed else { panic!("{claimed:?}") };
    node.status.set_incarnation(incarnation);
    node.apply_rows(&slots, node.slots.era());
    node.lease.confirmed(asked_at, LEASE);
}

pub(crate) fn name(key: &str) -> EntryName {
    EntryName::new(UserId::parse(b"user-1").expect("user"), EntryKey::parse(key).expect("key"))
}

pub(crate) fn put(key: &str, value: &'static str) -> WriteRequest {
    let kind = WriteKind::Put {
        value: Bytes::from_static(value.as_bytes()),
        content_type: "text/plain".to_owned(),
        cache_control: None,
    };
    WriteRequest { name: name(key), kind, precondition: Precondition::None, until: None }
}

pub(crate) async fn value(node: &Arc<Node>, key: &str) -> (Option<String>, Source) {
    let read = node.read(&name(key)).await.expect("read");
    let text = read.content.map(|entry| String::from_utf8(entry.value.to_vec()).expect("utf-8"));
    (text, read.source)
}

/// A load of `k` that has read this value from the origin and not ended yet.
async fn load_that_has_read(node: &Arc<Node>, value: &'static str) -> (LoadByHand, Content) {
    node.write(put("k", value)).await.expect("write");
    node.l1.remove(&name("k"));
    let load = begin_load_for_test(node, &name("k"));
    let entry = node.origin.read_entry(&name("k").user, &name("k").key).await.expect("origin");
    (load, entry.map(Arc::new))
}

pub(crate) fn slot_row(node: &Node, slot: Slot) -> (bool, i64) {
    let state = node.slots.lock(slot);
    (state.hold.is_mine(), state.hold.tenure().0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_reads_of_a_cold_key_read_the_origin_once() {
    let fixture = fixture().await;
    let node = &fixture.node;
    node.write(put("k", "v1")).await.expect("write");
    node.l1.remove(&name("k"));
    let before = node.metrics.origin_reads.get();
    let reads = (0..1000).map(|_| {
        let node = Arc::clone(node);
        tokio::spawn(async move { node.read(&name("k")).await.expect("read").content.expect("there").version })
    });
    let mut versions: Vec<Version> = Vec::new();
    for read in reads.collect::<Vec<_>>() {
        versions.push(read.await.expect("task"));
    }
    versions.dedup();
    assert_eq!((versions.len(), node.metrics.origin_reads.get() - before), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_began_before_a_write_does_not_store_the_old_value() {
    let fixture = fixture().await;
    let node = &fixture.node;
    // 1. a load begins and has read "old"; 2. a write commits "new"; 3. the load ends.
    let (load, old) = load_that_has_read(node, "old").await;
    node.write(put("k", "new")).await.expect("write");
    load.finish_for_test(old);
    assert_eq!(value(node, "k").await, (Some("new".to_owned()), Source::L1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_ends_during_a_write_does_not_store_what_the_write_is_about_to_change() {
    let fixture = fixture().await;
    let node = &fixture.node;
    // 1. a load begins and has read "old"; 2. a write registers; 3. the load ends; the write is not committed yet.
    let (load, old) = load_that_has_read(node, "old").await;
    let registered = node.register_for_test(&name("k"));
    load.finish_for_test(old);
    assert_eq!(value(node, "k").await.1, Source::Bypass(Bypass::WriterActive));
    drop(registered);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_began_under_another_reign_does_not_store() {
    let fixture = fixture().await;
    let node = &fixture.node;
    let load = begin_load_for_test(node, &name("k"));
    let slot = name("k").slot;
    let (_, tenure) = slot_row(node, slot);
    let row = |owner: &str, newer: i64| SlotRow {
        slot,
        owner: id(owner),
        tenure: placement::Tenure(tenure + newer),
        gained: placement::Gained(tenure + newer),
        l2_space: None,
        pinned: PinnedUsers::NONE,
        pool: None,
    };
    // Lost and won back, as rows may show it.
    node.apply_rows(&[row("n2", 1), row("n1", 2)], node.slots.era());
    load.finish_for_test(Some(Arc::new(StoredEntry {
        value: Bytes::from_static(b"stale"),
        content_type: "text/plain".to_owned(),
        cache_control: None,
        version: Version(1),
    })));
    assert_eq!(value(node, "k").await.0, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_write_is_registered_reads_pass_the_caches_by() {
    let fixture = fixture().await;
    let node = &fixture.node;
    node.write(put("k", "v1")).await.expect("write");
    let registered = node.register_for_test(&name("k"));
    assert_eq!(value(node, "k").await, (Some("v1".to_owned()), Source::Bypass(Bypass::WriterActive)));
    drop(registered);
    assert!(matches!(value(node, "k").await.1, Source::Origin { .. }));
    assert_eq!(value(node, "k").await.1, Source::L1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_goes_on_when_its_client_has_gone() {
    let fixture = fixture().await;
    let node = &fixture.node;
    {
        // Polled once: registered and handed to its own task, then dropped.
        let mut write = Box::pin(node.write(put("k", "v1")));
        let polled = futures_util::poll!(write.as_mut());
        assert!(polled.is_pending());
    }
    node.work.close();
    node.work.wait().await;
    assert_eq!(value(node, "k").await, (Some("v1".to_owned()), Source::L1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_unknown_outcome_holds_its_key_until_the_slot_has_a_newer_tenure() {
    let fixture = fixture().await;
    let node = &fixture.node;
    node.write(put("k", "v1")).await.expect("write");
    let (_, before) = slot_row(node, name("k").slot);
    let sent = node.register_for_test(&name("k")).sent_for_test();
    assert_eq!(value(node, "k").await.1, Source::Bypass(Bypass::WriterActive));
    drop(sent);
    // The renewal settles it; then the next write gets through under the newer tenure.
    let answer = node.write(put("k", "v2")).await.expect("write");
    assert!(matches!(answer, WriteAnswer::Replaced(_)));
    assert!(slot_row(node, name("k").slot).1 > before);
    assert_eq!(value(node, "k").await, (Some("v2".to_owned()), Source::L1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sealed_slot_parks_writes_and_reads_go_to_the_origin_until_the_change_is_aborted() {
    let fixture = fixture().await;
    let node = &fixture.node;
    node.write(put("k", "v1")).await.expect("write");
    let change = begin_change(node).await;
    let slot = name("k").slot;
    let report = node.seal(change, &[slot]).await.expect("sealed");
    assert_eq!(report.slots[0].tenure.0, slot_row(node, slot).1);
    assert_eq!(value(node, "k").await, (Some("v1".to_owned()), Source::Bypass(Bypass::Sealed)));
    let parked = tokio::spawn({
        let node = Arc::clone(node);
        async move { node.write(put("k", "v2")).await }
    });
    tokio::task::yield_now().await;
    assert!(node.settle(change).await.expect("settle").still_sealed, "only the journal unseals");
    node.origin.abort_change(change, "test").await.expect("abort");
    assert!(!node.settle(change).await.expect("settle").still_sealed);
    assert!(matches!(parked.await.expect("task"), Ok(WriteAnswer::Replaced(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_node_owns_nothing_and_serves_nothing_it_remembered() {
    let fixture = fixture().await;
    let node = &fixture.node;
    node.write(put("k", "v1")).await.expect("write");
    node.origin.release_lease(&id("n1"), node.status.incarnation()).await.expect("release");
    // Another process of the same name starts.
    let other = node
        .origin
        .claim_node(&id("n1"), "127.0.0.1:1", Weight::default(), &Pool::default(), LEASE)
        .await
        .expect("claim");
    assert!(matches!(other, origin::ClaimOutcome::Claimed { .. }));
    assert_eq!(node.refresh_slots().await, Ok(Refreshed::Fenced));
    let refused = node.write(put("k", "v2")).await.expect_err("fenced");
    assert!(matches!(refused, WriteRefused::NotOwner(_)));
    node.slots.forget_all();
    assert!(matches!(node.read(&name("k")).await, Err(ReadRefused::NotOwner(_))));
    assert_eq!(node.slots.owned(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_slot_was_lost_and_won_back_since_it_registered_is_refused() {
    let fixture = fixture().await;
    let (node, slot) = (&fixture.node, name("k").slot);
    let registered = node.register_for_test(&name("k"));
    for owner in ["n2", "n1"] {
        let newer = slot_row(node, slot).1 + 1;
        let (tenure, gained) = (placement::Tenure(newer), placement::Gained(newer));
        let row =
            SlotRow { slot, owner: id(owner), tenure, gained, l2_space: None, pinned: PinnedUsers::NONE, pool: None };
        node.apply_rows(&[row], node.slots.era());
    }
    assert!(matches!(registered.prepare_for_test().await, Err(WriteRefused::NotOwner(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_asked_for_before_a_fence_is_not_applied_after_it() {
    let fixture = fixture().await;
    let (node, slot) = (&fixture.node, name("k").slot);
    // 1. a RENEW is made; 2. another takes the slots over and we are fenced; 3. we claim anew; 4. its answer comes.
    let (era, held) = (node.slots.era(), [(slot, placement::Tenure(slot_row(node, slot).1))]);
    let rows = node.origin.renew_tenure(&id("n1"), &held, &origin::L2SpaceChange::Keep).await.expect("renewed");
    node.slots.forget_all();
    node.apply_rows(&rows, era);
    assert_eq!(node.slots.owned(), 0, "the row may be another's by now");
    node.apply_rows(&rows, node.slots.era());
    assert_eq!(node.slots.owned(), 1, "the same row, asked for since");
}

#[tokio::test]
async fn table_reads_asked_for_while_one_runs_are_one() {
    let fixture = fixture().await;
    let node = &fixture.node;
    let before = node.refreshes();
    let asked = futures_util::future::join_all((0..50).map(|_| node.refresh_slots())).await;
    assert!(asked.iter().all(|outcome| *outcome == Ok(Refreshed::Current)));
    // The one that ran, and one for all who came after it had begun.
    assert_eq!(node.refreshes() - before, 2);
}

#[tokio::test]
async fn a_table_read_dropped_half_way_leaves_no_outcome_to_share() {
    let fixture = fixture().await;
    let node = &fixture.node;
    let mut dropped = Box::pin(node.refresh_slots());
    assert!(futures_util::poll!(dropped.as_mut()).is_pending());
    let mut waiting = Box::pin(node.refresh_slots());
    assert!(futures_util::poll!(waiting.as_mut()).is_pending());
    drop(dropped);
    assert_eq!(waiting.await, Ok(Refreshed::Current));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_lease_reads_go_to_the_origin() {
    let fixture = fixture().await;
    let node = &fixture.node;
    node.write(put("k", "v1")).await.expect("write");
    node.lease.end();
    assert_eq!(value(node, "k").await, (Some("v1".to_owned()), Source::Bypass(Bypass::Lease)));
}

/// A change that moves the test user's slot to a second, registered node.
pub(crate) async fn begin_change(node: &Node) -> ChangeId {
    let claimed = node
        .origin
        .claim_node(&id("n2"), "127.0.0.1:2", Weight::default(), &Pool::default(), LEASE)
        .await
        .expect("claim");
    assert!(matches!(claimed, origin::ClaimOutcome::Claimed { .. }));
    let member = |name: &str| Member { id: id(name), weight: Weight::default() };
    let change = NewChange {
        action: "add-node n2".to_owned(),
        from_epoch: Epoch(1),
        members: vec![member("n1"), member("n2")],
        moves: vec![SlotMove::new(name("k").slot, id("n1"), id("n2"))],
        operator: "test".to_owned(),
    };
    match node.origin.begin_change(&change).await.expect("begin") {
        origin::BeginOutcome::Begun(change) => change,
        other => panic!("{other:?}"),
    }
}
