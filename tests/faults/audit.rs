//! The auditor: an entry corrupted by hand is found, told of and dropped; whatever else happens, nothing is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tests::chaos::logs;
use tests::checker::Checker;
use tests::cluster::{Cluster, ClusterOptions};
use tests::door::Door;
use tests::http::User;
use tests::poll::{eventually, until};
use tests::redis::RedisServer;
use tests::ring_change::{add_standby, done};
use tokio::sync::Mutex;

use crate::nodes::lease_is_over;
use crate::redis_swaps::replicate;
use crate::support::{
    HEALED, LONG_LEASE, SHORT_L1, cluster, eventually_l2_hit, from_l2, l2_in_use, owner, postgres, restart, says,
    start, sum_of, urls, value_of,
};

/// A minute of a hot key: how many reads may be made until its wrong entry is found, however fast this machine makes them.
/// Of each 10,000 one is sampled, and a sample may be without a verdict.
const MINUTE_OF_READS: u64 = 60 * 500;
/// How long a busy machine may take for them.
const READS_BOUND: Duration = Duration::from_secs(180);
/// Every read is audited, or left out for want of room.
const EVERY_READ: (&str, &str) = ("SHARDCACHE_AUDIT_EVERY", "1");

/// One test with load at a time: together they leave a small machine no room.
static TURN: Mutex<()> = Mutex::const_new(());

/// Readers of one key, at work until they are stopped: a hot key.
struct Load {
    stop: Arc<AtomicBool>,
    reads: Arc<AtomicU64>,
    readers: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    /// Every answer must be one of these values.
    fn start(user: &User, key: &'static str, right: &'static [&'static str]) -> Self {
        let (stop, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let readers = (0..8).map(|_| {
            let (user, stop, reads) = (user.clone(), Arc::clone(&stop), Arc::clone(&reads));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let answer = user.get(key).await;
                    reads.fetch_add(1, Ordering::Relaxed);
                    assert!(right.iter().any(|value| says(&answer, value)), "{answer:?} {}", answer.text());
                }
            })
        });
        let readers = readers.collect();
        Self { stop, reads, readers }
    }

    /// Waits until the node has dropped a wrong entry, which must not take longer than a minute of reads.
    async fn until_dropped(&self, cluster: &mut Cluster, node: &str) {
        eventually("the drop of the wrong entry", READS_BOUND, async || {
            let reads = self.reads.load(Ordering::Relaxed);
            assert!(
                reads < MINUTE_OF_READS && !self.readers.iter().any(|reader| reader.is_finished()),
                "{reads} reads"
            );
            counted(cluster, node, "dropped_total").await == 1
        })
        .await;
        println!("dropped after about {} reads", self.reads.load(Ordering::Relaxed));
    }

    async fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        for reader in self.readers {
            reader.await.expect("a reader");
        }
    }
}

/// What a node's auditor counts, summed over the series that begin so.
async fn counted(cluster: &mut Cluster, node: &str, what: &str) -> u64 {
    Door::new(&cluster.node(node).url()).counted(&format!("shardcache_node_audit_{what}")).await
}

/// The one Redis key of the user's entry, once an entry and not a lease is there.
async fn redis_key(redis: &RedisServer, user: &str, key: &str) -> String {
    let pattern = format!("*:{}:{user}/{key}", user.len());
    let found = until(HEALED, async || {
        let found = redis.cli(&["--scan", "--pattern", &pattern]).await.ok()?;
        let head = redis.cli(&["GETRANGE", &found, "0", "1"]).await.ok()?;
        (head == "SC").then_some(found)
    });
    found.await.unwrap_or_else(|| panic!("{pattern} is not in Redis"))
}

/// Puts what one Redis key holds under another, lifetime and all.
async fn copy(cluster: &Cluster, from: &str, to: &str) {
    let copied = cluster.redis[0].cli(&["COPY", from, to, "REPLACE"]).await.expect("a command");
    assert_eq!(copied, "1");
}

/// A cluster whose user "ada" has written `k` twice, and whose Redis holds the older value again. Also ada's owner.
async fn with_an_older_value_in_redis(env: &[(&str, &str)]) -> (Cluster, User, String) {
    let cluster = cluster(2, 1, env).await;
    let ada = cluster.user("ada");
    let node = owner(&ada).await;
    l2_in_use(&ada).await;
    assert_eq!(ada.put("k", "old").await.status, 201);
    let in_redis = redis_key(&cluster.redis[0], "ada", "k").await;
    copy(&cluster, &in_redis, "aside").await;
    assert_eq!(ada.put("k", "new").await.status, 204);
    assert_eq!(redis_key(&cluster.redis[0], "ada", "k").await, in_redis);
    copy(&cluster, "aside", &in_redis).await;
    (cluster, ada, node)
}

/// A cluster whose user "ada" has `k1` and `k2`, each with its name for a value, and their Redis keys. Also ada's owner.
async fn with_two_entries_in_redis() -> (Cluster, User, String, [String; 2]) {
    let cluster = cluster(2, 1, &[SHORT_L1]).await;
    let ada = cluster.user("ada");
    let node = owner(&ada).await;
    l2_in_use(&ada).await;
    for key in ["k1", "k2"] {
        assert_eq!(ada.put(key, key).await.status, 201);
    }
    let keys = [redis_key(&cluster.redis[0], "ada", "k1").await, redis_key(&cluster.redis[0], "ada", "k2").await];
    (cluster, ada, node, keys)
}

/// Nobody gets what Redis holds of `k2` now: the first who comes upon it has it replaced, the next gets that.
async fn assert_replaced(cluster: &mut Cluster, ada: &User, node: &str, of_k2: &str) {
    restart(cluster, node).await;
    eventually_l2_hit(ada, "k2", "k2", HEALED).await;
    assert_eq!(redis_key(&cluster.redis[0], "ada", "k2").await, of_k2);
    assert_eq!(value_of(&cluster.node(node).url(), "shardcache_node_l2_unreadable_total").await, 1);
    let log = cluster.node(node).process.log();
    let told: Vec<_> = log.lines().filter(|line| line.contains("cannot be read")).collect();
    assert!(matches!(told[..], [line] if line.contains("\"slot\":") && !line.contains("k2")), "{told:?}");
}

/// The log line: what is needed to look into it, and nothing of the user's.
fn assert_told(cluster: &mut Cluster, node: &str) {
    let log = cluster.node(node).process.log();
    let told: Vec<_> = log.lines().filter(|line| line.contains(logs::WRONG_ENTRY)).collect();
    assert!(!told.is_empty());
    for line in told {
        assert!(line.contains("\"ERROR\""), "{line}");
        for field in ["slot", "epoch", "tenure", "reign", "tier", "held_version", "origin_version"] {
            assert!(line.contains(&format!("\"{field}\":")), "{field} in {line}");
        }
        for private in ["ada", "old", "new"] {
            assert!(!line.contains(&format!("\"{private}\"")), "{private} in {line}");
        }
    }
}

#[tokio::test]
async fn a_value_corrupted_in_redis_is_found_within_a_minute_of_a_hot_key_at_the_default_rate_before_anyone_gets_it() {
    let _turn = TURN.lock().await;
    let (mut cluster, ada, node) = with_an_older_value_in_redis(&[]).await;
    // L1 has the newer value for its ten minutes: nobody has noticed yet.
    let load = Load::start(&ada, "k", &["new"]);
    load.until_dropped(&mut cluster, &node).await;
    load.finish().await;
    assert_eq!(counted(&mut cluster, &node, "inconsistent_total{tier=\"l2\"}").await, 1);
    assert_eq!(counted(&mut cluster, &node, "inconsistent_total{tier=\"l1\"}").await, 0);
    assert_told(&mut cluster, &node);
    // Where L1 has nothing L2 would be asked.
    restart(&mut cluster, &node).await;
    eventually("the owner serves", HEALED, async || says(&ada.get("k").await, "new")).await;
}

#[tokio::test]
async fn a_value_corrupted_in_redis_that_is_served_is_found_within_a_minute_of_a_hot_key_at_the_default_rate() {
    let _turn = TURN.lock().await;
    // L1 forgets within a second: where a busy Redis gave no answer in time, the next look finds the older value.
    let (mut cluster, ada, node) = with_an_older_value_in_redis(&[("SHARDCACHE_L1_TTL", "1s")]).await;
    restart(&mut cluster, &node).await;
    // Redis has lost no write and gives an older one: against that the protocol has no means (A3).
    eventually("the older value is served", HEALED, async || {
        let answer = ada.get("k").await;
        says(&answer, "old") && from_l2(&answer)
    })
    .await;
    let load = Load::start(&ada, "k", &["old", "new"]);
    load.until_dropped(&mut cluster, &node).await;
    for _ in 0..100 {
        let answer = ada.get("k").await;
        assert!(says(&answer, "new"), "{answer:?}");
    }
    load.finish().await;
    assert_eq!(counted(&mut cluster, &node, "inconsistency_age_seconds_count").await, 1);
    assert_told(&mut cluster, &node);
    // Nor does the wrong entry come back.
    restart(&mut cluster, &node).await;
    eventually("the owner serves", HEALED, async || {
        let answer = ada.get("k").await;
        assert!(!says(&answer, "old"), "{answer:?}");
        says(&answer, "new")
    })
    .await;
}

#[tokio::test]
async fn the_entry_of_another_key_copied_over_in_redis_is_not_served_but_counted_and_replaced() {
    let (mut cluster, ada, node, [of_k1, of_k2]) = with_two_entries_in_redis().await;
    copy(&cluster, &of_k1, &of_k2).await;
    assert_replaced(&mut cluster, &ada, &node, &of_k2).await;
}

#[tokio::test]
async fn an_entry_damaged_in_redis_is_not_served_but_counted_and_replaced() {
    let (mut cluster, ada, node, [_, of_k2]) = with_two_entries_in_redis().await;
    let length: usize = cluster.redis[0].cli(&["STRLEN", &of_k2]).await.expect("a command").parse().expect("a number");
    // The last byte of the value "k2".
    cluster.redis[0].cli(&["SETRANGE", &of_k2, &(length - 1).to_string(), "3"]).await.expect("a command");
    assert_replaced(&mut cluster, &ada, &node, &of_k2).await;
}

#[tokio::test]
async fn a_wrong_entry_that_redis_does_not_let_go_of_is_left_behind_with_its_l2_space() {
    let mut cluster = cluster(2, 1, &[EVERY_READ, LONG_LEASE]).await;
    let ada = cluster.user("ada");
    let node = owner(&ada).await;
    l2_in_use(&ada).await;
    assert_eq!(ada.put("k", "old").await.status, 201);
    redis_key(&cluster.redis[0], "ada", "k").await;
    let row = "UPDATE entries SET value = 'new', version = nextval('version_seq') WHERE usr = 'ada' AND key = 'k'";
    cluster.redis[0].pause().expect("paused");
    // By hand, past the protocol: both caches are wrong now.
    postgres(&mut cluster).sql(row).await.expect("changed");
    ada.get("k").await;
    eventually("the drop", HEALED, async || counted(&mut cluster, &node, "dropped_total").await == 1).await;
    assert!(says(&ada.get("k").await, "new"));
    cluster.redis[0].resume().expect("resumed");
    l2_in_use(&ada).await;
    restart(&mut cluster, &node).await;
    let answer = ada.get("k").await;
    assert!(says(&answer, "new"), "{answer:?}");
}

#[tokio::test]
async fn what_a_redis_holds_that_has_become_a_replica_is_not_held_against_it() {
    let [main, copy] =
        [RedisServer::start().await.expect("redis starts"), RedisServer::start().await.expect("redis starts")];
    let env =
        [("REDIS_URL", urls(&[&main]).as_str()), EVERY_READ, LONG_LEASE].map(|(n, v)| (n.to_owned(), v.to_owned()));
    let options = ClusterOptions { nodes: 1, redis: 0, env: env.to_vec(), ..ClusterOptions::default() };
    let mut cluster = start(options).await;
    let ada = cluster.user("ada");
    l2_in_use(&ada).await;
    assert_eq!(ada.put("k", "old").await.status, 201);
    redis_key(&main, "ada", "k").await;
    replicate(&copy, &main).await;
    copy.cli(&["REPLICAOF", "NO", "ONE"]).await.expect("promoted");
    assert_eq!(ada.put("k", "new").await.status, 204);
    redis_key(&main, "ada", "k").await;
    // Until the node notices, its connection leads to a replica that holds the older value under the key's L2 space.
    let load = Load::start(&ada, "k", &["new"]);
    eventually("audits look into Redis", HEALED, async || {
        // A slow moment of Redis may have left the entry out of L2, which nobody fills while L1 has it.
        ada.put("k", "new").await;
        counted(&mut cluster, "n1", "checked_total{tier=\"l2\"}").await > 0
    })
    .await;
    replicate(&main, &copy).await;
    eventually("the node notices", HEALED, async || sum_of(&cluster, "shardcache_node_l2_sessions").await == 0).await;
    load.finish().await;
    assert_eq!(counted(&mut cluster, "n1", "inconsistent_total").await, 0);
}

#[tokio::test]
async fn nothing_is_found_while_writes_ring_changes_and_a_frozen_node_meet_audits_of_every_read() {
    let _turn = TURN.lock().await;
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let env = [EVERY_READ, ("SHARDCACHE_L1_TTL", "200ms")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut cluster = start(ClusterOptions { gateways: 2, env: env.to_vec(), ..ClusterOptions::default() }).await;
    add_standby(&mut cluster, "n4", &[]).await;
    let checker = Checker::start((0..2).map(|number| Door::of(&cluster, number)).collect(), seed);
    checker.goes_on(500).await;
    done(&cluster, &["add-node", "n4"]).await;
    checker.goes_on(500).await;
    done(&cluster, &["remove-node", "n1"]).await;
    checker.goes_on(500).await;
    // Frozen amid its audits for longer than its lease; others write what it owned; then it goes on.
    cluster.node("n2").process.pause();
    lease_is_over(&mut cluster, "n2").await;
    done(&cluster, &["remove-node", "n2"]).await;
    checker.goes_on(500).await;
    cluster.node("n2").process.resume();
    checker.goes_on(500).await;
    done(&cluster, &["add-node", "n1"]).await;
    checker.goes_on(500).await;
    let seen = checker.finish().await;
    assert!(seen.violations.is_empty(), "{:#?}", seen.violations);
    let mut sums = [0; 4];
    for node in ["n1", "n2", "n3", "n4"] {
        let what = [
            "inconsistent_total",
            "checked_total{tier=\"l1\"}",
            "checked_total{tier=\"l2\"}",
            "skipped_total{reason=\"ov",
        ];
        for (sum, what) in sums.iter_mut().zip(what) {
            *sum += counted(&mut cluster, node, what).await;
        }
    }
    let [inconsistent, l1, l2, overlapped] = sums;
    println!("{} reads, {} writes; checked {l1} in L1, {l2} in L2; {overlapped} overlapped", seen.reads, seen.writes);
    assert_eq!(inconsistent, 0, "{}", cluster.log_tails());
    assert!(l1 > 100 && l2 > 100 && overlapped > 0, "{sums:?}");
}
