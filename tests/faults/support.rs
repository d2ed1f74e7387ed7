//! What the tests of faults share: small clusters, users of a certain node, tiers, counters, rows put in by hand.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use tests::cluster::{Cluster, ClusterOptions};
use tests::http::{Answer, User, answered, send};
use tests::poll::eventually;
use tests::postgres::PostgresServer;
use tests::redis::RedisServer;

/// How long a cluster may take to be as before once a fault is over.
pub(crate) const HEALED: Duration = Duration::from_secs(15);

/// L1 forgets so soon that reads come to L2.
pub(crate) const SHORT_L1: (&str, &str) = ("SHARDCACHE_L1_TTL", "50ms");

/// No lease ends because the machine is busy: for tests that count what the caches spare.
pub(crate) const LONG_LEASE: (&str, &str) = ("SHARDCACHE_LEASE_TTL", "60s");

/// A cluster on Postgres with so many nodes and L2 servers.
pub(crate) async fn cluster(nodes: usize, redis: usize, env: &[(&str, &str)]) -> Cluster {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    start(ClusterOptions { nodes, redis, env, ..ClusterOptions::default() }).await
}

/// A cluster whose programs log in to Postgres without a password: here connections are made by the dozen when a fault is
/// over.
pub(crate) async fn start(options: ClusterOptions) -> Cluster {
    let mut cluster = Cluster::start(options).await;
    postgres(&mut cluster).trust_everybody().await.expect("a superuser may");
    cluster
}

/// The database server of a cluster that has one.
pub(crate) fn postgres(cluster: &mut Cluster) -> &mut PostgresServer {
    cluster.postgres.as_mut().expect("the cluster is on Postgres")
}

/// Puts a row in past all caches.
pub(crate) async fn put_row(cluster: &mut Cluster, user: &str, key: &str, value: &str) {
    let sql = format!(
        "INSERT INTO entries (usr, key, value, content_type, version, updated_ms) \
         VALUES ('{user}', '{key}', '{value}', 'text/plain', nextval('version_seq'), 0)"
    );
    postgres(cluster).sql(&sql).await.expect("a row can be put in");
}

/// The value in the table; `None` when there is no row.
pub(crate) async fn row_value(cluster: &mut Cluster, user: &str, key: &str) -> Option<String> {
    let sql = format!("SELECT convert_from(value, 'UTF8') FROM entries WHERE usr = '{user}' AND key = '{key}'");
    let value = postgres(cluster).sql(&sql).await.expect("the table can be read");
    (!value.is_empty()).then_some(value)
}

/// The node that owns a user's slot, as the gateway sees it.
pub(crate) async fn owner(user: &User) -> String {
    let answer = answered(user.request(Method::GET, "/v1/ring/locate")).await;
    answer.json()["owner"].as_str().unwrap_or_else(|| panic!("no owner: {answer:?}")).to_owned()
}

/// A user whose slot the node owns.
pub(crate) async fn user_of(cluster: &Cluster, node: &str, prefix: &str) -> String {
    for number in 0..1000 {
        let id = format!("{prefix}{number}");
        if owner(&cluster.user(&id)).await == node {
            return id;
        }
    }
    panic!("{node} owns no slot of a thousand users");
}

/// One user of each node.
pub(crate) async fn a_user_of_each(cluster: &Cluster, prefix: &str) -> Vec<String> {
    join_all(cluster.nodes.keys().map(|node| user_of(cluster, node, prefix))).await
}

/// A counter or gauge without labels, summed over all nodes.
pub(crate) async fn sum_of(cluster: &Cluster, metric: &str) -> u64 {
    let mut sum = 0;
    for node in cluster.nodes.values() {
        sum += value_of(&node.url(), metric).await;
    }
    sum
}

/// A counter or gauge without labels of the program at `base`.
pub(crate) async fn value_of(base: &str, metric: &str) -> u64 {
    let text = answered(User::new(base, "metrics").request(Method::GET, "/metrics")).await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("no {metric} in {text}"))
}

/// Read statements that the nodes have sent to the database.
pub(crate) async fn origin_reads(cluster: &Cluster) -> u64 {
    sum_of(cluster, "shardcache_node_origin_reads_total").await
}

/// Lets every node make its connections to the database.
pub(crate) async fn connect_all(cluster: &Cluster) {
    for node in cluster.nodes.values() {
        let user = User::new(&node.url(), "crowd");
        let reader = || answered(user.request(Method::GET, "/v1/entries/none").header("X-Shardcache-Detached", "1"));
        eventually("a crowd is served", HEALED, async || {
            join_all((0..16).map(|_| reader())).await.iter().all(|answer| answer.status == 404)
        })
        .await;
    }
}

/// Waits until what this user loads goes to L2.
pub(crate) async fn l2_in_use(user: &User) {
    eventually("L2 takes loads", HEALED, async || {
        let absent = user.get(&format!("absent-{}", rand::random::<u64>())).await;
        assert_eq!(absent.status, 404, "{absent:?}");
        absent.header("cache-status").contains("shardcache-l2; fwd=miss; stored")
    })
    .await;
}

/// Waits until every node reaches every Redis server of the cluster.
pub(crate) async fn l2_sessions(cluster: &Cluster) {
    let all = (cluster.nodes.len() * cluster.redis.len()) as u64;
    eventually("Redis is reached", HEALED, async || sum_of(cluster, "shardcache_node_l2_sessions").await == all).await;
}

/// Whether L1 gave the answer.
pub(crate) fn from_l1(answer: &Answer) -> bool {
    answer.header("cache-status") == "shardcache-l1; hit"
}

/// Whether L2 gave the answer.
pub(crate) fn from_l2(answer: &Answer) -> bool {
    answer.header("cache-status").contains("shardcache-l2; hit")
}

/// Whether it is a 200 with this value.
pub(crate) fn says(answer: &Answer, value: &str) -> bool {
    answer.status == 200 && answer.body == value
}

/// Whether each answer is right; shows the first that is not.
pub(crate) fn assert_all(answers: &[Answer], right: impl Fn(&Answer) -> bool) {
    if let Some(wrong) = answers.iter().find(|answer| !right(answer)) {
        let all: Vec<_> = answers.iter().map(|answer| answer.status).collect();
        panic!("{wrong:?} {} among {all:?}", wrong.text());
    }
}

/// Reads a key until L1 gives it; every answer on the way must be the value.
pub(crate) async fn warm(user: &User, key: &str, value: &str) {
    eventually("L1 has the entry", HEALED, async || {
        let answer = user.get(key).await;
        assert!(says(&answer, value), "{answer:?}");
        from_l1(&answer)
    })
    .await;
}

/// Reads a key of a cluster with [`SHORT_L1`] until L2 gives it; every answer on the way must be the value.
pub(crate) async fn eventually_l2_hit(user: &User, key: &str, value: &str, within: Duration) {
    eventually("L2 gives the entry", within, async || {
        let answer = user.get(key).await;
        assert!(says(&answer, value), "{answer:?}");
        from_l2(&answer)
    })
    .await;
}

/// Stops a node cleanly and starts it again: its L1 is cold, L2 is as it was.
pub(crate) async fn restart(cluster: &mut Cluster, node: &str) {
    let member = cluster.node(node);
    let end = member.process.stop().await;
    assert_eq!(end.code(), Some(0), "{}", member.process.log_tail());
    member.restart();
    eventually_serves(cluster, node).await;
}

/// Waits until a node that was started again answers its users, by a read that may fail until then.
pub(crate) async fn eventually_serves(cluster: &mut Cluster, node: &str) {
    cluster.node(node).wait_ready().await;
    let user = cluster.user(&user_of(cluster, node, "probe").await);
    eventually("the restarted node serves", HEALED, async || {
        let answer = user.get("no-such-key").await;
        answer.status == 404
            && answer.header("x-cache-node") == node
            && !answer.header("cache-status").contains("bypass")
    })
    .await;
}

/// `GET`s of all keys at once; the answers in their order.
pub(crate) async fn get_all(user: &User, keys: &[String]) -> Vec<Answer> {
    join_all(keys.iter().map(|key| user.get(key))).await
}

/// A request whose connection may break, as clients see it while servers die.
pub(crate) async fn attempt(user: &User, method: Method, key: &str, body: &str) -> Option<Answer> {
    send(user.request(method, &format!("/v1/entries/{key}")).body(body.to_owned())).await.ok()
}

/// A Redis URL list.
pub(crate) fn urls(servers: &[&RedisServer]) -> String {
    servers.iter().map(|server| server.url()).collect::<Vec<_>>().join(",")
}
