//! A node added to a warm cluster with a slow database, under load: the database does not notice the flip (D09).

use std::time::{Duration, Instant};

use serde_json::Value;
use tests::cluster::{Cluster, ClusterOptions, Link, Links};
use tests::door::Door;
use tests::fault_proxy::Fault;
use tests::poll::eventually;
use tests::processes::{Env, Process};
use tests::ring_change::{add_standby, json, start};

use crate::scene::Ended;

/// Keys that are all in memory: fewer where the programs are built for debugging.
const KEYS: usize = if cfg!(debug_assertions) { 4_000 } else { 10_000 };
/// The users they are spread over, and arrivals per second.
const USERS: &str = "400";
const RATE: &str = "300";
/// What the link to the database adds to each answer, half of it on each way.
const SLOWER: Duration = Duration::from_millis(20);
/// The load lasts so long: the change, and time before and after it.
const LOAD: Duration = Duration::from_secs(20);
/// How long writing every key once, or the rest of a run, may take on a busy machine.
const RUN_BOUND: Duration = Duration::from_secs(50);
/// Seconds of load before the change that its reads are compared with.
const BASE_SECONDS: usize = 4;
/// The least share of reads that L1 answers in any second: all but the fifth that moves, and 5 points.
const L1_SHARE_MIN: f64 = 0.75;
/// Database reads in a second that are chance: entries just written, and a lease that a busy machine renews late. A second
/// of the users that move, read cold, is more than twice that.
const SLACK: f64 = 10.0;

/// What all nodes have done in a second.
#[derive(Clone, Copy, Debug)]
struct Second {
    reads: u64,
    l1: u64,
    origin_reads: u64,
    epoch: u64,
}

fn load(gateway: &Door, preload: bool, length: Duration) -> Process {
    let (keys, length) = (format!("{KEYS}:0.99"), format!("{}ms", length.as_millis()));
    let mix = ["--target", &gateway.url, "--zipf", &keys, "--users", USERS, "--writes", "5", "--rate", RATE];
    let run = ["--duration", &length, "--seed", "9", "--connections", "32", "--json", "--preload"];
    let args = [&mix[..], &run[..], &[if preload { "true" } else { "false" }]].concat();
    Process::start("shardcache-load", &args, &Env::new())
}

/// Waits for the end of a run without errors or wrong values; its report.
async fn ended(mut load: Process) -> Value {
    load.wait_end(LOAD + RUN_BOUND).await;
    let log = load.log();
    let report = log.lines().find_map(|line| serde_json::from_str::<Value>(line).ok().filter(Value::is_object));
    let report = report.unwrap_or_else(|| panic!("no report: {log}"));
    for part in ["errors", "wrong"] {
        assert!(report[part].as_object().is_some_and(serde_json::Map::is_empty), "{report}");
    }
    report
}

async fn counted(cluster: &Cluster) -> Second {
    let mut sum = Second { reads: 0, l1: 0, origin_reads: 0, epoch: 0 };
    for node in cluster.nodes.values() {
        let door = Door::new(&node.url());
        sum.reads += door.counted("shardcache_node_reads_total").await;
        sum.l1 += door.counted("shardcache_node_reads_total{tier=\"l1\"}").await;
        sum.origin_reads += door.counted("shardcache_node_origin_reads_total").await;
    }
    sum.epoch = Door::of(cluster, 0).epoch().await;
    sum
}

/// One second of the cluster after the other, until `over`.
async fn seconds(cluster: &Cluster, mut over: impl AsyncFnMut(&[Second]) -> bool) -> Vec<Second> {
    let (mut all, mut before, began) = (Vec::new(), counted(cluster).await, Instant::now());
    while !over(&all).await {
        let next = Duration::from_secs(all.len() as u64 + 1);
        tokio::time::sleep(next.saturating_sub(began.elapsed())).await;
        let now = counted(cluster).await;
        all.push(Second {
            reads: now.reads - before.reads,
            l1: now.l1 - before.l1,
            origin_reads: now.origin_reads - before.origin_reads,
            epoch: now.epoch,
        });
        before = now;
    }
    all
}

fn print(all: &[Second]) {
    println!("| second | epoch | reads | from L1 | origin reads |");
    for (number, Second { reads, l1, origin_reads, epoch }) in all.iter().enumerate() {
        let share = 100.0 * *l1 as f64 / (*reads).max(1) as f64;
        println!("| {number} | {epoch} | {reads} | {share:.1} % | {origin_reads} |");
    }
}

/// Adds "n5" while requests go on. Reads of the database per second before the change, and in each of the two seconds after
/// the gateway has seen its end.
async fn added(cluster: &Cluster, gateway: &Door, more: &[&str]) -> (f64, Vec<u64>) {
    let mut running = load(gateway, false, LOAD);
    eventually("requests arrive", RUN_BOUND, async || {
        assert!(running.is_running(), "{}", running.log());
        counted(cluster).await.reads > 0
    })
    .await;
    let base = seconds(cluster, async |all| all.len() == BASE_SECONDS).await;
    let migrator = cluster.start_migrator(&[&["add-node", "n5", "--json", "--max-p99", "0"], more].concat());
    let mut phases = Vec::new();
    let meanwhile = seconds(cluster, async |all| {
        assert!(all.len() < LOAD.as_secs() as usize, "not done: {}", migrator.log());
        let status = json(cluster, &["status"]).await;
        phases.push(status["change"]["phase"].as_str().unwrap_or_default().to_owned());
        status["epoch"] == 2 && status["change"].is_null()
    })
    .await;
    let after = seconds(cluster, async |all| all.len() == 2).await;
    let change = Ended::of(migrator, RUN_BOUND).await;
    let all = [&base[..], &meanwhile, &after].concat();
    print(&all);
    assert!(all.iter().all(|second| second.l1 as f64 >= L1_SHARE_MIN * second.reads as f64), "{all:?}");
    println!("{}\nphases seen: {phases:?}", change.done());
    assert!(running.is_running(), "the change took longer than the load");
    println!("{}", ended(running).await);
    told_on_the_way(&change);
    let reads: u64 = base.iter().map(|second| second.origin_reads).sum();
    (reads as f64 / BASE_SECONDS as f64, after.iter().map(|second| second.origin_reads).collect())
}

/// The events show how copying got on, up to its end.
fn told_on_the_way(change: &Ended) {
    let told: Vec<_> = change.events("progress").into_iter().filter(|event| event["phase"] == "copy_keys").collect();
    let bytes: Vec<f64> = told.iter().filter_map(|event| event["bytes"].as_f64()).collect();
    assert!(bytes.len() > 2 && bytes.is_sorted(), "{told:?}");
    let last = told.last().expect("there are some");
    assert!(last["percent"] == 100.0 && last["entries"] == last["entries_total"], "{last}");
}

#[tokio::test]
async fn a_node_added_to_a_warm_cluster_brings_the_slow_database_no_reads() {
    let options = ClusterOptions { nodes: 4, redis: 0, links: Links::Database, ..ClusterOptions::default() };
    let mut cluster = start(options).await;
    add_standby(&mut cluster, "n5", &[]).await;
    let gateway = Door::of(&cluster, 0);
    ended(load(&gateway, true, Duration::from_secs(1))).await;
    cluster.links.of(&Link::Database).set(Fault::Delay(SLOWER / 2)).await;
    // About two seconds of copying, so that there is something to see.
    let (base, after) = added(&cluster, &gateway, &["--max-rate", "128KiB"]).await;
    println!("{base:.1} database reads per second before the change; {after:?} in the seconds after it");
    for reads in after {
        assert!(reads as f64 <= 2.0 * base + SLACK, "{reads} in a second, {base} before");
    }
}
