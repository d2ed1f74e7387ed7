//! Every key a register: clients of the gateway while Redis is frozen, emptied and restarted at random.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use tests::clients::{Clients, ClientsOptions};
use tests::cluster::Cluster;
use tests::door::Door;
use tests::linearizable::check;

use crate::support::{cluster, l2_in_use, l2_sessions};

/// How long Redis is maltreated.
const CHAOS: Duration = Duration::from_secs(20);

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
    let doors = vec![Door::of(&cluster, 0)];
    let options =
        ClientsOptions { clients: 24, readers: 12, users: 4, think: Duration::from_millis(10), ..Default::default() };
    let clients = Clients::start(doors.clone(), options, seed);
    let start = Instant::now();
    while start.elapsed() < CHAOS {
        maltreat(&mut cluster, &mut chance).await;
    }
    let mut recorded = clients.finish().await;
    assert_eq!(recorded.read_every_key(&doors).await, 0, "{:?}", recorded.read_errors);
    let checked = check(&recorded.history).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    println!("{checked:?}");
    assert!(checked.reads > 500 && checked.writes > 300, "seed {seed}: {checked:?}");
    // Redis is away, not the database: a request may be late, but is never refused or in doubt.
    assert_eq!((recorded.read_errors, recorded.write_errors), (BTreeMap::new(), BTreeMap::new()), "seed {seed}");
    assert_eq!(recorded.protocol_errors, Vec::<String>::new(), "seed {seed}");
    l2_sessions(&cluster).await;
    l2_in_use(&cluster.user("checked-0")).await;
}
