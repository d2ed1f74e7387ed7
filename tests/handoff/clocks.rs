//! A node whose wall clock is an hour off and jumps: leases, changes and registers do not care, lifetimes hardly.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tests::checker::Checker;
use tests::cluster::{Cluster, ClusterOptions};
use tests::door::{Door, owned_by, users};
use tests::http::answered;
use tests::poll::eventually;
use tests::ring_change::{add_standby, cluster, done, l2_in_use, start};
use tests::stepped_clock::SteppedClock;

use crate::support::assert_registers;

/// The node with the clock of its own.
const ODD: &str = "n4";
/// An hour, in seconds.
const HOUR: i64 = 3600;
/// Where the clock jumps to, again and again, while a change is under way.
const JUMPS: [i64; 4] = [HOUR, -HOUR, 0, -2 * HOUR];
/// Longer than a lease, within which the node must have renewed its own.
const LEASE_AND_MORE: Duration = Duration::from_secs(4);
const L1_TTL: Duration = Duration::from_secs(2);
const L2_TTL: Duration = Duration::from_secs(4);
/// A request and a poll on a busy machine.
const SLACK: Duration = Duration::from_millis(500);

/// Starts the node with the clock.
async fn add_odd(cluster: &mut Cluster, clock: &SteppedClock) {
    let env = clock.env();
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    add_standby(cluster, ODD, &[&env[..], &[("SHARDCACHE_LOG_FORMAT", "json")]].concat()).await;
}

/// The newest time the node's log shows, in seconds off the database's clock.
async fn logged_offset(cluster: &Cluster) -> Option<i64> {
    let log = cluster.nodes[ODD].process.log();
    let newest = log.lines().rev().find_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(line["timestamp"].as_str()?.to_owned())
    })?;
    let offset = format!("SELECT round(extract(epoch FROM timestamptz '{newest}' - now()))::bigint");
    cluster.postgres.as_ref().expect("on Postgres").sql(&offset).await.ok()?.parse().ok()
}

/// For longer than a lease its users write and read what they wrote, at this node.
async fn serves_its_users(gateway: &Door, users: &[String]) -> u64 {
    let began = Instant::now();
    let mut written = 0;
    while began.elapsed() < LEASE_AND_MORE {
        let value = format!("{written}");
        gateway.put_all(users, &value).await;
        for answer in gateway.read_all(users, &value).await {
            assert_eq!(answer.header("X-Cache-Node"), ODD, "{answer:?}");
            assert!(!answer.header("cache-status").contains("bypass"), "its lease is not valid: {answer:?}");
        }
        written += users.len() as u64;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    written
}

/// Carries a change out while the node's clock jumps to and fro, and leaves it at the last of these offsets.
async fn change_while_it_jumps(cluster: &Cluster, clock: &SteppedClock, verb: &[&str], then: i64) {
    let mut jumps = 0;
    let change = done(cluster, verb);
    let mut change = std::pin::pin!(change);
    loop {
        tokio::select! {
            _ = &mut change => break,
            () = tokio::time::sleep(Duration::from_millis(20)) => {
                clock.step(JUMPS[jumps % JUMPS.len()]);
                jumps += 1;
            }
        }
    }
    clock.step(then);
    println!("{verb:?}: the clock jumped {jumps} times meanwhile, and is {then} s off now");
}

#[tokio::test]
async fn a_node_whose_clock_jumps_by_hours_takes_part_in_changes_without_a_stale_read_or_a_lost_write() {
    let clock = SteppedClock::new();
    let mut cluster = cluster(2).await;
    add_odd(&mut cluster, &clock).await;
    let gateways = vec![Door::of(&cluster, 0), Door::of(&cluster, 1)];
    let all = users(80);
    let checker = Checker::start(gateways.clone(), 3600);
    checker.goes_on(400).await;
    // It receives, stays, gives, and receives again.
    clock.step(HOUR);
    done(&cluster, &["add-node", ODD]).await;
    eventually("the node's log shows its clock", LEASE_AND_MORE, async || {
        logged_offset(&cluster).await.is_some_and(|offset| (offset - HOUR).abs() < 60)
    })
    .await;
    gateways[0].follows(2).await;
    let own = owned_by(&gateways[0].owners(&all).await, ODD);
    assert!(own.len() > 5, "{ODD} has {} users", own.len());
    for step in [HOUR, -HOUR] {
        clock.step(step);
        let written = serves_its_users(&gateways[0], &own).await;
        println!("{step:+} s: {written} writes of its users in {LEASE_AND_MORE:?}");
    }
    change_while_it_jumps(&cluster, &clock, &["remove-node", "n1"], HOUR).await;
    checker.goes_on(200).await;
    change_while_it_jumps(&cluster, &clock, &["add-node", "n1"], -HOUR).await;
    checker.goes_on(200).await;
    change_while_it_jumps(&cluster, &clock, &["remove-node", ODD], HOUR).await;
    checker.goes_on(200).await;
    change_while_it_jumps(&cluster, &clock, &["add-node", ODD], -HOUR).await;
    checker.goes_on(400).await;
    assert_registers(&checker.finish().await);
    assert!(!cluster.nodes[ODD].process.log().contains("fenced"), "{}", cluster.log_tails());
    gateways[0].follows(6).await;
}

/// How old an entry changed past all caches was when it was last served, for the longest-served of these users.
async fn oldest_served(cluster: &Cluster, gateway: &Door, users: &[String], step: impl Fn()) -> Duration {
    let postgres = cluster.postgres.as_ref().expect("on Postgres");
    let list = users.iter().map(|user| format!("'{user}'")).collect::<Vec<_>>().join(",");
    // By the rules first, which puts it into both caches; then past them.
    gateway.put_all(users, "old").await;
    let loaded = Instant::now();
    gateway.read_all(users, "old").await;
    let outdate = format!("UPDATE entries SET value = 'new', version = nextval('version_seq') WHERE usr IN ({list})");
    postgres.sql(&outdate).await.expect("updated");
    step();
    let ages = users.iter().map(|user| async move {
        let mut oldest = Duration::ZERO;
        eventually("the new value", Duration::from_secs(30), async || {
            let asked = loaded.elapsed();
            let is_new = gateway.get(user).await.body == "new";
            if !is_new {
                oldest = asked;
                // Often enough for the bound, and seldom enough for a small machine.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            is_new
        })
        .await;
        oldest
    });
    join_all(ages).await.into_iter().max().expect("users")
}

#[tokio::test]
async fn a_stepped_clock_lets_no_entry_live_longer_than_both_lifetimes_together() {
    let seconds = |ttl: Duration| format!("{}s", ttl.as_secs());
    let env = [("SHARDCACHE_L1_TTL", seconds(L1_TTL)), ("SHARDCACHE_L2_TTL", seconds(L2_TTL))];
    let env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
    let clock = SteppedClock::new();
    let mut cluster = start(ClusterOptions { env, ..ClusterOptions::default() }).await;
    add_odd(&mut cluster, &clock).await;
    done(&cluster, &["add-node", ODD]).await;
    let gateway = Door::of(&cluster, 0);
    gateway.follows(2).await;
    l2_in_use(&cluster).await;
    let own = owned_by(&gateway.owners(&users(60)).await, ODD);
    // With a right clock, or one that jumps ahead, what L2 holds is over with its own lifetime. Set back, the clock makes
    // it seem young, and L1 then keeps it for L1's lifetime: never longer, for Redis counts by itself.
    let l2_only = L2_TTL + L2_TTL / 10 + SLACK;
    let both = l2_only + L1_TTL + L1_TTL / 10;
    for (step, bound) in [(0, l2_only), (HOUR, l2_only), (-HOUR, both), (0, l2_only)] {
        let oldest = oldest_served(&cluster, &gateway, &own, || clock.step(step)).await;
        println!("stepped to {step:+} s: the oldest value served was {oldest:?} old; the bound is {bound:?}");
        assert!(oldest <= bound, "stepped to {step:+} s: {oldest:?}");
        let answer = answered(gateway.request(reqwest::Method::GET, &own[0], "/v1/entries/k")).await;
        assert_eq!((answer.status, answer.header("X-Cache-Node")), (200, ODD), "{answer:?}");
    }
}
