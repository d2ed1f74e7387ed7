//! Every key a register: readers and writers through the gateway while Redis is frozen, emptied and restarted at random.
//!
//! Versions are the order of the writes. A read must give a version not older than any acknowledged or read before it
//! began, and the value that was written under that version, begun before the read ended.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use reqwest::Method;
use tests::cluster::Cluster;
use tests::http::{Answer, User};

use crate::support::{a_user_of_each, attempt, cluster, l2_in_use, l2_sessions};

/// How long Redis is maltreated.
const CHAOS: Duration = Duration::from_secs(20);
const WRITERS_PER_KEY: u64 = 2;
const READERS_PER_KEY: u64 = 2;
const KEYS_PER_USER: u64 = 3;

/// What is known of one key.
struct Register {
    user: User,
    key: String,
    /// The newest version acknowledged or returned: no later read may give an older one.
    floor: AtomicU64,
    /// Versions with their values, as acknowledged (an empty value: deleted).
    acknowledged: Mutex<HashMap<u64, String>>,
    /// Writes begun so far, per writer.
    begun: [AtomicU64; WRITERS_PER_KEY as usize],
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Register {
    fn new(user: User, key: String) -> Self {
        Self {
            user,
            key,
            floor: AtomicU64::new(0),
            acknowledged: Mutex::default(),
            begun: Default::default(),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
        }
    }

    async fn write(&self, writer: usize) {
        let number = self.begun[writer].fetch_add(1, Ordering::SeqCst) + 1;
        let value = format!("{writer}:{number}");
        let answer = attempt(&self.user, Method::PUT, &self.key, &value).await.expect("the gateway answers");
        match answer.status {
            201 | 204 => {
                let version = version(&answer);
                self.acknowledged.lock().expect("not poisoned").insert(version, value);
                self.floor.fetch_max(version, Ordering::SeqCst);
                self.writes.fetch_add(1, Ordering::Relaxed);
            }
            // Redis is away, not the database: a write may be late, but is never in doubt.
            status => panic!("a write was answered {status}: {answer:?}"),
        }
    }

    async fn read(&self) {
        let floor = self.floor.load(Ordering::SeqCst);
        let answer = attempt(&self.user, Method::GET, &self.key, "").await.expect("the gateway answers");
        if answer.status == 404 && floor == 0 {
            return;
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        let version = version(&answer);
        assert!(version >= floor, "version {version} was read, {floor} had been seen before: {answer:?}");
        let value = answer.text();
        let (writer, number) = value.split_once(':').expect("a value of ours");
        let (writer, number): (usize, u64) = (writer.parse().expect("a number"), number.parse().expect("a number"));
        assert!(number <= self.begun[writer].load(Ordering::SeqCst), "{value} was read before it was written");
        if let Some(acknowledged) = self.acknowledged.lock().expect("not poisoned").get(&version) {
            assert_eq!(*acknowledged, value, "version {version} has two values");
        }
        self.floor.fetch_max(version, Ordering::SeqCst);
        self.reads.fetch_add(1, Ordering::Relaxed);
    }
}

fn version(answer: &Answer) -> u64 {
    let tag = answer.header("etag").trim_matches('"');
    tag.parse().unwrap_or_else(|_| panic!("no version: {answer:?}"))
}

/// Does one thing to Redis.
async fn maltreat(cluster: &mut Cluster, chance: &mut impl Rng) {
    let redis = &mut cluster.redis[0];
    let pause = Duration::from_millis(chance.random_range(20..1500));
    match chance.random_range(0..4) {
        0 => {
            redis.pause().expect("paused");
            tokio::time::sleep(pause).await;
            redis.resume().expect("resumed");
        }
        1 => {
            redis.cli(&["FLUSHALL"]).await.expect("flushed");
        }
        2 => {
            redis.kill().await.expect("killed");
            tokio::time::sleep(pause).await;
            redis.restart().await.expect("started");
        }
        _ => {
            redis.cli(&["CLIENT", "KILL", "TYPE", "normal"]).await.expect("connections closed");
        }
    }
    // Time to be used again, or not quite.
    tokio::time::sleep(Duration::from_millis(chance.random_range(100..2500))).await;
}

#[tokio::test]
async fn no_read_goes_back_in_time_whatever_happens_to_redis() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut chance = StdRng::seed_from_u64(seed);
    // L1 forgets within a moment: reads come to L2, where the danger is.
    let mut cluster = cluster(2, 1, &[("SHARDCACHE_L1_TTL", "5ms")]).await;
    let users = a_user_of_each(&cluster, "client").await;
    let registers: Vec<_> = users
        .iter()
        .flat_map(|id| (0..KEYS_PER_USER).map(|key| Arc::new(Register::new(cluster.user(id), format!("k{key}")))))
        .collect();
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = tokio::task::JoinSet::new();
    for register in &registers {
        for client in 0..WRITERS_PER_KEY + READERS_PER_KEY {
            let (register, stop) = (Arc::clone(register), Arc::clone(&stop));
            let mut chance = StdRng::seed_from_u64(chance.random());
            clients.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    if client < WRITERS_PER_KEY {
                        register.write(client as usize).await
                    } else {
                        register.read().await
                    }
                    tokio::time::sleep(Duration::from_millis(chance.random_range(0..20))).await;
                }
            });
        }
    }
    let start = Instant::now();
    while start.elapsed() < CHAOS && clients.try_join_next().is_none() {
        maltreat(&mut cluster, &mut chance).await;
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        if let Err(error) = client {
            panic!("seed {seed}: {error}");
        }
    }
    for register in &registers {
        register.read().await;
        let (reads, writes) = (register.reads.load(Ordering::Relaxed), register.writes.load(Ordering::Relaxed));
        assert!(reads > 20 && writes > 20, "seed {seed}: {reads} reads, {writes} writes");
    }
    l2_sessions(&cluster).await;
    l2_in_use(&registers[0].user).await;
}
