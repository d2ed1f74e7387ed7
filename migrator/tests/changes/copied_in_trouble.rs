//! Copies that meet trouble: streams that break, nodes that cannot copy, and copies that have to be given up.

use std::time::Duration;

use migrator::Failure;
use migrator::copy_order::{CopyOrder, CopyWaits};
use migrator::driver::Driver;
use migrator::pace::Bounds;
use placement::Phase;
use tokio_util::sync::CancellationToken;

use crate::copied::{COPY_WAITS, driver, order};
use crate::fake_cluster::{FakeCluster, add};
use crate::fake_copy::Copies;

/// Runs `add-node n4`, which must be given up while copying, and leave no trace but its reason.
async fn given_up(cluster: &FakeCluster, driver: Driver) -> String {
    let before = cluster.map().await;
    let plan = cluster.plan(&add("n4")).await;
    let failure = driver.run(&plan.change("me".to_owned())).await.expect_err("given up");
    let Failure::Aborted { change, reason } = &failure else { panic!("not aborted: {failure}") };
    assert_eq!((failure.code(), cluster.phase(*change).await), (4, Phase::Aborted));
    assert_eq!(cluster.map().await, before);
    assert!(cluster.nodes.values().all(|fake| fake.sealed_for().is_none()), "nobody was asked to seal");
    reason.clone()
}

#[tokio::test]
async fn streams_that_break_are_opened_again_and_the_copy_ends_whole() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    cluster.node("n2").copying.behave(Copies::AfterBreaks(2));
    let plan = cluster.plan(&add("n4")).await;
    let summary = driver(&cluster, order()).run(&plan.change("me".to_owned())).await.expect("done");
    assert_eq!(summary.cold_slots, 0);
    assert_eq!((cluster.node("n2").copying.opened(), cluster.node("n1").copying.opened()), (3, 1));
}

#[tokio::test]
async fn a_pair_whose_streams_break_three_times_gives_the_change_up() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    cluster.node("n2").copying.behave(Copies::AfterBreaks(3));
    let reason = given_up(&cluster, driver(&cluster, order())).await;
    for part in ["n2", "n4", "the receiver hung up", "--cold"] {
        assert!(reason.contains(part), "{part} is missing in {reason}");
    }
}

#[tokio::test]
async fn a_node_of_another_version_is_named_with_the_way_out() {
    for copies in [Copies::NoRoute, Copies::Refuses] {
        let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
        cluster.node("n3").copying.behave(copies);
        let reason = given_up(&cluster, driver(&cluster, order())).await;
        assert!(reason.starts_with("n3 does not copy"), "{reason}");
        assert!(reason.contains("another version, upgrade it first, or use --cold"), "{reason}");
        // And the way out leads out.
        let plan = cluster.plan(&add("n4")).await;
        let cold = driver(&cluster, CopyOrder { cold: true, ..order() });
        cold.run(&plan.change("me".to_owned())).await.expect("done");
    }
}

#[tokio::test]
async fn a_copy_in_which_nothing_moves_is_given_up() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    cluster.node("n1").copying.behave(Copies::Stuck);
    let reason = given_up(&cluster, driver(&cluster, order())).await;
    assert!(reason.contains("nothing was copied") && reason.contains("n1 to n4"), "{reason}");
}

#[tokio::test]
async fn a_copy_that_is_paused_for_too_long_is_given_up() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    cluster.node("n1").copying.behave(Copies::Stuck);
    let waits = CopyWaits { stall: Duration::from_secs(60), pauses: Duration::from_millis(600), ..COPY_WAITS };
    let bounds = Bounds { max_origin_reads: Some(1), ..Bounds::default() };
    let reason = given_up(&cluster, driver(&cluster, CopyOrder { waits, bounds, ..order() })).await;
    assert!(reason.contains("paused") && reason.contains("reads per second to the database"), "{reason}");
    assert_eq!(cluster.node("n2").copying.rate(), Some(Some(0)));
}

#[tokio::test]
async fn whoever_loses_its_lease_while_entries_are_copied_ends_the_change() {
    for (gone, role) in [("n2", "owns moving slots"), ("n4", "receives slots")] {
        let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
        cluster.node("n1").copying.behave(Copies::Stuck);
        let waits = CopyWaits { stall: Duration::from_secs(60), ..COPY_WAITS };
        let driver = driver(&cluster, CopyOrder { waits, ..order() });
        let dies = async {
            cluster.node("n1").copying.asked().await;
            cluster.end_lease(gone).await;
        };
        let (reason, ()) = tokio::join!(given_up(&cluster, driver), dies);
        assert_eq!(reason, format!("{gone} is down (its lease is over) and {role}"));
    }
}

#[tokio::test]
async fn a_signal_while_entries_are_copied_gives_the_change_up() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    cluster.node("n1").copying.behave(Copies::Stuck);
    let stop = CancellationToken::new();
    let signal = async {
        cluster.node("n1").copying.asked().await;
        stop.cancel();
    };
    let driver = Driver::new(cluster.tools(), stop.clone());
    let (reason, ()) = tokio::join!(given_up(&cluster, driver), signal);
    assert!(reason.contains("interrupted by a signal"), "{reason}");
}

#[tokio::test]
async fn a_copy_stops_when_another_operator_aborts_the_change() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    cluster.node("n1").copying.behave(Copies::Stuck);
    let waits = CopyWaits { stall: Duration::from_secs(60), ..COPY_WAITS };
    let driver_of_one = driver(&cluster, CopyOrder { waits, ..order() });
    let other = async {
        cluster.node("n1").copying.asked().await;
        let active = cluster.origin.active_change().await.expect("a read").expect("a change");
        driver(&cluster, order()).give_up(&active, "not wanted").await.expect("aborted");
    };
    let (reason, ()) = tokio::join!(given_up(&cluster, driver_of_one), other);
    assert_eq!(reason, "not wanted");
}
