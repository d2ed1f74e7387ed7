//! Changes that fail before the flip: given up, with the ring as it was.

use migrator::Failure;
use migrator::driver::Driver;
use placement::{ChangeId, Phase};
use tokio_util::sync::CancellationToken;

use crate::fake_cluster::{FakeCluster, Manners, add};

/// Runs `add-node n4`, which must be given up and leave no trace but its reason.
async fn given_up(cluster: &FakeCluster, stop: CancellationToken) -> String {
    let before = cluster.map().await;
    let plan = cluster.plan(&add("n4")).await;
    let failure = Driver::new(cluster.tools(), stop).run(&plan.change("me".to_owned())).await.expect_err("given up");
    let Failure::Aborted { change, reason } = &failure else { panic!("not aborted: {failure}") };
    assert_eq!((failure.code(), failure.next()), (4, None));
    assert_eq!(cluster.map().await, before);
    let row = cluster.origin.change(*change).await.expect("a read").expect("a change");
    assert_eq!((row.phase, row.reason.as_ref()), (Phase::Aborted, Some(reason)));
    assert!(cluster.nodes.values().all(|fake| fake.sealed_for() != Some(*change)), "a node is still sealed");
    reason.clone()
}

#[tokio::test]
async fn a_refused_seal_gives_the_change_up_and_the_others_unseal() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    cluster.node("n2").behave(Manners::RefusesSeal);
    let reason = given_up(&cluster, CancellationToken::new()).await;
    assert!(reason.contains("n2 did not seal its slots") && reason.contains("not today"), "{reason}");
    cluster.node("n2").behave(Manners::Good);
    let plan = cluster.plan(&add("n4")).await;
    let again = Driver::new(cluster.tools(), CancellationToken::new()).run(&plan.change("me".to_owned())).await;
    assert!(again.is_ok(), "the same change succeeds once the node is well: {again:?}");
}

#[tokio::test]
async fn a_flip_that_the_database_refuses_gives_the_change_up() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    cluster.node("n3").behave(Manners::RenewsAfterSeal);
    let reason = given_up(&cluster, CancellationToken::new()).await;
    assert!(reason.starts_with("1 of ") && reason.ends_with("slots changed since the seal"), "{reason}");
}

#[tokio::test]
async fn a_signal_before_the_flip_gives_the_change_up() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    cluster.node("n1").behave(Manners::HoldsSeal);
    let stop = CancellationToken::new();
    let signal = async {
        cluster.node("n1").asked_to_seal().await;
        stop.cancel();
    };
    let (reason, ()) = tokio::join!(given_up(&cluster, stop.clone()), signal);
    assert!(reason.contains("interrupted by a signal"), "{reason}");
}

#[tokio::test]
async fn an_old_owner_that_dies_under_way_gives_the_change_up() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    let plan = cluster.plan(&add("n4")).await;
    cluster.end_lease("n2").await;
    let driver = Driver::new(cluster.tools(), CancellationToken::new());
    let failure = driver.run(&plan.change("me".to_owned())).await.expect_err("given up");
    assert_eq!(failure.code(), 4);
    assert!(failure.to_string().contains("n2 is down (its lease is over) and owns moving slots"), "{failure}");
}

#[tokio::test]
async fn another_operator_may_abort_a_running_change() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    let before = cluster.map().await;
    cluster.node("n1").behave(Manners::HoldsSeal);
    let plan = cluster.plan(&add("n4")).await;
    let driver = Driver::new(cluster.tools(), CancellationToken::new());
    let change = plan.change("me".to_owned());
    let running = tokio::spawn(async move { driver.run(&change).await });
    cluster.node("n1").asked_to_seal().await;
    let active = cluster.origin.active_change().await.expect("a read").expect("a change");
    let other = Driver::new(cluster.tools(), CancellationToken::new());
    other.give_up(&active, "somebody else wants it so").await.expect("aborted");
    cluster.node("n1").open_gate();
    let failure = running.await.expect("no panic").expect_err("aborted");
    assert!(matches!(&failure, Failure::Aborted { reason, .. } if reason == "somebody else wants it so"), "{failure}");
    assert_eq!(cluster.map().await, before);
}

#[tokio::test]
async fn nothing_active_is_said_and_nothing_changes() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    let before = cluster.map().await;
    let failure = Driver::new(cluster.tools(), CancellationToken::new()).resume().await.expect_err("nothing to do");
    assert_eq!((failure.code(), failure.to_string().as_str()), (1, "no ring change is active; nothing was changed"));
    assert_eq!(cluster.map().await, before);
    assert_eq!(cluster.origin.change(ChangeId(1)).await, Ok(None));
}
