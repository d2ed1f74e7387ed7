//! What the tests of disturbed warm changes share: three members, a standby behind a proxy, users with heavy entries so that
//! copying takes seconds, and the events of a change.

use std::time::{Duration, Instant};

use serde_json::Value;
use tests::checker::{Checker, Seen};
use tests::cluster::{Cluster, ClusterOptions};
use tests::door::{Door, each, members, owned_by, users};
use tests::fault_proxy::FaultProxy;
use tests::poll::{PAUSE, eventually, until};
use tests::processes::Process;
use tests::ring_change::{l2_in_use, start, warm};

/// How the connection of a handoff stream begins.
pub(crate) const STREAM: &str = "GET /internal/handoffs/";
/// Every connection.
pub(crate) const EVERYTHING: &str = "";
/// One heavy entry, in bytes, and how many users have one: the receiver of a quarter gets about a MiB.
pub(crate) const HEAVY_BYTES: usize = 32 << 10;
pub(crate) const HEAVY_USERS: usize = 120;
/// A rate at which that takes about four seconds, however slow a busy machine is for the users.
pub(crate) const SLOWLY: [&str; 4] = ["--max-rate", "256KiB", "--max-p99", "0"];
/// How soon everything is served again after a fault is over: a lease and a few polls, on a busy machine.
pub(crate) const HEAL_BOUND: Duration = Duration::from_secs(15);
/// How long a change without a fault may take that copies slowly.
pub(crate) const CHANGE_BOUND: Duration = Duration::from_secs(30);
/// How soon copying begins after the verb.
const COPY_BOUND: Duration = Duration::from_secs(10);
/// What requests may be answered while nodes, links or the database are away, other than "unknown".
const WHILE_AWAY: [&str; 3] = ["owner_unavailable", "overloaded", "origin_unavailable"];

/// Three members with heavy users in their memory, and the standby "n4".
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    pub(crate) gateway: Door,
    /// In front of "n4".
    pub(crate) link: FaultProxy,
    pub(crate) heavy: Vec<String>,
    pub(crate) value: String,
}

impl Scene {
    /// Starts everything. Faults of the link meet only connections that begin with `only`.
    pub(crate) async fn start(only: &'static str, options: ClusterOptions) -> Self {
        Self::on(start(options).await, only, &[]).await
    }

    /// The same on a cluster that is there already; `more` is the environment of "n4".
    pub(crate) async fn on(mut cluster: Cluster, only: &'static str, more: &[(&str, &str)]) -> Self {
        let link = cluster.add_standby_behind("n4", only, more).await;
        warm(&cluster).await;
        if !cluster.redis.is_empty() {
            // A slot that gets its space in L2 during the change would have another tenure than it was sealed with.
            l2_in_use(&cluster).await;
        }
        let gateway = Door::of(&cluster, 0);
        let scene = Self { cluster, gateway, link, heavy: users(HEAVY_USERS), value: "x".repeat(HEAVY_BYTES) };
        scene.put_heavy().await;
        scene
    }

    /// Puts the heavy entries into their owners' memory.
    pub(crate) async fn put_heavy(&self) {
        self.gateway.put_all(&self.heavy, &self.value).await;
    }

    /// The register checker on the gateway.
    pub(crate) fn checked(&self, seed: u64) -> Checker {
        println!("seed {seed}");
        Checker::start(vec![self.gateway.clone()], seed)
    }

    /// Starts a change verb that tells its events.
    pub(crate) fn change(&self, verb: &[&str]) -> Process {
        self.cluster.start_migrator(&[verb, &["--json"]].concat())
    }

    /// Waits until each of these old owners has sent something.
    pub(crate) async fn copying(&self, owners: &[&str], before: &[u64]) {
        eventually("each old owner copies", COPY_BOUND, async || {
            self.sent(owners).await.iter().zip(before).all(|(now, before)| now > before)
        })
        .await;
    }

    /// Entries that each of these nodes has sent to receivers so far.
    pub(crate) async fn sent(&self, owners: &[&str]) -> Vec<u64> {
        let mut sent = Vec::new();
        for owner in owners {
            let door = Door::new(&self.cluster.nodes[*owner].url());
            sent.push(door.counted("shardcache_node_handoff_entries_sent_total").await);
        }
        sent
    }

    /// The heavy users of the node; that reads of all of them are answered from its memory.
    pub(crate) async fn warm_at(&self, node: &str) -> (usize, usize) {
        let own = owned_by(&self.gateway.owners(&self.heavy).await, node);
        let answers = self.gateway.read_all(&own, &self.value).await;
        let hits = answers.iter().filter(|answer| answer.header("cache-status") == "shardcache-l1; hit").count();
        (hits, own.len())
    }

    /// Every heavy user is read and written, once what was away is back.
    pub(crate) async fn all_serve(&self) {
        each(&self.heavy, async |user| {
            let read = until(HEAL_BOUND, async || {
                let answer = self.gateway.get(user).await;
                assert!(matches!(answer.status, 200 | 503 | 504), "GET for {user}: {answer:?}");
                (answer.status == 200).then_some(answer)
            });
            let read = read.await.unwrap_or_else(|| panic!("no read for {user} in {HEAL_BOUND:?}"));
            assert_eq!(read.text(), self.value, "{user}");
            let write = async || matches!(self.gateway.put(user, &self.value).await.status, 201 | 204).then_some(());
            let written = until(HEAL_BOUND, write).await;
            assert!(written.is_some(), "no write for {user} in {HEAL_BOUND:?}");
        })
        .await;
    }

    /// Waits until the ring is the one with or without "n4" at this epoch, and no change is under way.
    pub(crate) async fn ring_is(&self, epoch: u64, with_n4: bool) {
        self.gateway.follows(epoch).await;
        let expected: &[&str] = if with_n4 { &["n1", "n2", "n3", "n4"] } else { &["n1", "n2", "n3"] };
        assert_eq!(members(&self.gateway.ring().await), expected);
    }
}

/// The events of this name that a verb has told so far.
pub(crate) fn events(log: &str, name: &str) -> Vec<Value> {
    let all = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|event| event["event"] == name).collect()
}

/// How a change verb ended, and what it told on the way.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) log: String,
}

impl Ended {
    /// Waits for the end of the verb.
    pub(crate) async fn of(mut migrator: Process, bound: Duration) -> Self {
        let code = migrator.wait_end(bound).await.code().expect("no signal");
        Self { code, log: migrator.log() }
    }

    /// The events of this name.
    pub(crate) fn events(&self, name: &str) -> Vec<Value> {
        events(&self.log, name)
    }

    /// The last event.
    pub(crate) fn result(&self) -> Value {
        let result = self.events("result").pop();
        result.unwrap_or_else(|| panic!("no result: {}", self.log))
    }

    /// That the change is done.
    pub(crate) fn done(&self) -> Value {
        assert_eq!(self.code, 0, "{}", self.log);
        let result = self.result();
        assert_eq!(result["outcome"], "done", "{}", self.log);
        result
    }

    /// That the change was given up, for a reason of which these words are a part.
    pub(crate) fn given_up(&self, words: &str) {
        assert_eq!(self.code, 4, "{}", self.log);
        let reason = self.result()["reason"].to_string();
        assert!(reason.contains("was aborted, the ring is as before"), "{reason}");
        assert!(reason.contains(words), "it should say {words:?}: {reason}");
    }
}

/// Ends the clients: nothing they read was stale, and no error was of another kind than a fault explains.
pub(crate) async fn assert_clean(checker: Checker, seed: u64, faults: bool) -> Seen {
    checker.goes_on(200).await;
    let seen = checker.finish().await;
    let (reads, writes, unknown) = (seen.reads, seen.writes, seen.unknown);
    println!("{reads} reads, {writes} writes, {unknown} unknown, {} refused", seen.write_errors.len());
    assert!(seen.violations.is_empty(), "seed {seed}: {:#?}", seen.violations);
    let explained = |said: &String| faults && WHILE_AWAY.iter().any(|code| said.contains(code));
    let other: Vec<_> = seen.read_errors.iter().chain(&seen.write_errors).filter(|said| !explained(said)).collect();
    assert!(other.is_empty(), "seed {seed}: {other:#?}");
    seen
}

/// Reads of these users, one after the other, until it is over or the time is: the time of 99 of 100 of them.
pub(crate) async fn percentile_99(
    door: &Door,
    users: &[String],
    at_most: Duration,
    mut over: impl AsyncFnMut() -> bool,
) -> Duration {
    let began = Instant::now();
    let mut times = Vec::new();
    for user in users.iter().cycle() {
        if began.elapsed() >= at_most || over().await {
            break;
        }
        let asked = Instant::now();
        assert_eq!(door.get(user).await.status, 200);
        times.push(asked.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    times.sort_unstable();
    times[(times.len() - 1) * 99 / 100]
}
