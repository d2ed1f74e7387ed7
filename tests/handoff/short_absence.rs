//! A node killed and back under its name within seconds: its users and slots stay its own, and L2 is still theirs (B07).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use reqwest::Method;
use tests::cluster::Cluster;
use tests::door::{Door, each, owned_by, shares, users};
use tests::http::{Answer, answered};
use tests::poll::eventually;
use tests::ring_change::{cluster, l2_in_use};

/// How long the node is away before its process starts again.
const AWAY: Duration = Duration::from_secs(2);
/// From the kill to the first write: what is left of a lease of 3 s, starting and polling, on a busy machine.
const BACK_BOUND: Duration = Duration::from_secs(12);
/// The key of users that nobody touches while the node is away: a write before Redis is reached again costs its slot L2.
const UNTOUCHED: &str = "/v1/entries/untouched";

/// What was answered while a node was away.
#[derive(Debug, Default)]
struct Meanwhile {
    reads: u64,
    writes: u64,
    /// By user: the newest value acknowledged.
    newest: BTreeMap<String, String>,
    /// By user: writes said to be not executed.
    refused: BTreeMap<String, u64>,
}

/// One read and one write of each user; only writes may be refused, and only as "owner unavailable". How many were.
async fn round(gateway: &Door, all: &[String], value: &str, meanwhile: &mut Meanwhile) -> u64 {
    let answers = each(all, async |user| (user.to_owned(), gateway.get(user).await, gateway.put(user, value).await));
    let mut refused = 0;
    for (user, read, write) in answers.await {
        let newest = meanwhile.newest.get(&user).map_or("before", String::as_str);
        assert_eq!((read.status, read.text().as_str()), (200, newest), "a read of {user}: {read:?}");
        meanwhile.reads += 1;
        match (write.status, write.code().as_str()) {
            (204, _) => {
                meanwhile.writes += 1;
                meanwhile.newest.insert(user, value.to_owned());
            }
            (503, "owner_unavailable") => {
                *meanwhile.refused.entry(user).or_default() += 1;
                refused += 1;
            }
            _ => panic!("a write of {user}: {write:?}"),
        }
    }
    refused
}

async fn untouched(gateway: &Door, user: &str) -> Answer {
    answered(gateway.request(Method::GET, user, UNTOUCHED)).await
}

/// Kills n2 and starts it again; reads and writes go on until all of them are taken. What was answered, and how long
/// n2 was away.
async fn kill_and_return(cluster: &mut Cluster, gateway: &Door, all: &[String]) -> (Meanwhile, Duration) {
    cluster.node("n2").process.kill();
    let killed = Instant::now();
    let (mut meanwhile, mut rounds, mut started) = (Meanwhile::default(), 0, false);
    loop {
        if !started && killed.elapsed() >= AWAY {
            started = true;
            cluster.node("n2").restart();
        }
        rounds += 1;
        let refused = round(gateway, all, &format!("round {rounds}"), &mut meanwhile).await;
        if started && refused == 0 {
            return (meanwhile, killed.elapsed());
        }
        assert!(killed.elapsed() < BACK_BOUND, "not back: {meanwhile:?}");
    }
}

#[tokio::test]
async fn a_node_away_for_seconds_keeps_its_users_and_finds_them_in_l2() {
    let mut cluster = cluster(1).await;
    // It must leave a node alone that is away for so short a time.
    let mut watch = cluster.start_migrator(&["watch"]);
    let gateway = Door::of(&cluster, 0);
    l2_in_use(&cluster).await;
    let all = users(60);
    let quiet: Vec<String> = (0..60).map(|number| format!("quiet-{number}")).collect();
    gateway.put_all(&all, "before").await;
    each(&quiet, async |user| {
        let put = gateway.request(Method::PUT, user, UNTOUCHED).body(user.to_owned());
        assert_eq!(answered(put).await.status, 201);
    })
    .await;
    let before: BTreeMap<String, (String, String)> = each(&quiet, async |user| {
        let answer = untouched(&gateway, user).await;
        (user.to_owned(), (answer.header("X-Cache-Node").to_owned(), answer.header("etag").to_owned()))
    })
    .await
    .into_iter()
    .collect();
    let (owners, shared) = (gateway.owners(&all).await, shares(&gateway.ring().await));
    let own = owned_by(&owners, "n2");
    assert!(own.len() > 5, "n2 has {} of 60 users", own.len());

    let (meanwhile, back) = kill_and_return(&mut cluster, &gateway, &all).await;
    let refused: u64 = meanwhile.refused.values().sum();
    println!("back after {back:?}: {} reads, {} writes, {refused} refused", meanwhile.reads, meanwhile.writes);
    assert!(refused > 0, "it was away");
    assert!(meanwhile.refused.keys().all(|user| own.contains(user)), "users of others were refused: {meanwhile:?}");

    // Users, slots and epoch are as before, and what was warm in Redis still is.
    assert_eq!(gateway.owners(&all).await, owners);
    assert_eq!((gateway.epoch().await, shares(&gateway.ring().await)), (1, shared));
    let node = Door::new(&cluster.nodes["n2"].url());
    eventually("n2 reaches Redis", BACK_BOUND, async || node.counted("shardcache_node_l2_sessions").await == 1).await;
    let (mut from_l2, mut of_n2) = (0, 0);
    for (user, answer) in each(&quiet, async |user| (user.to_owned(), untouched(&gateway, user).await)).await {
        let (node, etag) = &before[&user];
        assert_eq!((answer.status, answer.text()), (200, user.clone()), "{answer:?}");
        assert_eq!((answer.header("X-Cache-Node"), answer.header("etag")), (node.as_str(), etag.as_str()));
        if node == "n2" {
            of_n2 += 1;
            from_l2 += u64::from(answer.header("cache-status") == "shardcache-l1; fwd=miss, shardcache-l2; hit");
        }
    }
    println!("{from_l2} of {of_n2} quiet users of n2 served from L2 at once");
    // A command to Redis may take too long on a busy machine, and a written slot may be a quiet user's too.
    assert!(of_n2 > 5 && from_l2 * 10 >= of_n2 * 9, "{from_l2} of {of_n2} from L2");
    gateway.put_all(&all, "after").await;
    gateway.read_all(&all, "after").await;
    assert!(watch.is_running(), "{}", watch.log_tail());
}
