//! Changes around members that are down: they are in nobody's way, and leave by a takeover.

use std::time::{Duration, Instant};

use migrator::change::{self, Asked};
use migrator::plan::Verb;
use migrator::summary::Summary;
use migrator::{Failure, forecast, status};
use origin::{BeginOutcome, FlipOutcome};
use placement::{Epoch, NodeId, Phase};
use tokio_util::sync::CancellationToken;

use crate::copied::order;
use crate::fake_cluster::{FakeCluster, add, node, remove};

fn asked(verb: Verb, at_epoch: Option<u64>) -> Asked {
    Asked { verb, wait: Duration::from_secs(5), at_epoch: at_epoch.map(Epoch), copy: order() }
}

async fn run(cluster: &FakeCluster, verb: Verb, at_epoch: Option<u64>) -> Result<Summary, Failure> {
    change::run(&cluster.tools(), &asked(verb, at_epoch), CancellationToken::new()).await
}

/// A cluster of n1 to n3 without n3.
async fn without_n3() -> FakeCluster {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    cluster.end_lease("n3").await;
    cluster
}

async fn owned(cluster: &FakeCluster, name: &str) -> usize {
    cluster.map().await.1.iter().filter(|owner| **owner == node(name)).count()
}

async fn members(cluster: &FakeCluster) -> Vec<NodeId> {
    cluster.ring().await.members.into_iter().map(|member| member.id).collect()
}

#[tokio::test]
async fn a_node_joins_beside_a_dead_one_whose_slots_stay() {
    let cluster = without_n3().await;
    let before = owned(&cluster, "n3").await;
    let plan = cluster.plan(&add("n4")).await;
    let forecast = forecast::of_plan(&plan, &cluster.ring().await.nodes, &cluster.tools().nodes).await;
    assert!(forecast.text().contains("n3 is down and left out"), "{}", forecast.text());
    let summary = run(&cluster, add("n4"), Some(1)).await.expect("done");
    assert_eq!((summary.epoch, summary.cold_slots), (Epoch(2), 0));
    assert_eq!(owned(&cluster, "n3").await, before);
    assert_eq!(members(&cluster).await.len(), 4);
}

#[tokio::test]
async fn a_dead_node_is_removed_in_time_without_a_word_to_it() {
    let cluster = without_n3().await;
    let plan = cluster.plan(&remove("n3")).await;
    let forecast = forecast::of_plan(&plan, &cluster.ring().await.nodes, &cluster.tools().nodes).await;
    assert_eq!((forecast.taken_over_from, forecast.held[0].entries), (Some(node("n3")), None));
    assert_eq!(forecast.command, "migrator remove-node n3 --at-epoch 1");
    let began = Instant::now();
    let summary = run(&cluster, remove("n3"), Some(1)).await.expect("done");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!((summary.epoch, &summary.taken_over_from), (Epoch(2), &Some(node("n3"))));
    assert!(summary.text().contains("its memory is lost"), "{}", summary.text());
    assert_eq!((owned(&cluster, "n3").await, members(&cluster).await), (0, vec![node("n1"), node("n2")]));
    assert_eq!(cluster.phase(summary.change).await, Phase::Done);
    let failure = run(&cluster, remove("n3"), None).await.expect_err("it is gone");
    assert!(failure.to_string().contains("n3 is not a member"), "{failure}");
}

#[tokio::test]
async fn a_dead_node_is_replaced_by_a_standby() {
    let cluster = without_n3().await;
    let before = owned(&cluster, "n3").await;
    let verb = Verb::ReplaceNode { old: node("n3"), new: node("n4"), weight: None };
    run(&cluster, verb, None).await.expect("done");
    assert_eq!((owned(&cluster, "n4").await, owned(&cluster, "n3").await), (before, 0));
    assert_eq!(members(&cluster).await, ["n1", "n2", "n4"].map(node));
}

#[tokio::test]
async fn a_member_whose_slots_were_taken_over_is_shown_planned_around_and_removed() {
    let cluster = without_n3().await;
    let plan = cluster.plan(&remove("n3")).await;
    let mut order = plan.take_over("the controller".to_owned()).expect("a takeover");
    order.members = cluster.ring().await.members;
    cluster.origin.take_over(&order).await.expect("an answer");
    let now = status::read(&cluster.origin).await.expect("a status");
    assert_eq!((now.members.len(), now.members[2].slots), (3, 0));
    assert!(now.text().contains("| down"), "{}", now.text());
    run(&cluster, add("n4"), None).await.expect("done");
    assert_eq!(owned(&cluster, "n3").await, 0);
    let summary = run(&cluster, remove("n3"), None).await.expect("done");
    assert_eq!((summary.moved_slots, members(&cluster).await), (0, ["n1", "n2", "n4"].map(node).to_vec()));
}

#[tokio::test]
async fn a_change_that_waits_for_the_dead_is_ended_by_its_removal() {
    for phase in [Phase::Copy, Phase::Flipped] {
        let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
        let plan = cluster.plan(&add("n4")).await;
        let begun = cluster.origin.begin_change(&plan.change("the dead".to_owned())).await.expect("an answer");
        let BeginOutcome::Begun(id) = begun else { panic!("not begun: {begun:?}") };
        if phase == Phase::Flipped {
            let change = cluster.origin.change(id).await.expect("a read").expect("a change");
            let progress = migrator::Progress::Silent.phase(migrator::progress::Step::FlipEpoch, 0, "slots");
            let seal = migrator::phases::flip_epoch::seal(&cluster.tools(), &change, &progress).await.expect("sealed");
            migrator::phases::flip_epoch::record(&cluster.tools(), id, &seal).await.expect("recorded");
            assert!(matches!(cluster.origin.flip_change(id).await, Ok(FlipOutcome::Flipped { .. })));
        }
        cluster.end_lease("n3").await;
        let failure = run(&cluster, remove("n1"), None).await.expect_err("busy");
        assert_eq!(failure.code(), 3, "a living one waits for its turn");
        run(&cluster, remove("n3"), None).await.expect("done");
        let ended = if phase == Phase::Flipped { Phase::Done } else { Phase::Aborted };
        assert_eq!((cluster.phase(id).await, owned(&cluster, "n3").await), (ended, 0));
    }
}

#[tokio::test]
async fn somebody_elses_running_change_is_not_ended_by_a_removal_it_has_nothing_to_do_with() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    cluster.end_lease("n3").await;
    let plan = cluster.plan(&add("n4")).await;
    cluster.origin.begin_change(&plan.change("somebody".to_owned())).await.expect("begun");
    let failure = run(&cluster, remove("n3"), None).await.expect_err("busy");
    assert_eq!(failure.code(), 3, "{failure}");
    assert!(failure.to_string().contains("run by somebody"), "{failure}");
}

#[tokio::test]
async fn a_member_without_slots_leaves_and_nothing_moves() {
    let cluster = without_n3().await;
    let plan = cluster.plan(&remove("n3")).await;
    let mut order = plan.take_over("the controller".to_owned()).expect("a takeover");
    order.members = cluster.ring().await.members;
    cluster.origin.take_over(&order).await.expect("an answer");
    cluster.claim_again("n3").await;
    let summary = run(&cluster, remove("n3"), None).await.expect("done");
    assert_eq!((summary.moved_slots, summary.taken_over_from), (0, None));
    assert_eq!(members(&cluster).await.len(), 2);
}

#[tokio::test]
async fn a_command_for_another_epoch_is_refused_and_changes_nothing() {
    let cluster = without_n3().await;
    let before = cluster.map().await;
    for verb in [add("n4"), remove("n3"), remove("n1")] {
        let failure = run(&cluster, verb, Some(7)).await.expect_err("stale");
        assert!(matches!(failure, Failure::OtherEpoch { asked: Epoch(7), current: Epoch(1) }), "{failure}");
        assert_eq!(failure.code(), 1);
        assert!(failure.next().is_some_and(|next| next.contains("migrator plan")));
    }
    assert_eq!(cluster.map().await, before);
}
