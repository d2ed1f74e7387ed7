//! Copies that come to their end, and what the summary says of them.

use std::time::Duration;

use migrator::copy_order::{CopyOrder, CopyWaits};
use migrator::driver::Driver;
use migrator::pace::Bounds;
use migrator::plan::Verb;
use migrator::status;
use migrator::summary::Summary;
use origin::{BeginOutcome, ChangeRow};
use placement::Phase;
use tokio_util::sync::CancellationToken;

use crate::fake_cluster::{BYTES_PER_SLOT, ENTRIES_PER_SLOT, FakeCluster, add, node};
use crate::fake_copy::Copies;

/// Quick to look and quick to lose patience; a survey is still long enough for a window of load.
pub(crate) const COPY_WAITS: CopyWaits = CopyWaits {
    poll: Duration::from_millis(10),
    survey: Duration::from_millis(250),
    reopen: Duration::from_millis(20),
    stall: Duration::from_millis(1_500),
    conflict: Duration::from_millis(300),
    pauses: Duration::from_secs(60),
    database: Duration::from_secs(30),
};

pub(crate) fn order() -> CopyOrder {
    CopyOrder { waits: COPY_WAITS, ..CopyOrder::default() }
}

pub(crate) fn driver(cluster: &FakeCluster, order: CopyOrder) -> Driver {
    Driver::new(cluster.tools(), CancellationToken::new()).copying(order)
}

async fn done(cluster: &FakeCluster, verb: &Verb, order: CopyOrder) -> (Summary, ChangeRow) {
    let plan = cluster.plan(verb).await;
    let summary = driver(cluster, order).run(&plan.change("me".to_owned())).await.expect("done");
    let row = cluster.origin.change(summary.change).await.expect("a read").expect("a change");
    assert_eq!((row.phase, summary.moved_slots), (Phase::Done, plan.moves.len()));
    (summary, row)
}

#[tokio::test]
async fn every_entry_is_copied_and_every_seal_names_its_stream() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    cluster.nodes.values().for_each(|fake| fake.copying.behave(Copies::Entries(1_000)));
    cluster.node("n4").holds(ENTRIES_PER_SLOT - 1);
    let (summary, row) = done(&cluster, &add("n4"), order()).await;
    let slots = summary.moved_slots as u64;
    assert_eq!(
        (summary.copied_entries, summary.copied_bytes, summary.cold_slots),
        (slots * ENTRIES_PER_SLOT, slots * BYTES_PER_SLOT, 0)
    );
    assert!(row.seal.iter().all(|sealed| sealed.stream.is_some() && sealed.receiver == node("n4")));
    assert_eq!(summary.warm_share, Some(0.9), "the receiver kept nine of ten");
    assert!(summary.write_pause_ms.is_some());
    assert!(summary.origin_reads.is_some_and(|reads| reads > 0 && reads.is_multiple_of(5)), "{summary:?}");
    for part in ["entries, ", "90.0 % of the entries", "write pause", "database reads", "copy keys"] {
        assert!(summary.text().contains(part), "{part} is missing in\n{}", summary.text());
    }
    let rates: Vec<_> = cluster.nodes.values().map(|fake| fake.copying.rate()).collect();
    assert_eq!(rates, [Some(None), Some(None), Some(None), None], "old owners were asked, without a bound");
}

#[tokio::test]
async fn a_rate_is_shared_by_all_old_owners() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    done(&cluster, &add("n4"), CopyOrder { max_bytes_per_second: Some(300_000), ..order() }).await;
    for name in ["n1", "n2", "n3"] {
        assert_eq!(cluster.node(name).copying.rate(), Some(Some(100_000)), "{name}");
    }
}

#[tokio::test]
async fn a_cold_change_copies_nothing() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    let (summary, row) = done(&cluster, &add("n4"), CopyOrder { cold: true, ..order() }).await;
    assert_eq!((summary.copied_entries, summary.cold_slots), (0, summary.moved_slots));
    assert!(row.seal.iter().all(|sealed| sealed.stream.is_none()));
    assert!(cluster.nodes.values().all(|fake| fake.copying.rate().is_none()), "nobody was asked");
}

#[tokio::test]
async fn a_node_in_anothers_place_gets_its_entries() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    let verb = Verb::ReplaceNode { old: node("n2"), new: node("n4"), weight: None };
    let (summary, row) = done(&cluster, &verb, order()).await;
    assert!(row.moves.iter().all(|moving| moving.from == node("n2") && moving.to == node("n4")));
    assert_eq!(summary.copied_entries, summary.moved_slots as u64 * ENTRIES_PER_SLOT);
    let members: Vec<_> = cluster.ring().await.members.into_iter().map(|member| member.id).collect();
    assert_eq!(members, ["n1", "n3", "n4"].map(node));
}

#[tokio::test]
async fn a_copy_pauses_while_users_wait_and_never_seals_meanwhile() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    cluster.node("n3").copying.is_slow(true);
    // Long enough for two windows.
    cluster.node("n1").copying.behave(Copies::Entries(1));
    let bounds = Bounds { max_p99: Some(Duration::from_millis(250)), ..Bounds::default() };
    let plan = cluster.plan(&add("n4")).await;
    let driver = driver(&cluster, CopyOrder { bounds, ..order() });
    let change = plan.change("me".to_owned());
    let running = tokio::spawn(async move { driver.run(&change).await });
    let n1 = &cluster.node("n1").copying;
    n1.asked_for_rate(Some(0)).await;
    // Nothing is left to copy: only the pause holds the seal back.
    n1.behave(Copies::Entries(u64::MAX));
    let now = status::read(&cluster.origin).await.expect("a status");
    assert_eq!(now.change.expect("a change").what.phase, Phase::Copy);
    assert!(cluster.nodes.values().all(|fake| fake.sealed_for().is_none()));
    cluster.node("n3").copying.is_slow(false);
    n1.asked_for_rate(None).await;
    let summary = running.await.expect("no panic").expect("done");
    assert_eq!(summary.cold_slots, 0);
}

#[tokio::test]
async fn a_copy_is_carried_on_by_another_migrator_which_says_that_it_does() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    let plan = cluster.plan(&add("n4")).await;
    let begun = cluster.origin.begin_change(&plan.change("the dead".to_owned())).await.expect("an answer");
    let BeginOutcome::Begun(id) = begun else { panic!("not begun: {begun:?}") };
    cluster.node("n1").copying.behave(Copies::Entries(0));
    let driver =
        driver(&cluster, CopyOrder { waits: CopyWaits { stall: Duration::from_secs(60), ..COPY_WAITS }, ..order() });
    let running = tokio::spawn(async move { driver.resume().await });
    cluster.node("n1").copying.asked().await;
    let attended = async {
        loop {
            let row = cluster.origin.change(id).await.expect("a read").expect("a change");
            if row.attended && row.operator == migrator::operator::name() {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), attended).await.expect("the new operator is named");
    let now = status::read(&cluster.origin).await.expect("a status");
    let change = now.change.as_ref().expect("a change");
    assert_eq!((change.attended, change.step), (true, "[2/4] copy keys"));
    assert!(now.text().contains("still running"), "{}", now.text());
    cluster.node("n1").copying.behave(Copies::Entries(u64::MAX));
    let summary = running.await.expect("no panic").expect("done");
    assert_eq!((summary.change, summary.cold_slots), (id, 0));
    let row = cluster.origin.change(id).await.expect("a read").expect("a change");
    assert!(!row.attended, "nobody attends to what is over");
}
