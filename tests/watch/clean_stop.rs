//! Nodes that stop: with a handoff while somebody makes it, at once when nobody would.

use std::time::{Duration, Instant};

use tests::cluster::Cluster;
use tests::poll::eventually;
use tests::processes::Process;

use crate::support::{HEALED, Users, cluster, done, leader, logs, shares};

/// What container engines' users are ready to wait for (F02).
const QUICK: Duration = Duration::from_secs(5);

/// Stops all these at the same time; each must end well and be quick.
async fn stop_quickly(processes: Vec<&mut Process>) {
    let asked = Instant::now();
    processes.iter().for_each(|process| process.ask_to_stop());
    for process in processes {
        let end = process.wait_end(HEALED).await;
        assert_eq!(end.code(), Some(0), "{}", process.log_tail());
        assert!(asked.elapsed() < QUICK, "{:?}: {}", asked.elapsed(), process.log_tail());
    }
}

fn nodes(cluster: &mut Cluster) -> Vec<&mut Process> {
    cluster.nodes.values_mut().map(|member| &mut member.process).collect()
}

#[tokio::test]
async fn a_node_that_stops_hands_its_slots_off_and_serves_meanwhile() {
    let mut cluster = cluster().await;
    let _watch = leader(&cluster, "60s").await;
    let all = Users::new(&cluster, 100);
    all.put_all("first").await;
    let node = cluster.node("n3");
    assert_eq!(node.process.stop().await.code(), Some(0));
    assert!(node.process.log().contains("all slots are handed off"), "{}", node.process.log_tail());
    // The grace is far from over, and yet nobody misses the node.
    all.read_all("first").await;
    all.put_all("second").await;
    let left = shares(&cluster).await;
    assert_eq!((left["n3"], left.values().sum::<u64>()), (0, 4096));
    assert_eq!(done(&cluster).await, ["drain n3"]);
}

#[tokio::test]
async fn without_a_controller_a_stop_waits_for_nothing() {
    let mut cluster = cluster().await;
    stop_quickly(vec![&mut cluster.node("n3").process]).await;
    assert!(cluster.node("n3").process.log().contains("no failure controller is running"));
    // Also when it ends in the middle of the wait: here the whole stack is stopped.
    let mut watch = leader(&cluster, "60s").await;
    let mut all = nodes(&mut cluster);
    all.retain_mut(|process| process.is_running());
    all.push(&mut watch);
    stop_quickly(all).await;
    assert!(watch.log().contains("no longer leading"));
}

#[tokio::test]
async fn when_all_nodes_stop_none_waits_for_another() {
    let mut cluster = cluster().await;
    let _watch = leader(&cluster, "60s").await;
    stop_quickly(nodes(&mut cluster)).await;
    let logs: Vec<String> = nodes(&mut cluster).iter().map(|process| process.log()).collect();
    assert!(logs.iter().any(|log| log.contains("no other member can take the slots")), "{}", cluster.log_tails());
}

#[tokio::test]
async fn a_second_signal_ends_the_wait_for_the_handoff() {
    let mut cluster = cluster().await;
    let watch = leader(&cluster, "60s").await;
    // A leader that does nothing, and is not known to be gone before its term is over.
    eventually("the leader is frozen with most of its term before it", HEALED, async || {
        watch.pause();
        let led = cluster.migrator(&["watch", "--check"]).await.code == Some(0);
        if !led {
            watch.resume();
        }
        led
    })
    .await;
    let node = &mut cluster.node("n3").process;
    node.ask_to_stop();
    logs(node, "leaving: serving on").await;
    node.ask_to_stop();
    assert_eq!(node.wait_end(QUICK).await.code(), Some(0));
    assert!(node.log().contains("no longer waiting for the handoff: a second signal"), "{}", node.log_tail());
}
