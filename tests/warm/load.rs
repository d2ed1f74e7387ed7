//! `shardcache-load` on a cluster of four members and a standby that takes a fifth of the users when it is added.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tests::cluster::{Cluster, ClusterOptions};
use tests::door::Door;
use tests::poll::eventually;
use tests::processes::{Env, Process};
use tests::ring_change::{add_standby, start};

/// Keys of the mix, and the users they are spread over.
const ZIPF: &str = "4000:0.99";
const USERS: &str = "400";
/// Arrivals a second unless `SHARDCACHE_TEST_RATE` says otherwise: what a debug build serves on a small machine with
/// room to spare.
const RATE: u64 = 300;
/// What a busy machine may add to a run's own length.
const RUN_REST: Duration = Duration::from_secs(40);

/// Four members and the standby "n5".
pub(crate) async fn cluster(redis: usize, env: &[(&str, &str)]) -> Cluster {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut cluster = start(ClusterOptions { nodes: 4, redis, env, ..ClusterOptions::default() }).await;
    add_standby(&mut cluster, "n5", &[]).await;
    cluster
}

/// How long or how many a test goes on, unless the environment says otherwise.
pub(crate) fn setting(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A run of the load generator.
pub(crate) struct Load {
    process: Process,
    length: Duration,
}

/// What a run has seen.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) wrong: BTreeMap<String, u64>,
    pub(crate) p99_ms: f64,
    pub(crate) longest_ms: f64,
}

impl Load {
    /// Writes every key once.
    pub(crate) async fn preload(gateway: &Door) {
        let outcome = Self::begin(gateway, 1, Duration::from_secs(1), true).ended().await;
        assert!(outcome.errors.is_empty() && outcome.wrong.is_empty(), "{outcome:?}");
    }

    /// Nine reads to a write, of what earlier runs have left; returns when requests are answered.
    pub(crate) async fn start(gateway: &Door, seed: u64, length: Duration) -> Self {
        let before = answered(gateway).await;
        let mut load = Self::begin(gateway, seed, length, false);
        eventually("requests are answered", RUN_REST, async || {
            assert!(load.process.is_running(), "it ended: {}", load.process.log_tail());
            answered(gateway).await > before + 50
        })
        .await;
        load
    }

    fn begin(gateway: &Door, seed: u64, length: Duration, preload: bool) -> Self {
        let (seed, length_text) = (seed.to_string(), format!("{}ms", length.as_millis()));
        let rate = setting("SHARDCACHE_TEST_RATE", RATE).to_string();
        let mix = ["--target", &gateway.url, "--zipf", ZIPF, "--users", USERS, "--writes", "10", "--rate", &rate];
        let run = ["--duration", &length_text, "--seed", &seed, "--connections", "32", "--json", "--preload"];
        let args = [&mix[..], &run[..], &[if preload { "true" } else { "false" }]].concat();
        Self { process: Process::start("shardcache-load", &args, &Env::new()), length }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Waits for its end.
    pub(crate) async fn ended(mut self) -> Outcome {
        self.process.wait_end(self.length + RUN_REST).await;
        let log = self.process.log();
        let report = log.lines().find_map(|line| serde_json::from_str::<Value>(line).ok().filter(Value::is_object));
        let report = report.unwrap_or_else(|| panic!("no report: {log}"));
        let counts = |part: &str| {
            let counts = report[part].as_object().expect("counts by name").iter();
            counts.map(|(name, count)| (name.clone(), count.as_u64().expect("a count"))).collect()
        };
        let ms = |field: &str| report["latency"][field].as_f64().expect("microseconds") / 1000.0;
        Outcome {
            requests: report["requests"].as_u64().expect("a count"),
            errors: counts("errors"),
            wrong: counts("wrong"),
            p99_ms: ms("p99_us"),
            longest_ms: ms("max_us"),
        }
    }
}

async fn answered(gateway: &Door) -> u64 {
    gateway.counted("shardcache_gateway_requests_total").await
}

/// Read statements that the nodes have sent to the database so far.
pub(crate) async fn origin_reads(cluster: &Cluster) -> u64 {
    counted(cluster, "shardcache_node_origin_reads_total").await
}

/// Of these, those of slots that were sealed.
pub(crate) async fn sealed_reads(cluster: &Cluster) -> u64 {
    counted(cluster, "shardcache_node_bypasses_total{reason=\"sealed\"}").await
}

async fn counted(cluster: &Cluster, series: &str) -> u64 {
    let mut sum = 0;
    for node in cluster.nodes.values() {
        sum += Door::new(&node.url()).counted(series).await;
    }
    sum
}
