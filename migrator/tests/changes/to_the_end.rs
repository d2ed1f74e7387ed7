//! Changes that nothing gets in the way of, and what stands beside them.

use migrator::driver::Driver;
use migrator::phases::add_node::check_itself;
use migrator::plan::Verb;
use migrator::{Failure, forecast, history, status};
use placement::{Epoch, Phase, Weight};
use tokio_util::sync::CancellationToken;

use crate::fake_cluster::{FakeCluster, Manners, add, node, remove};

async fn run(cluster: &FakeCluster, verb: Verb) -> migrator::summary::Summary {
    let plan = cluster.plan(&verb).await;
    let driver = Driver::new(cluster.tools(), CancellationToken::new());
    let summary = driver.run(&plan.change("me".to_owned())).await.expect("done");
    let (epoch, owners) = cluster.map().await;
    assert_eq!(epoch, plan.next.epoch());
    assert!(placement::Slot::all().all(|slot| owners[slot.index()] == *plan.next.owner(slot)));
    assert_eq!((summary.epoch, summary.moved_slots), (epoch, plan.moves.len()));
    assert_eq!(cluster.phase(summary.change).await, Phase::Done);
    summary
}

#[tokio::test]
async fn nodes_join_change_their_weight_and_leave_through_all_four_phases() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    let first = cluster.map().await.1;
    let summary = run(&cluster, add("n4")).await;
    let phases = summary.phases_ms;
    assert!([phases.add_node, phases.copy_keys, phases.flip_epoch, phases.expire_old].iter().all(Option::is_some));
    assert!(summary.write_pause_ms.is_some());
    run(&cluster, Verb::SetWeight { id: node("n4"), weight: Weight::try_from(50).expect("a weight") }).await;
    run(&cluster, remove("n4")).await;
    assert_eq!(cluster.map().await, (Epoch(4), first), "the ring is as it was before n4 came");
    assert!(cluster.nodes.values().all(|fake| fake.sealed_for().is_none()));
}

#[tokio::test]
async fn status_and_history_tell_what_was_done_and_what_is_under_way() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    let summary = run(&cluster, add("n4")).await;
    let plan = cluster.plan(&remove("n1")).await;
    cluster.origin.begin_change(&plan.change("somebody".to_owned())).await.expect("begun");
    let now = status::read(&cluster.origin).await.expect("a status");
    assert_eq!((now.epoch, now.members.len(), now.standbys.len()), (Epoch(2), 4, 0));
    assert_eq!(now.members.iter().map(|member| member.slots).sum::<usize>(), 4096);
    let active = now.change.as_ref().expect("a change");
    assert_eq!((active.what.phase, active.operator.as_str()), (Phase::Copy, "somebody"));
    assert_eq!(active.allowed, ["migrator resume", "migrator abort"]);
    assert_eq!(now.last_change.as_ref().map(|last| last.what.id), Some(summary.change));
    for part in ["ring epoch 2", "n4", "phase copy", "run by somebody", "migrator resume or migrator abort"] {
        assert!(now.text().contains(part), "{part} is missing in\n{}", now.text());
    }
    let past = history::read(&cluster.origin, 10).await.expect("a history");
    assert_eq!(past.changes.iter().map(|change| change.what.phase).collect::<Vec<_>>(), [Phase::Copy, Phase::Done]);
    assert_eq!(past.epochs.iter().map(|epoch| epoch.change).collect::<Vec<_>>(), [Some(summary.change), None]);
}

#[tokio::test]
async fn a_forecast_counts_what_the_old_owners_hold_and_changes_nothing() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    let before = cluster.map().await;
    let plan = cluster.plan(&add("n4")).await;
    let mut rows = cluster.ring().await.nodes;
    let forecast = forecast::of_plan(&plan, &rows, &cluster.tools().nodes).await;
    assert_eq!(forecast.held.iter().map(|held| held.slots).sum::<usize>(), plan.moves.len());
    assert!(forecast.held.iter().all(|held| held.entries == Some(10 * held.slots as u64)));
    // Now n2 does not answer as itself.
    let address_of_n1 = rows[0].address.clone();
    rows[1].address = address_of_n1;
    let forecast = forecast::of_plan(&plan, &rows, &cluster.tools().nodes).await;
    assert_eq!(forecast.held[1].entries, None);
    assert!(forecast.text().contains("unknown entries"), "{}", forecast.text());
    assert_eq!(cluster.map().await, before);
    assert_eq!(cluster.origin.active_change().await, Ok(None));
}

#[tokio::test]
async fn a_node_that_does_not_answer_as_itself_is_not_added() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    let nodes = cluster.tools().nodes;
    let mut row = cluster.ring().await.nodes[3].clone();
    check_itself(&nodes, &row).await.expect("it is itself");
    row.address = cluster.ring().await.nodes[0].address.clone();
    let failure = check_itself(&nodes, &row).await.expect_err("it is n1");
    assert!(failure.to_string().contains("is the address of n1"), "{failure}");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    row.address = nobody.to_string();
    let failure = check_itself(&nodes, &row).await.expect_err("nobody is there");
    assert!(matches!(failure, Failure::NodeNotItself { .. }) && failure.code() == 1, "{failure}");
}

#[tokio::test]
async fn of_two_changes_at_once_one_is_told_who_runs_the_other() {
    let cluster = FakeCluster::with_members(&["n1", "n2", "n3"]).await;
    cluster.node("n1").behave(Manners::HoldsSeal);
    let (first, second) = (cluster.plan(&add("n4")).await, cluster.plan(&remove("n1")).await);
    let driver = Driver::new(cluster.tools(), CancellationToken::new());
    let change = first.change("the first".to_owned());
    let running = tokio::spawn(async move { driver.run(&change).await });
    cluster.node("n1").asked_to_seal().await;
    let driver = Driver::new(cluster.tools(), CancellationToken::new());
    let failure = driver.run(&second.change("the second".to_owned())).await.expect_err("refused");
    assert_eq!(failure.code(), 3);
    assert!(failure.to_string().contains("run by the first"), "{failure}");
    assert_eq!(failure.next().as_deref(), Some("migrator resume or migrator abort"));
    cluster.node("n1").open_gate();
    running.await.expect("no panic").expect("the first is done");
    let failure = driver.run(&second.change("the second".to_owned())).await.expect_err("refused");
    assert!(matches!(failure, Failure::StalePlan { planned: Epoch(1), current: Epoch(2) }), "{failure}");
    assert_eq!(failure.code(), 1);
}
