//! Two nodes over one database file: what a stream brings is served after the flip, and only then, and only if all fits.

use std::sync::Arc;
use std::time::Duration;

use origin::{AbortOutcome, BeginOutcome, DatabaseUrl, FlipOutcome, NewChange, OpenOptions, Origin, SealedSlot};
use placement::freshness::Bypass;
use placement::ring::SlotMove;
use placement::{ChangeId, Epoch, Member, Ring, Weight};
use service::listen::{ServeOptions, serve};
use tokio_util::sync::CancellationToken;
use wire::control::{CopyReceiver, CopyRequest, CopyState, SealReport};

use crate::config::Config;
use crate::http::App;
use crate::interleavings::{LEASE, claim, id, name, put, value};
use crate::node::{Node, Refreshed};
use crate::read_path::Source;

mod ends;

struct Pair {
    owner: Arc<Node>,
    receiver: Arc<Node>,
    stop: CancellationToken,
    _dir: tempfile::TempDir,
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

const COLD: Source = Source::Origin { l2_asked: false, l2_stored: false };

/// "n1" owns every slot; "n2" is registered and takes streams. No polls, no heartbeats.
async fn pair(adjust: impl Fn(&mut Config)) -> Pair {
    let dir = tempfile::tempdir().expect("temp dir");
    let url: DatabaseUrl = format!("sqlite://{}/db", dir.path().display()).parse().expect("url");
    let stop = CancellationToken::new();
    let mut nodes = Vec::new();
    for node in ["n1", "n2"] {
        let origin = Origin::open(&url, OpenOptions::default()).expect("open");
        origin.migrate().await.expect("migrate");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let audit_every = u64::MAX;
        let mut config = Config { lease_ttl: LEASE, audit_every, ..Config::with_defaults(id(node), address) };
        adjust(&mut config);
        let node = Arc::new(Node::new(config, origin));
        claim(&node).await;
        tokio::spawn(crate::renewals::run(Arc::clone(&node), stop.clone()));
        let app = App::new(Arc::clone(&node));
        tokio::spawn(serve(listener, app, ServeOptions::default(), stop.clone()));
        nodes.push(node);
    }
    let members = vec![Member { id: id("n1"), weight: Weight::default() }];
    let ring = Ring::new(Epoch(1), members, |_| id("n1")).expect("ring");
    nodes[0].origin.init_ring(&ring).await.expect("init");
    for node in &nodes {
        assert_eq!(node.refresh_slots().await, Ok(Refreshed::Current));
    }
    let receiver = nodes.pop().expect("two");
    Pair { owner: nodes.pop().expect("two"), receiver, stop, _dir: dir }
}

impl Pair {
    /// A change that moves the test user's slot to "n2".
    async fn begin(&self, epoch: u64) -> ChangeId {
        let member = |node| Member { id: id(node), weight: Weight::default() };
        let change = NewChange {
            action: "add-node n2".to_owned(),
            from_epoch: Epoch(epoch),
            members: vec![member("n1"), member("n2")],
            moves: vec![SlotMove::new(name("k").slot, id("n1"), id("n2"))],
            operator: "test".to_owned(),
        };
        match self.owner.origin.begin_change(&change).await.expect("begin") {
            BeginOutcome::Begun(change) => change,
            other => panic!("{other:?}"),
        }
    }

    fn request(&self) -> CopyRequest {
        let address = self.receiver.config.advertise.clone();
        let receivers = vec![CopyReceiver { node: id("n2"), address, slots: vec![name("k").slot], leaves: None }];
        CopyRequest { receivers, max_bytes_per_second: None }
    }

    /// Returns when the stream has reached this state.
    async fn copied(&self, change: ChangeId, wanted: impl Fn(&CopyState) -> bool) -> wire::control::CopyStream {
        for _ in 0..2000 {
            let report = self.owner.copy(change, &self.request()).expect("copies");
            if let [stream] = report.streams.as_slice()
                && wanted(&stream.state)
            {
                return stream.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("not in time: {:?}", self.owner.copy(change, &self.request()));
    }

    async fn caught_up(&self, change: ChangeId) -> wire::control::CopyStream {
        self.copied(change, |state| *state == CopyState::CaughtUp).await
    }

    /// Seals, journals and flips; whether a stream was complete.
    async fn sealed(&self, change: ChangeId) -> SealReport {
        let report = self.owner.seal(change, &[name("k").slot]).await.expect("sealed");
        let seal = SealedSlot {
            slot: name("k").slot,
            owner: id("n1"),
            owner_incarnation: report.incarnation,
            tenure: report.slots[0].tenure,
            stream: report.streams.first().map(|stream| stream.stream.clone()),
            receiver: id("n2"),
            receiver_incarnation: self.receiver.status.incarnation(),
        };
        assert!(self.owner.origin.record_seal(change, &[seal]).await.expect("recorded"));
        report
    }

    async fn flip(&self, change: ChangeId) {
        let flipped = self.owner.origin.flip_change(change).await.expect("flips");
        assert!(matches!(flipped, FlipOutcome::Flipped { .. }), "{flipped:?}");
    }

    /// Seal, flip, and the receiver learns of it.
    async fn flipped(&self, change: ChangeId) -> SealReport {
        let report = self.sealed(change).await;
        self.flip(change).await;
        assert_eq!(self.receiver.refresh_slots().await, Ok(Refreshed::Current));
        report
    }
}

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_absences_and_writes_during_the_copy_are_served_from_the_receivers_memory() {
    let pair = pair(|_| ()).await;
    for (key, was) in [("held", "h"), ("replaced", "old"), ("deleted", "old")] {
        pair.owner.write(put(key, was)).await.expect("write");
    }
    value(&pair.owner, "absent").await;
    let change = pair.begin(1).await;
    let stream = pair.caught_up(change).await;
    assert_eq!((stream.entries_total, stream.entries_copied), (4, 4));
    assert_eq!(stream.bytes_copied, stream.bytes_total);
    pair.owner.write(put("replaced", "new")).await.expect("write");
    pair.owner.write(put("added", "a")).await.expect("write");
    let delete = crate::write_path::WriteRequest { kind: origin::WriteKind::Delete, ..put("deleted", "") };
    pair.owner.write(delete).await.expect("write");
    assert_eq!(pair.flipped(change).await.streams.len(), 1);
    let reads = pair.receiver.metrics.origin_reads.get();
    for (key, expected) in
        [("held", text("h")), ("replaced", text("new")), ("added", text("a")), ("deleted", None), ("absent", None)]
    {
        assert_eq!(value(&pair.receiver, key).await, (expected, Source::L1), "{key}");
    }
    assert_eq!(pair.receiver.metrics.origin_reads.get(), reads);
    assert_eq!(pair.receiver.metrics.adopted_slots.get(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_served_before_the_flip_and_the_old_owner_may_let_go_first() {
    let pair = pair(|_| ()).await;
    pair.owner.write(put("k", "v")).await.expect("write");
    let change = pair.begin(1).await;
    pair.caught_up(change).await;
    assert!(pair.receiver.read(&name("k")).await.is_err(), "not the owner yet");
    pair.sealed(change).await;
    assert_eq!(value(&pair.owner, "k").await, (text("v"), Source::Bypass(Bypass::Sealed)));
    pair.flip(change).await;
    // The old owner's end of the stream closes with its loss; what is complete stays.
    pair.owner.settle(change).await.expect("settled");
    pair.receiver.handoff.tasks.close();
    pair.receiver.handoff.tasks.wait().await;
    pair.receiver.refresh_slots().await.expect("refreshed");
    assert_eq!(value(&pair.receiver, "k").await, (text("v"), Source::L1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_aborted_change_has_brought_is_not_served_after_the_next() {
    let pair = pair(|_| ()).await;
    pair.owner.write(put("k", "old")).await.expect("write");
    let first = pair.begin(1).await;
    pair.caught_up(first).await;
    pair.sealed(first).await;
    assert_eq!(pair.owner.origin.abort_change(first, "by the test").await, Ok(AbortOutcome::Aborted));
    let stream = Arc::clone(&pair.owner.handoff.streams()[0]);
    pair.owner.settle(first).await.expect("settled");
    assert!(pair.owner.streamed_changes().is_empty());
    assert!(matches!(stream.next(), Ok(super::outgoing::Next::Over)), "its connection is closed");
    pair.owner.write(put("k", "new")).await.expect("the slot takes writes again");
    let second = pair.begin(1).await;
    assert_eq!(pair.flipped(second).await.streams, [], "nothing was copied for this change");
    assert_eq!(value(&pair.receiver, "k").await, (text("new"), COLD));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_keeps_what_is_left_of_its_lifetime_and_an_expired_one_does_not_travel() {
    let ttl = Duration::from_millis(1500);
    let pair = pair(|config| config.l1_ttl = ttl).await;
    pair.owner.write(put("expired", "v")).await.expect("write");
    tokio::time::sleep(ttl).await;
    let stored = std::time::Instant::now();
    pair.owner.write(put("aged", "v")).await.expect("write");
    tokio::time::sleep(ttl / 3).await;
    let change = pair.begin(1).await;
    pair.caught_up(change).await;
    pair.flipped(change).await;
    assert_eq!(value(&pair.receiver, "expired").await.1, COLD);
    assert_eq!(value(&pair.receiver, "aged").await.1, Source::L1);
    tokio::time::sleep((ttl.mul_f64(1.1) + Duration::from_millis(100)).saturating_sub(stored.elapsed())).await;
    assert_eq!(value(&pair.receiver, "aged").await.1, COLD);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_value_passes_and_a_larger_one_ends_the_stream_not_the_node() {
    let pair = pair(|config| {
        config.max_value_bytes = if config.node_id == id("n1") { 4 << 20 } else { 1 << 20 };
    })
    .await;
    let large = vec![b'x'; 1 << 20].leak();
    pair.owner.write(put("k", std::str::from_utf8(large).expect("ascii"))).await.expect("write");
    let change = pair.begin(1).await;
    pair.caught_up(change).await;
    let larger = vec![b'y'; 3 << 20].leak();
    pair.owner.write(put("larger", std::str::from_utf8(larger).expect("ascii"))).await.expect("write");
    pair.copied(change, |state| matches!(state, CopyState::Broken(why) if why.contains("refused"))).await;
    pair.owner.l1.remove(&name("larger"));
    let again = pair.caught_up(change).await;
    assert_eq!(again.entries_copied, 1);
    pair.flipped(change).await;
    assert_eq!(value(&pair.receiver, "k").await.1, Source::L1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_copy_goes_on_with_writes_and_then_with_the_rest() {
    let pair = pair(|_| ()).await;
    for key in ["a", "b", "c"] {
        pair.owner.write(put(key, "v")).await.expect("write");
    }
    let change = pair.begin(1).await;
    let paused = CopyRequest { max_bytes_per_second: Some(0), ..pair.request() };
    pair.owner.copy(change, &paused).expect("copies");
    pair.owner.write(put("a", "new")).await.expect("write");
    for _ in 0..2000 {
        if pair.receiver.metrics.taken_entries.get() > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stream = &pair.owner.copy(change, &paused).expect("copies").streams[0];
    assert_eq!((stream.entries_copied, &stream.state), (0, &CopyState::Copying), "the write has passed, no copy has");
    pair.caught_up(change).await;
    pair.flipped(change).await;
    for (key, expected) in [("a", "new"), ("b", "v"), ("c", "v")] {
        assert_eq!(value(&pair.receiver, key).await, (text(expected), Source::L1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_with_a_write_of_unknown_outcome_does_not_reach_the_receiver() {
    let pair = pair(|_| ()).await;
    pair.owner.write(put("k", "old")).await.expect("write");
    let change = pair.begin(1).await;
    pair.caught_up(change).await;
    // 1. a write is sent, and its connection lost; 2. it lands; 3. a renewal settles it; 4. seal and flip.
    drop(pair.owner.register_for_test(&name("k")).sent_for_test());
    let tenure = pair.owner.slots.lock(name("k").slot).hold.tenure();
    let write = origin::FencedWrite {
        slot: name("k").slot,
        tenure,
        user: name("k").user,
        key: name("k").key,
        kind: put("k", "new").kind,
        precondition: origin::Precondition::None,
    };
    let landed = pair.owner.origin.write_entry(&write).await;
    let fenced = matches!(landed, Ok(origin::WriteAnswer::Fenced));
    pair.flipped(change).await;
    let expected = text(if fenced { "old" } else { "new" });
    assert_eq!(value(&pair.receiver, "k").await, (expected, COLD));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_ends_during_the_copy_is_handed_on_too() {
    let pair = pair(|_| ()).await;
    pair.owner.write(put("k", "v")).await.expect("write");
    pair.owner.l1.remove(&name("k"));
    let change = pair.begin(1).await;
    assert_eq!(pair.caught_up(change).await.entries_total, 0);
    assert_eq!(value(&pair.owner, "k").await.1, COLD);
    pair.flipped(change).await;
    assert_eq!(value(&pair.receiver, "k").await, (text("v"), Source::L1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_an_audit_finds_wrong_does_not_reach_the_receiver_though_it_was_copied() {
    let pair = pair(|_| ()).await;
    let owner = &pair.owner;
    owner.write(put("k", "right")).await.expect("write");
    owner.write(put("other", "wrong")).await.expect("write");
    let wrong = owner.read(&name("other")).await.expect("read").content;
    owner.l1.put(name("k"), owner.slots.lock(name("k").slot).hold.reign(), wrong, None);
    let change = pair.begin(1).await;
    pair.caught_up(change).await;
    let read = owner.read_under_guard(&name("k")).await.expect("read");
    owner.audit(&name("k"), &read);
    owner.work.close();
    owner.work.wait().await;
    assert_eq!(owner.metrics.audit.dropped.get(), 1);
    pair.flipped(change).await;
    assert_eq!(value(&pair.receiver, "k").await, (text("right"), COLD));
}
