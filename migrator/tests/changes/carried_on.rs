//! A migrator that dies between any two phases: another carries the change on, or gives it up while that is possible.

use std::time::Duration;

use migrator::Failure;
use migrator::driver::Driver;
use migrator::phases::flip_epoch;
use migrator::progress::{Progress, Step};
use origin::{BeginOutcome, FlipOutcome};
use placement::{ChangeId, Epoch, Phase};
use tokio_util::sync::CancellationToken;

use crate::fake_cluster::{FakeCluster, Manners, add, remove};

/// A cluster whose migrator died when `add-node n4` had come to this phase.
async fn died_in(phase: Phase) -> (FakeCluster, ChangeId) {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    let plan = cluster.plan(&add("n4")).await;
    let begun = cluster.origin.begin_change(&plan.change("the dead".to_owned())).await.expect("an answer");
    let BeginOutcome::Begun(id) = begun else { panic!("not begun: {begun:?}") };
    if phase != Phase::Copy {
        let change = cluster.origin.change(id).await.expect("a read").expect("a change");
        let progress = Progress::Silent.phase(Step::FlipEpoch, 0, "slots");
        let seal = flip_epoch::seal(&cluster.tools(), &change, &progress).await.expect("sealed");
        flip_epoch::record(&cluster.tools(), id, &seal).await.expect("recorded");
    }
    if phase == Phase::Flipped {
        assert_eq!(cluster.origin.flip_change(id).await, Ok(FlipOutcome::Flipped { epoch: Epoch(2) }));
    }
    assert_eq!(cluster.phase(id).await, phase);
    (cluster, id)
}

fn driver(cluster: &FakeCluster) -> Driver {
    Driver::new(cluster.tools(), CancellationToken::new())
}

#[tokio::test]
async fn resume_ends_with_the_new_ring_from_every_phase() {
    for phase in [Phase::Copy, Phase::Sealed, Phase::Flipped] {
        let (cluster, id) = died_in(phase).await;
        let summary = driver(&cluster).resume().await.expect("done");
        assert_eq!((summary.change, summary.epoch), (id, Epoch(2)), "{phase:?}");
        assert_eq!(summary.write_pause_ms.is_some(), phase == Phase::Copy, "only who seals knows the pause");
        let ring = cluster.ring().await;
        assert_eq!((ring.digest.epoch, ring.members.len()), (Epoch(2), 4), "{phase:?}");
        assert_eq!(cluster.phase(id).await, Phase::Done);
        assert!(cluster.nodes.values().all(|fake| fake.sealed_for().is_none()), "{phase:?}");
        assert!(matches!(driver(&cluster).resume().await, Err(Failure::NothingActive)));
    }
}

/// How long nodes let a write wait for a seal, less a leader's look and what carrying on takes.
const NOTICED: Duration = Duration::from_secs(2);

#[tokio::test]
async fn that_a_migrator_died_with_writes_waiting_is_noticed_before_they_are_refused() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    cluster.node("n1").behave(Manners::HoldsSeal);
    let (driver, plan) = (driver(&cluster), cluster.plan(&add("n4")).await);
    let migrator = tokio::spawn(async move { driver.run(&plan.change("the dead".to_owned())).await });
    cluster.node("n1").asked_to_seal().await;
    // While it lives it is attended to, however long a node keeps it waiting.
    let active = async || migrator::driver::active_change(&cluster.origin).await.expect("a change");
    tokio::time::sleep(NOTICED).await;
    assert!(active().await.attended);
    migrator.abort();
    assert!(migrator.await.is_err_and(|end| end.is_cancelled()));
    let noticed = async {
        while active().await.attended {
            tokio::time::sleep(Duration::from_millis(20)).await
        }
    };
    tokio::time::timeout(NOTICED, noticed).await.expect("noticed in time");
}

#[tokio::test]
async fn abort_before_the_flip_puts_the_old_ring_back() {
    for phase in [Phase::Copy, Phase::Sealed] {
        let (cluster, id) = died_in(phase).await;
        let before = cluster.map().await;
        let active = migrator::driver::active_change(&cluster.origin).await.expect("a change");
        driver(&cluster).give_up(&active, "no longer wanted").await.expect("aborted");
        assert_eq!((cluster.map().await, cluster.phase(id).await), (before, Phase::Aborted));
        assert!(cluster.nodes.values().all(|fake| fake.sealed_for().is_none()), "{phase:?}");
        let failure = migrator::driver::active_change(&cluster.origin).await.expect_err("nothing is active");
        assert!(matches!(failure, Failure::NothingActive));
    }
}

#[tokio::test]
async fn abort_after_the_flip_is_refused_and_points_to_resume() {
    let (cluster, id) = died_in(Phase::Flipped).await;
    let active = migrator::driver::active_change(&cluster.origin).await.expect("a change");
    let failure = driver(&cluster).give_up(&active, "too late").await.expect_err("refused");
    assert_eq!((failure.code(), failure.next().as_deref()), (1, Some("migrator resume")));
    assert_eq!(cluster.phase(id).await, Phase::Flipped);
}

#[tokio::test]
async fn an_old_owner_that_does_not_confirm_leaves_the_change_for_resume() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    cluster.node("n3").behave(Manners::StaysSealed);
    let plan = cluster.plan(&remove("n3")).await;
    let failure = driver(&cluster).run(&plan.change("me".to_owned())).await.expect_err("left");
    let Failure::Left { change, phase: Phase::Flipped, reason } = &failure else { panic!("not left: {failure}") };
    assert_eq!((failure.code(), failure.next().as_deref()), (1, Some("migrator resume")));
    assert!(
        reason.contains("n3 did not confirm the new ring") && reason.contains("still holds slots sealed"),
        "{reason}"
    );
    assert_eq!(cluster.map().await.0, Epoch(2), "the flip stands");
    // Without its lease it serves nothing from its caches, and counts as confirmed.
    cluster.end_lease("n3").await;
    let summary = driver(&cluster).resume().await.expect("done");
    assert_eq!(summary.change, *change);
}

#[tokio::test]
async fn a_signal_after_the_flip_does_not_keep_the_change_from_its_end() {
    let (cluster, id) = died_in(Phase::Flipped).await;
    let stop = CancellationToken::new();
    stop.cancel();
    Driver::new(cluster.tools(), stop).resume().await.expect("done");
    assert_eq!(cluster.phase(id).await, Phase::Done);
}

#[tokio::test]
async fn two_that_resume_at_once_both_see_the_change_done() {
    let (cluster, id) = died_in(Phase::Copy).await;
    let (first, second) = (driver(&cluster), driver(&cluster));
    let (one, other) = tokio::join!(first.resume(), second.resume());
    assert_eq!(one.expect("done").change, id);
    assert_eq!(other.expect("done").change, id);
    assert_eq!(cluster.map().await.0, Epoch(2), "flipped once");
}
