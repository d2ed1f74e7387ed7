//! What a change costs the database: done warm hardly anything, done cold the moved entries once more.

use std::time::Duration;

use tests::cluster::Cluster;
use tests::door::Door;
use tests::ring_change::done;

use crate::load::{Load, Outcome, cluster, origin_reads, sealed_reads};

/// One window of load.
const WINDOW: Duration = Duration::from_secs(6);
/// The same requests in every window, so that windows can be compared.
const SEED: u64 = 7;
/// Reads of the database that may be in one window and not in another: of keys that were just being written.
const LUCK: u64 = 15;

struct Window {
    /// Of which some were of sealed slots, which are not served from memory (protocol G6).
    origin_reads: u64,
    sealed_reads: u64,
    outcome: Outcome,
}

/// A window of load in the midst of which the verb runs.
async fn window(cluster: &Cluster, gateway: &Door, verb: Option<&[&str]>) -> Window {
    let (reads, sealed) = (origin_reads(cluster).await, sealed_reads(cluster).await);
    let mut load = Load::start(gateway, SEED, WINDOW).await;
    if let Some(verb) = verb {
        println!("{}", done(cluster, verb).await.stdout);
        assert!(load.is_running(), "the change took longer than the load");
    }
    let outcome = load.ended().await;
    let origin_reads = origin_reads(cluster).await - reads;
    Window { origin_reads, sealed_reads: sealed_reads(cluster).await - sealed, outcome }
}

#[tokio::test]
async fn a_warm_change_costs_the_database_no_more_than_no_change_and_a_cold_one_the_moved_entries() {
    // No L2, so that every miss is an origin read.
    let cluster = cluster(0, &[]).await;
    let gateway = Door::of(&cluster, 0);
    Load::preload(&gateway).await;
    window(&cluster, &gateway, None).await;
    let steady = window(&cluster, &gateway, None).await;
    let warm = window(&cluster, &gateway, Some(&["add-node", "n5"])).await;
    window(&cluster, &gateway, Some(&["remove-node", "n5"])).await;
    let cold = window(&cluster, &gateway, Some(&["add-node", "n5", "--cold"])).await;
    println!("| window | origin reads | of sealed slots | requests | p99 ms | longest ms |");
    for (name, window) in [("no change", &steady), ("add-node, warm", &warm), ("add-node, cold", &cold)] {
        let Outcome { requests, p99_ms, longest_ms, errors, wrong } = &window.outcome;
        let Window { origin_reads, sealed_reads, .. } = window;
        println!("| {name} | {origin_reads} | {sealed_reads} | {requests} | {p99_ms:.1} | {longest_ms:.1} |");
        assert!(errors.is_empty() && wrong.is_empty(), "{name}: {errors:?}, {wrong:?}");
    }
    let misses = |window: &Window| window.origin_reads - window.sealed_reads;
    assert!(misses(&warm) <= misses(&steady) + LUCK, "warm");
    assert!(misses(&cold) > misses(&steady) + 2 * LUCK, "a cold change costs more, or this test shows nothing");
}
