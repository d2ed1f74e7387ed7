//! Streams that break, are refused or are overtaken: nothing of them is served.

use super::*;
use crate::handoff::offers::Receiving;

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_broke_before_its_end_leaves_the_receiver_cold() {
    let pair = pair(|_| ()).await;
    pair.owner.write(put("k", "v")).await.expect("write");
    let change = pair.begin(1).await;
    pair.caught_up(change).await;
    for stream in pair.owner.handoff.streams() {
        stream.break_off("by the test");
    }
    assert_eq!(pair.flipped(change).await.streams, []);
    assert_eq!(value(&pair.receiver, "k").await, (text("v"), COLD));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_opened_again_after_a_break_starts_from_nothing() {
    let pair = pair(|_| ()).await;
    pair.owner.write(put("kept", "v")).await.expect("write");
    pair.owner.write(put("gone", "v")).await.expect("write");
    let change = pair.begin(1).await;
    let first = pair.caught_up(change).await;
    pair.owner.handoff.streams()[0].break_off("by the test");
    // Between the streams nobody tells the receiver of changes.
    pair.owner.l1.remove(&name("gone"));
    pair.copied(change, |state| matches!(state, CopyState::Broken(_))).await;
    let second = pair.caught_up(change).await;
    assert_ne!(first.stream, second.stream);
    pair.flipped(change).await;
    assert_eq!(value(&pair.receiver, "kept").await, (text("v"), Source::L1));
    assert_eq!(value(&pair.receiver, "gone").await, (text("v"), COLD));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_was_fenced_meanwhile_starts_cold() {
    let pair = pair(|_| ()).await;
    pair.owner.write(put("k", "v")).await.expect("write");
    let change = pair.begin(1).await;
    pair.caught_up(change).await;
    // What `ownership::lease_renewal` does when another process has been this node.
    pair.receiver.slots.forget_all();
    pair.receiver.l1.clear();
    let sealed = pair.owner.seal(change, &[name("k").slot]).await.expect("sealed");
    assert_eq!(sealed.streams, [], "the receiver has forgotten the stream");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_to_a_wrong_address_or_version_is_broken_with_its_reason() {
    let pair = pair(|_| ()).await;
    let change = pair.begin(1).await;
    let mut request = pair.request();
    let reason_at = async |request: &CopyRequest| {
        for _ in 0..400 {
            let report = pair.owner.copy(change, request).expect("copies");
            if let CopyState::Broken(reason) = &report.streams[0].state {
                return reason.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("not broken");
    };
    request.receivers[0].node = id("n3");
    assert!(reason_at(&request).await.contains("this is n2, not n3"));
    request.receivers[0].node = id("n4");
    request.receivers[0].address = pair.owner.config.advertise.clone();
    assert!(reason_at(&request).await.contains("this is n1, not n4"));
    request.receivers[0].node = id("n5");
    request.receivers[0].address = "127.0.0.1:1".to_owned();
    assert!(reason_at(&request).await.contains("cannot be reached"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_does_not_outlive_the_reign_it_was_opened_under() {
    let pair = pair(|_| ()).await;
    pair.owner.write(put("k", "v")).await.expect("write");
    let change = pair.begin(1).await;
    pair.caught_up(change).await;
    // A takeover and the way back that nobody here has noticed: the slot is ours by a new gain.
    let release = pair.owner.origin.release_lease(&id("n1"), pair.owner.status.incarnation()).await;
    assert_eq!(release, Ok(true));
    claim(&pair.owner).await;
    let report = pair.owner.seal(change, &[name("k").slot]).await.expect("sealed");
    assert_eq!(report.streams, []);
    assert!(pair.owner.handoff.streams()[0].is_broken());
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_show_the_clusters_token_and_are_refused_without() {
    let shown = pair(|config| config.cluster_token = Some("s3cret".parse().expect("token"))).await;
    shown.owner.write(put("k", "v")).await.expect("write");
    let change = shown.begin(1).await;
    assert_eq!(shown.caught_up(change).await.entries_copied, 1);
    let refused = pair(|config| {
        config.cluster_token = (config.node_id == id("n2")).then(|| "s3cret".parse().expect("token"));
    })
    .await;
    let change = refused.begin(1).await;
    let broken = refused.copied(change, |state| matches!(state, CopyState::Broken(_))).await;
    assert!(matches!(broken.state, CopyState::Broken(why) if why.contains("(401)")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_takes_its_offers_along() {
    let pair = pair(|_| ()).await;
    let offered = || pair.receiver.slots.lock(name("k").slot).offer.is_some();
    let change = pair.begin(1).await;
    pair.caught_up(change).await;
    // An empty stream is caught up before its receiver has read anything.
    for _ in 0..2000 {
        if offered() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(offered());
    pair.owner.handoff.streams()[0].break_off("by the test");
    pair.receiver.handoff.tasks.close();
    pair.receiver.handoff.tasks.wait().await;
    assert!(!offered());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_stream_has_reigns_of_its_own_and_ends_no_other() {
    let pair = pair(|_| ()).await;
    let slot = name("k").slot;
    let open = |stream: &str| {
        let hello = wire::handoff::Hello {
            change: ChangeId(1),
            owner: id("n1"),
            receiver: id("n2"),
            slots: vec![slot],
            pinned: Vec::new(),
        };
        Receiving::open(Arc::clone(&pair.receiver), stream.into(), hello).expect("taken")
    };
    let reign = || pair.receiver.slots.lock(slot).offer.as_ref().expect("an offer").reign;
    let first = open("s1");
    let reign_of_first = reign();
    let _second = open("s2");
    assert_ne!(reign(), reign_of_first);
    drop(first);
    assert_eq!(pair.receiver.slots.lock(slot).offer.as_ref().map(|offer| &*offer.stream), Some("s2"));
}
