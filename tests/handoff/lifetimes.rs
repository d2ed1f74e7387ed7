//! What is left of an entry's lifetime moves with it: a receiver serves nothing for longer than the old owner would have.
//!
//! That L1 gives an aged L2 entry no new lifetime on one node is among the tests of faults.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tests::cluster::{Cluster, ClusterOptions};
use tests::door::{Door, each, users};
use tests::ring_change::{add_standby, done, l2_in_use, start};

/// The lifetime of entries, jittered by a tenth: that of the tier which the test is about.
const TTL: Duration = Duration::from_secs(8);
/// When in the life of the young entries the change begins: at its end they have a second left on a busy machine.
const CHANGE_AT: Duration = Duration::from_secs(5);
/// Beyond the lifetime and its jitter: a request and a poll on a busy machine.
const SLACK: Duration = Duration::from_millis(500);
/// Between two reads of a user.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long after its load an old value may be served: the lifetime, its jitter, and the slack.
const OLD_BOUND: Duration = Duration::from_millis(8800 + 500);

/// When each user's entry was loaded.
type Loaded = BTreeMap<String, Instant>;

async fn sql(cluster: &Cluster, sql: &str) {
    cluster.postgres.as_ref().expect("on Postgres").sql(sql).await.expect("the statement runs");
}

/// Puts rows in past all caches, reads each twice through the gateway, and changes them past all caches.
async fn load_and_outdate(cluster: &Cluster, gateway: &Door, users: &[String]) -> Loaded {
    let list = users.iter().map(|user| format!("'{user}'")).collect::<Vec<_>>().join(",");
    sql(
        cluster,
        &format!(
            "INSERT INTO entries (usr, key, value, content_type, version, updated_ms) \
             SELECT usr, 'k', 'old', 'text/plain', nextval('version_seq'), 0 FROM unnest(ARRAY[{list}]) AS usr"
        ),
    )
    .await;
    let loaded = each(users, async |user| {
        let first = gateway.get(user).await;
        assert_eq!((first.status, first.text().as_str()), (200, "old"), "{first:?}");
        // The lifetime began before the answer came.
        (user.to_owned(), Instant::now())
    })
    .await;
    let from_l1 =
        each(users, async |user| gateway.get(user).await.header("cache-status") == "shardcache-l1; hit").await;
    assert!(from_l1.iter().filter(|hit| **hit).count() * 2 >= users.len(), "L1 has them");
    let outdate = "UPDATE entries SET value = 'new', version = nextval('version_seq') WHERE usr IN";
    sql(cluster, &format!("{outdate} ({list})")).await;
    loaded.into_iter().collect()
}

/// How many of the users are served from L1.
async fn from_l1(gateway: &Door, users: &[String]) -> usize {
    let hit = async |user: &str| gateway.get(user).await.header("cache-status") == "shardcache-l1; hit";
    each(users, hit).await.into_iter().filter(|hit| *hit).count()
}

/// What was seen of one user after the change.
struct Seen {
    node: String,
    /// How old the value was when it was last served; none when it was new from the first read.
    last_old: Option<Duration>,
    from_l1: bool,
}

/// Reads until the new value comes; it must stay then.
async fn until_new(gateway: &Door, user: &str, loaded: Instant) -> Seen {
    let mut seen = Seen { node: String::new(), last_old: None, from_l1: false };
    loop {
        let asked = loaded.elapsed();
        let answer = gateway.get(user).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        seen.node = answer.header("X-Cache-Node").to_owned();
        if answer.body == "new" {
            assert_eq!(gateway.get(user).await.text(), "new", "{user}");
            return seen;
        }
        assert!(asked <= OLD_BOUND, "{user}: the old value {asked:?} after its load: {answer:?}");
        seen.last_old = Some(asked);
        seen.from_l1 |= answer.header("cache-status") == "shardcache-l1; hit";
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn report(what: &str, seen: &[Seen]) {
    let moved: Vec<&Seen> = seen.iter().filter(|seen| seen.node == "n4").collect();
    let old: Vec<Duration> = moved.iter().filter_map(|seen| seen.last_old).collect();
    let copied = moved.iter().filter(|seen| seen.from_l1).count();
    let all = (seen.len(), moved.len(), old.len());
    println!("{what}: users, moved, of these old at first: {all:?}; {copied} from L1; oldest {:?}", old.iter().max());
    assert!(moved.len() >= 5, "{} moved", moved.len());
}

/// Loads entries that are over by the time of a change and ones that have about a second left, and looks at both after.
async fn across_a_change(redis: usize, ttls: [&str; 2]) {
    let env = ["SHARDCACHE_L1_TTL", "SHARDCACHE_L2_TTL"].into_iter().zip(ttls);
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut cluster = start(ClusterOptions { redis, env, ..ClusterOptions::default() }).await;
    add_standby(&mut cluster, "n4", &[]).await;
    if redis > 0 {
        l2_in_use(&cluster).await;
    }
    let gateway = Door::of(&cluster, 0);
    let all = users(120);
    let (over, young) = all.split_at(60);
    let loaded_over = load_and_outdate(&cluster, &gateway, over).await;
    let oldest = loaded_over.values().max().copied().expect("users");
    // The young are loaded so late that at the change the others are over by jitter and slack.
    let load_young = oldest + TTL + TTL / 10 + SLACK - CHANGE_AT;
    tokio::time::sleep_until(load_young.into()).await;
    let loaded_young = load_and_outdate(&cluster, &gateway, young).await;
    let youngest = loaded_young.values().max().copied().expect("users");
    tokio::time::sleep_until((youngest + CHANGE_AT).into()).await;
    // Where L1's own lifetime is shorter, it takes them from the aged L2 once more.
    from_l1(&gateway, young).await;
    println!("{}", done(&cluster, &["add-node", "n4"]).await.stdout);
    println!("the change was over when the young were {:?} old", youngest.elapsed());

    let watch = async |loaded: &Loaded, users: &[String]| {
        // All at the same time, for each is watched to its end.
        let watched = users.iter().map(|user| until_new(&gateway, user, loaded[user]));
        futures_util::future::join_all(watched).await
    };
    let (seen_over, seen_young) = tokio::join!(watch(&loaded_over, over), watch(&loaded_young, young));
    report("over", &seen_over);
    report("young", &seen_young);
    assert!(seen_over.iter().all(|seen| seen.last_old.is_none()), "an entry was served after its end");
    gateway.follows(2).await;
}

#[tokio::test]
async fn what_l1_held_lives_no_longer_at_the_receiver() {
    across_a_change(0, ["8s", "1h"]).await;
}

#[tokio::test]
async fn what_l2_held_lives_no_longer_at_the_receiver() {
    across_a_change(1, ["3s", "8s"]).await;
}
