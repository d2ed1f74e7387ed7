//! What a change costs the database: done warm hardly anything, done cold the moved entries once more.

use std::time::Duration;

use tests::cluster::Cluster;
use tests::door::Door;
use tests::ring_change::done;

use crate::load::{Load, Outcome, cluster, origin_reads};

/// One window of load.
const WINDOW: Duration = Duration::from_secs(6);
/// Small, so that reads miss all the time as they do in a large installation; no L2, so that a miss is an origin read.
const ENV: [(&str, &str); 1] = [("SHARDCACHE_L1_BYTES", "450KiB")];
/// The same requests in every window.
const SEED: u64 = 7;

struct Window {
    origin_reads: u64,
    outcome: Outcome,
}

/// A window of load in the midst of which the verb runs.
async fn window(cluster: &Cluster, gateway: &Door, verb: Option<&[&str]>) -> Window {
    let before = origin_reads(cluster).await;
    let mut load = Load::start(gateway, SEED, WINDOW).await;
    if let Some(verb) = verb {
        println!("{}", done(cluster, verb).await.stdout);
        assert!(load.is_running(), "the change took longer than the load");
    }
    let outcome = load.ended().await;
    Window { origin_reads: origin_reads(cluster).await - before, outcome }
}

#[tokio::test]
async fn a_warm_change_costs_the_database_no_more_than_no_change_and_a_cold_one_the_moved_entries() {
    let cluster = cluster(0, &ENV).await;
    let gateway = Door::of(&cluster, 0);
    Load::preload(&gateway).await;
    // Until the caches hold what they hold of this mix.
    for _ in 0..2 {
        window(&cluster, &gateway, None).await;
    }
    let steady = window(&cluster, &gateway, None).await;
    let warm = window(&cluster, &gateway, Some(&["add-node", "n5"])).await;
    window(&cluster, &gateway, Some(&["remove-node", "n5"])).await;
    window(&cluster, &gateway, None).await;
    let cold = window(&cluster, &gateway, Some(&["add-node", "n5", "--cold"])).await;
    println!("| window | origin reads | requests | p99 ms | longest ms |");
    for (name, window) in [("no change", &steady), ("add-node, warm", &warm), ("add-node, cold", &cold)] {
        let Outcome { requests, p99_ms, longest_ms, errors, wrong } = &window.outcome;
        println!("| {name} | {} | {requests} | {p99_ms:.1} | {longest_ms:.1} |", window.origin_reads);
        assert!(errors.is_empty() && wrong.is_empty(), "{name}: {errors:?}, {wrong:?}");
    }
    assert!(warm.origin_reads as f64 <= 1.1 * steady.origin_reads as f64, "warm");
    assert!(cold.origin_reads > warm.origin_reads, "a cold change costs more, or this test shows nothing");
}
