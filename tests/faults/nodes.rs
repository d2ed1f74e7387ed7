//! Nodes frozen, killed, started twice, stopped, and all started at once.

use std::time::{Duration, Instant};

use reqwest::Method;
use tests::cluster::{Cluster, ClusterOptions};
use tests::http::{User, answered, send};
use tests::poll::eventually;
use tests::postgres::PostgresServer;
use tests::processes::{Env, Process, free_address};

use crate::support::{HEALED, cluster, owner, postgres, restart, says, start, user_of, warm};

/// The takeover of a node whose lease is over (protocol L3), as the failure controller makes it.
const TAKE_OVER_N1: &str = "BEGIN; \
    UPDATE nodes SET incarnation = incarnation + 1 WHERE id = 'n1' AND lease_until < clock_timestamp(); \
    UPDATE slots SET owner = 'n2', tenure = nextval('tenure_seq'), gained = nextval('tenure_seq') WHERE owner = 'n1'; \
    COMMIT";

pub(crate) async fn lease_is_over(cluster: &mut Cluster, node: &str) {
    let sql = format!("SELECT lease_until < clock_timestamp() FROM nodes WHERE id = '{node}'");
    eventually("the lease is over", HEALED, async || postgres(cluster).sql(&sql).await.is_ok_and(|over| over == "t"))
        .await;
}

/// How many migrations there are.
const MIGRATIONS: u32 = 3;

#[tokio::test]
async fn a_node_frozen_beyond_its_lease_serves_nothing_old_when_it_wakes() {
    let mut cluster = cluster(2, 1, &[]).await;
    let id = user_of(&cluster, "n1", "ada").await;
    let ada = cluster.user(&id);
    assert_eq!(ada.put("k", "old").await.status, 201);
    warm(&ada, "k", "old").await;
    cluster.node("n1").process.pause();
    lease_is_over(&mut cluster, "n1").await;
    postgres(&mut cluster).sql(TAKE_OVER_N1).await.expect("taken over");
    let [at_old, at_new] = ["n1", "n2"].map(|node| User::new(&cluster.node(node).url(), &id));
    eventually("the new owner takes the write", HEALED, async || at_new.put("k", "new").await.status == 204).await;
    // On its way while the node sleeps: the first thing it sees.
    let early = {
        let at_old = at_old.clone();
        tokio::spawn(async move { at_old.get("k").await })
    };
    let late_write = {
        let at_old = at_old.clone();
        tokio::spawn(async move { at_old.put("k", "from the past").await })
    };
    cluster.node("n1").process.resume();
    let early = early.await.expect("answered");
    assert!(says(&early, "new") || early.status == 421, "{early:?}");
    let late_write = late_write.await.expect("answered");
    assert_eq!(late_write.status, 421, "{late_write:?}");
    for _ in 0..20 {
        let answer = at_old.get("k").await;
        assert!(says(&answer, "new") || answer.status == 421, "{answer:?}");
        assert!(says(&ada.get("k").await, "new"));
    }
}

#[tokio::test]
async fn a_node_whose_lease_is_over_passes_its_caches_by_until_it_has_one_again() {
    let mut cluster = cluster(1, 0, &[("SHARDCACHE_LEASE_TTL", "1s")]).await;
    let ada = cluster.user("ada");
    assert_eq!(ada.put("k", "v").await.status, 201);
    warm(&ada, "k", "v").await;
    // The database goes first, so that no heartbeat can bring the lease back.
    postgres(&mut cluster).pause().expect("paused");
    let direct = User::new(&cluster.node("n1").url(), "ada");
    eventually("the lease is over", HEALED, async || !says(&direct.get("k").await, "v")).await;
    let answer = direct.get("k").await;
    assert_eq!(answer.status, 503, "served without a lease: {answer:?}");
    postgres(&mut cluster).resume().expect("resumed");
    warm_again(&ada).await;
}

async fn warm_again(user: &User) {
    eventually("the entry is served again", HEALED, async || says(&user.get("k").await, "v")).await;
    warm(user, "k", "v").await;
}

#[tokio::test]
async fn a_killed_node_that_starts_again_waits_for_its_own_lease_and_no_longer() {
    let mut cluster = cluster(2, 1, &[]).await;
    let id = user_of(&cluster, "n1", "ada").await;
    let ada = cluster.user(&id);
    assert_eq!(ada.put("k", "v").await.status, 201);
    cluster.node("n1").process.kill();
    let killed = Instant::now();
    cluster.node("n1").restart();
    eventually("it says why it waits", HEALED, async || {
        cluster.node("n1").process.log().contains("the lease of an earlier process of this name is not over yet")
    })
    .await;
    eventually("the node serves again", HEALED, async || {
        let answer = ada.get("k").await;
        // Meanwhile another node reads the database for it.
        assert!(says(&answer, "v") || answer.status == 503, "{answer:?}");
        answer.header("x-cache-node") == "n1" && !answer.header("cache-status").contains("bypass")
    })
    .await;
    // The lease of 3 s, and what starting and polling add.
    assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    assert_eq!(ada.put("k", "w").await.status, 204);
}

#[tokio::test]
async fn of_two_processes_of_one_name_the_second_waits_and_says_why() {
    let mut cluster = cluster(1, 1, &[]).await;
    let ada = cluster.user("ada");
    assert_eq!(ada.put("k", "v").await.status, 201);
    let address = free_address();
    let mut env: Env = cluster.migrator_env();
    for (name, value) in [
        ("REDIS_URL", cluster.redis[0].url()),
        ("SHARDCACHE_NODE_ID", "n1".to_owned()),
        ("SHARDCACHE_LISTEN", address.to_string()),
        ("SHARDCACHE_ADVERTISE", address.to_string()),
    ] {
        env.push((name.to_owned(), value));
    }
    let mut second = Process::start("cache-node", &[], &env);
    eventually("the second says why it waits", HEALED, async || {
        second.log().contains("the lease of an earlier process of this name is not over yet")
    })
    .await;
    let base = format!("http://{address}");
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        assert!(says(&ada.get("k").await, "v"));
        assert_eq!(ada.put("k", "v").await.status, 204);
        let ready = answered(User::new(&base, "probe").request(Method::GET, "/readyz")).await;
        assert_eq!(ready.status, 503, "{ready:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(cluster.node("n1").process.is_running() && second.is_running());
    // The first stops cleanly: the second is the node at once.
    assert_eq!(cluster.node("n1").process.stop().await.code(), Some(0));
    second.wait_ready(address, "/readyz").await;
    eventually("the second serves", HEALED, async || says(&ada.get("k").await, "v")).await;
}

#[tokio::test]
async fn a_stopped_node_releases_its_lease_and_claims_at_once_when_started() {
    let mut cluster = cluster(2, 1, &[("SHARDCACHE_LEASE_TTL", "30s")]).await;
    let id = user_of(&cluster, "n1", "ada").await;
    assert_eq!(cluster.user(&id).put("k", "v").await.status, 201);
    let start = Instant::now();
    restart(&mut cluster, "n1").await;
    // Waiting for the lease would have taken 30 s.
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    assert!(!cluster.node("n1").process.log().contains("waiting to become the node"));
    let answer = cluster.user(&id).get("k").await;
    assert!(says(&answer, "v"), "{answer:?}");
}

#[tokio::test]
async fn a_node_that_is_stopped_ends_its_writes_first() {
    let mut cluster = cluster(1, 1, &[]).await;
    let ada = cluster.user("ada");
    assert_eq!(ada.put("k", "before").await.status, 201);
    let mut session = postgres(&mut cluster).session().await.expect("a session");
    session.run("BEGIN; SELECT 1 FROM entries WHERE key = 'k' FOR UPDATE").await.expect("locked");
    let write = {
        let ada = ada.clone();
        tokio::spawn(async move { ada.put("k", "at the last moment").await })
    };
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    eventually("the write waits for the row", HEALED, async || {
        postgres(&mut cluster).sql(waiting).await.is_ok_and(|count| count != "0")
    })
    .await;
    cluster.node("n1").process.ask_to_stop();
    let probe = User::new(&cluster.node("n1").url(), "probe");
    eventually("it takes no more requests", HEALED, async || {
        !send(probe.request(Method::GET, "/readyz")).await.is_ok_and(|answer| answer.status == 200)
    })
    .await;
    session.run("ROLLBACK").await.expect("released");
    let write = write.await.expect("answered");
    assert_eq!(write.status, 204, "{write:?}");
    assert_eq!(cluster.node("n1").process.wait_end(Duration::from_secs(12)).await.code(), Some(0));
    cluster.node("n1").restart();
    cluster.node("n1").wait_ready().await;
    eventually("the write is there", HEALED, async || says(&ada.get("k").await, "at the last moment")).await;
}

#[tokio::test]
async fn six_nodes_started_at_once_on_an_empty_database_all_come_up() {
    // The cluster starts its nodes together, before there is a schema.
    let mut cluster = start(ClusterOptions { nodes: 6, ..ClusterOptions::default() }).await;
    let versions = "SELECT string_agg(version::text, ',' ORDER BY version) FROM schema_version";
    let versions = postgres(&mut cluster).sql(versions).await.expect("a schema");
    let migrations: Vec<String> = (1..=MIGRATIONS).map(|number| number.to_string()).collect();
    assert_eq!(versions, migrations.join(","), "each migration once");
    for (name, node) in &cluster.nodes {
        assert!(!node.process.log().contains("deadlock"), "{}", node.process.log_tail());
        let user = cluster.user(&user_of(&cluster, name, "user").await);
        assert_eq!(owner(&user).await, *name);
        assert_eq!(user.put("k", "v").await.status, 201);
    }
}

#[tokio::test]
async fn a_node_waits_for_a_database_that_starts_after_it() {
    let mut postgres = PostgresServer::start().await.expect("postgres starts");
    postgres.stop().await.expect("stopped");
    let address = free_address();
    let env: Env = [
        ("DATABASE_URL", postgres.url()),
        ("SHARDCACHE_NODE_ID", "n1".to_owned()),
        ("SHARDCACHE_LISTEN", address.to_string()),
        ("SHARDCACHE_ADVERTISE", address.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec();
    let mut node = Process::start("cache-node", &[], &env);
    eventually("it says what it waits for", HEALED, async || !node.log().is_empty()).await;
    assert!(node.is_running(), "{}", node.log_tail());
    postgres.restart().await.expect("started");
    node.wait_ready(address, "/readyz").await;
    assert!(!node.log().contains(postgres.password()));
}
