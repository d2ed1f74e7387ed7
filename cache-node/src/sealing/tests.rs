//! Seals that meet writes, renewals, and changes that are over, each step made by hand on a real node over SQLite.

use std::sync::Arc;

use origin::{BeginOutcome, FlipOutcome, NewChange, SealedSlot};
use placement::freshness::Bypass;
use placement::ring::SlotMove;
use placement::{ChangeId, Epoch, Incarnation, Member, Slot, Weight};

use super::*;
use crate::interleavings::{begin_change, fixture, id, name, put, slot_row, value};
use crate::read_path::Source;

#[tokio::test(flavor = "multi_thread")]
async fn a_seal_waits_for_writes_in_progress_and_the_tenure_stays_after_it() {
    let fixture = fixture().await;
    let node = &fixture.node;
    let change = begin_change(node).await;
    let registered = node.register_for_test(&name("k"));
    let moving = [name("k").slot];
    let mut sealing = Box::pin(node.seal(change, &moving));
    assert!(futures_util::poll!(sealing.as_mut()).is_pending());
    drop(registered);
    let report = sealing.await.expect("sealed");
    // A renewal asked for now would only make the flip fail: it is not made.
    node.renewals.ask(name("k").slot, crate::renewals::Want::Keep, report.slots[0].tenure);
    node.refresh_slots().await.expect("refresh");
    assert_eq!(slot_row(node, name("k").slot).1, report.slots[0].tenure.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seal_waits_for_a_renewal_on_its_way_and_tells_the_tenure_after_it() {
    let fixture = fixture().await;
    let (node, slot) = (Arc::clone(&fixture.node), name("k").slot);
    let before = slot_row(&node, slot).1;
    // 1. a RENEW is on its way; 2. the slot is sealed; 3. the RENEW lands.
    node.slots.lock(slot).renewing = true;
    let sealing = tokio::spawn({
        let node = Arc::clone(&node);
        async move { node.seal_planned(ChangeId(1), &[slot]).await }
    });
    while node.slots.lock(slot).hold.sealed().is_none() {
        tokio::task::yield_now().await;
    }
    let held = [(slot, placement::Tenure(before))];
    let rows = node.origin.renew_tenure(&node.config.node_id, &held, &origin::L2SpaceChange::Keep).await;
    assert!(!sealing.is_finished());
    node.apply_rows(&rows.expect("renewed"), node.slots.era());
    let mut state = node.slots.lock(slot);
    state.renewing = false;
    state.publish();
    let report = sealing.await.expect("task").expect("sealed");
    assert!(report.slots[0].tenure.0 > before);
    assert_eq!(report.slots[0].tenure.0, slot_row(&node, slot).1);
}

/// Flips the change that moves the test user's slot to "n2", and then one that brings it back.
async fn there_and_back(node: &Node, change: ChangeId, report: &wire::control::SealReport) {
    let slot = name("k").slot;
    let sealed = |owner: &str, receiver: &str, tenure| SealedSlot {
        slot,
        owner: id(owner),
        owner_incarnation: Incarnation(1),
        tenure,
        stream: None,
        receiver: id(receiver),
        receiver_incarnation: Incarnation(1),
    };
    let flip = async |change, seal: SealedSlot| {
        assert_eq!(node.origin.record_seal(change, &[seal]).await, Ok(true));
        let flipped = node.origin.flip_change(change).await;
        assert!(matches!(flipped, Ok(FlipOutcome::Flipped { .. })), "{flipped:?}");
        assert_eq!(node.origin.finish_change(change).await, Ok(true));
    };
    flip(change, sealed("n1", "n2", report.slots[0].tenure)).await;
    node.refresh_slots().await.expect("refresh");
    let back = NewChange {
        action: "remove-node n2".to_owned(),
        from_epoch: Epoch(2),
        members: vec![Member { id: id("n1"), weight: Weight::default() }],
        moves: vec![SlotMove::new(slot, id("n2"), id("n1"))],
        operator: "test".to_owned(),
    };
    let Ok(BeginOutcome::Begun(second)) = node.origin.begin_change(&back).await else { panic!("not begun") };
    let state = node.origin.ring_state().await.expect("a read").expect("a ring");
    flip(second, sealed("n2", "n1", state.slots[slot.index()].tenure)).await;
    node.refresh_slots().await.expect("refresh");
    assert!(node.slots.lock(slot).hold.is_mine());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seal_of_a_change_that_is_over_is_refused() {
    let fixture = fixture().await;
    let (node, slot) = (&fixture.node, name("k").slot);
    let change = begin_change(node).await;
    let other = Slot::all().find(|&other| other != slot).expect("many slots");
    assert_eq!(node.seal(change, &[other]).await, Err(SealRefused::NotPlanned), "the change does not move it");
    assert_eq!(node.seal(ChangeId(99), &[slot]).await, Err(SealRefused::NotPlanned), "no such change");
    let report = node.seal(change, &[slot]).await.expect("sealed");
    there_and_back(node, change, &report).await;
    assert_eq!(node.seal(change, &[slot]).await, Err(SealRefused::NotPlanned), "it is over");
    assert!(node.write(put("k", "v1")).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seal_that_comes_when_its_change_has_flipped_long_ago_does_not_stay() {
    let fixture = fixture().await;
    let (node, slot) = (&fixture.node, name("k").slot);
    let change = begin_change(node).await;
    // 1. a second request has read the journal and is held up; 2. the change is over and the slot back; 3. it goes on.
    let report = node.seal(change, &[slot]).await.expect("sealed");
    there_and_back(node, change, &report).await;
    node.seal_planned(change, &[slot]).await.expect("sealed");
    assert_eq!(value(node, "k").await.1, Source::Bypass(Bypass::Sealed));
    assert!(!node.settle(change).await.expect("settle").still_sealed);
    assert!(node.write(put("k", "v1")).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flip_is_confirmed_by_one_read_of_the_table_and_one_that_was_heard_of_by_none() {
    let fixture = fixture().await;
    let (node, slot) = (&fixture.node, name("k").slot);
    let change = begin_change(node).await;
    let report = node.seal(change, &[slot]).await.expect("sealed");
    let seal = SealedSlot {
        slot,
        owner: id("n1"),
        owner_incarnation: Incarnation(1),
        tenure: report.slots[0].tenure,
        stream: None,
        receiver: id("n2"),
        receiver_incarnation: Incarnation(1),
    };
    assert_eq!(node.origin.record_seal(change, &[seal]).await, Ok(true));
    assert!(matches!(node.origin.flip_change(change).await, Ok(FlipOutcome::Flipped { .. })));
    for reads in [1, 0] {
        let before = node.refreshes();
        assert!(!node.settle(change).await.expect("settle").still_sealed);
        assert_eq!(node.refreshes() - before, reads);
        assert!(!node.slots.lock(slot).hold.is_mine());
    }
}
