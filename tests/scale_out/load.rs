//! The recorded trace, replayed with writes and every body checked, while nodes are added and removed.

use std::collections::HashSet;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::{NamedTempFile, TempDir};
use tests::poll::eventually;
use tests::processes::{Env, Process, free_address, run};
use tokio::sync::Mutex;

use crate::support::{Door, add_standby, cluster, done, members};

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/traces/web12.trace.xz");
/// The replay's arrivals, and how many a second: what a debug build serves on a small machine with room to spare.
const REQUESTS: u64 = 10_000;
const RATE: u64 = 700;
/// The most requests in flight: a machine with other work falls behind the schedule instead of being flooded.
const IN_FLIGHT: &str = "24";
/// Arrivals of the replay before the first change: the caches are warm by then.
const WARM: u64 = 1500;
/// How long preload and replay may take.
const LOAD_BOUND: Duration = Duration::from_secs(110);

/// One replay at a time: both at once leave a small machine no room.
static TURN: Mutex<()> = Mutex::const_new(());

/// The replay, past its preload.
struct Replay {
    load: Process,
    _trace: NamedTempFile,
}

/// The trace's first requests alone, for keys that come later would be written for nothing; and how many keys they have.
fn beginning() -> (NamedTempFile, u64) {
    let whole = Command::new("xz").args(["-dc", TRACE]).output().expect("xz runs");
    let bytes = whole.stdout.get(..4 * REQUESTS as usize).expect("the trace is longer");
    let keys: HashSet<&[u8]> = bytes.chunks(4).collect();
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("it can be written");
    (file, keys.len() as u64)
}

impl Replay {
    async fn start(gateway: &Door) -> Self {
        let (trace, keys) = beginning();
        let (path, rate) = (trace.path().display().to_string(), RATE.to_string());
        let options = ["--target", &gateway.url, "--trace", &path, "--rate", &rate];
        let mut load = Process::start(
            "shardcache-load",
            &[&options[..], &["--connections", IN_FLIGHT, "--writes", "10", "--seed", "42", "--json"]].concat(),
            &Env::new(),
        );
        eventually("the replay has begun", LOAD_BOUND, async || {
            assert!(load.is_running(), "it ended: {}", load.log_tail());
            gateway.counted("shardcache_gateway_requests_total").await > keys + WARM
        })
        .await;
        Self { load, _trace: trace }
    }

    /// What it says at its end, which must come after the changes.
    async fn report(mut self) -> Value {
        assert!(self.load.is_running(), "it was over before the changes were: {}", self.load.log_tail());
        let end = self.load.wait_end(LOAD_BOUND).await;
        let log = self.load.log();
        let report = log.lines().find_map(|line| serde_json::from_str::<Value>(line).ok().filter(Value::is_object));
        let report = report.unwrap_or_else(|| panic!("it ended with {end} and no report: {log}"));
        println!("{report}");
        assert_eq!(end.code(), Some(0), "{report}");
        report
    }
}

fn assert_clean(report: &Value) {
    assert_eq!(report["requests"], REQUESTS, "{report}");
    assert_eq!((&report["errors"], &report["wrong"]), (&serde_json::json!({}), &serde_json::json!({})), "{report}");
    let count = |part: &str| report[part]["count"].as_u64().expect("a count");
    // Of a key that is just being written a write becomes a read.
    assert!(count("writes") > REQUESTS / 20 && count("reads") > REQUESTS / 2, "{report}");
}

#[tokio::test]
async fn a_replay_through_gateway_postgres_and_redis_has_no_error_and_no_wrong_body_while_nodes_come_and_go() {
    let _turn = TURN.lock().await;
    let mut cluster = cluster(1).await;
    add_standby(&mut cluster, "n4", &[]).await;
    let gateway = Door::of(&cluster, 0);
    let replay = Replay::start(&gateway).await;
    println!("{}", done(&cluster, &["add-node", "n4"]).await.stdout);
    gateway.follows(2).await;
    println!("{}", done(&cluster, &["remove-node", "n1"]).await.stdout);
    let report = replay.report().await;
    assert_clean(&report);
    let ring = gateway.ring().await;
    assert_eq!((&ring["epoch"], members(&ring)), (&3.into(), ["n2", "n3", "n4"].map(String::from).to_vec()));
}

#[tokio::test]
async fn a_replay_through_the_standalone_cluster_has_no_error_and_no_wrong_body_while_nodes_come_and_go() {
    const VERB_BOUND: Duration = Duration::from_secs(60);
    let _turn = TURN.lock().await;
    let data = TempDir::new().expect("a directory");
    let (listen, further) = (free_address(), free_address().to_string());
    let directory = data.path().display().to_string();
    let mut standalone = Process::start(
        "shardcache",
        &["--listen", &listen.to_string(), "--data-dir", &directory],
        &vec![("SHARDCACHE_LOG_FORMAT".to_owned(), "json".to_owned())],
    );
    standalone.wait_ready(listen, "/readyz").await;
    let database = vec![("DATABASE_URL".to_owned(), format!("sqlite://{directory}/shardcache.db"))];
    let mut node = Process::start("cache-node", &["--node-id", "node-4", "--listen", &further], &database);
    node.wait_ready(further.parse().expect("an address"), "/readyz").await;

    let gateway = Door::new(&format!("http://{listen}"));
    let replay = Replay::start(&gateway).await;
    let added = run("migrator", &["add-node", "node-4"], &database, VERB_BOUND).await;
    assert_eq!(added.code, Some(0), "{added:#?}");
    let removed = run("migrator", &["remove-node", "node-2"], &database, VERB_BOUND).await;
    assert_eq!(removed.code, Some(0), "{removed:#?}");
    println!("{}\n{}", added.stdout, removed.stdout);
    let report = replay.report().await;
    assert_clean(&report);
    gateway.follows(3).await;
    assert_eq!(members(&gateway.ring().await), ["node-1", "node-3", "node-4"]);
}
