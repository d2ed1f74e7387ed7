//! Postgres locked, stopped for long, or killed under writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Method;
use tests::http::{User, answered};
use tests::poll::eventually;

use crate::support::{
    HEALED, LONG_LEASE, a_user_of_each, attempt, cluster, from_l1, get_all, owner, postgres, put_row, row_value, says,
    warm,
};

#[tokio::test]
async fn a_locked_table_costs_cold_reads_a_bounded_time_and_warm_ones_nothing() {
    let mut cluster = cluster(3, 1, &[LONG_LEASE]).await;
    let mut warm_users = Vec::new();
    for id in a_user_of_each(&cluster, "warm").await {
        let node = owner(&cluster.user(&id)).await;
        // At the node itself: whether the gateway finds it well on a busy machine is another matter.
        let user = User::new(&cluster.node(&node).url(), &id);
        assert_eq!(user.put("k", "v").await.status, 201);
        warm(&user, "k", "v").await;
        warm_users.push(user);
    }
    put_row(&mut cluster, "cold", "cold-0", "c").await;
    let mut session = postgres(&mut cluster).session().await.expect("a session");
    session.run("BEGIN; LOCK TABLE entries IN ACCESS EXCLUSIVE MODE").await.expect("locked");
    let cold: Vec<User> = (0..60).map(|number| cluster.user(&format!("cold-user-{number}"))).collect();
    let cold = tokio::spawn(async move {
        join_all(cold.iter().flat_map(|user| {
            (0..5).map(async move |number| {
                let start = Instant::now();
                (user.get(&format!("cold-{number}")).await, start.elapsed())
            })
        }))
        .await
    });
    while !cold.is_finished() {
        for user in &warm_users {
            let start = Instant::now();
            let answer = user.get("k").await;
            assert!(says(&answer, "v") && from_l1(&answer), "{answer:?}");
            assert!(start.elapsed() < Duration::from_millis(1500), "a warm key took {:?}", start.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for (answer, took) in cold.await.expect("the readers end") {
        assert!(matches!(answer.status, 503 | 504), "{answer:?}");
        assert!(took < Duration::from_millis(4500), "{took:?} {answer:?}");
    }
    session.run("ROLLBACK").await.expect("released");
    let user = cluster.user("cold");
    eventually("cold reads are normal again", Duration::from_secs(2), async || says(&user.get("cold-0").await, "c"))
        .await;
}

#[tokio::test]
async fn postgres_away_for_longer_than_the_leases_costs_no_node_its_place() {
    let mut cluster = cluster(3, 1, &[]).await;
    let users: Vec<_> = a_user_of_each(&cluster, "user").await.iter().map(|id| cluster.user(id)).collect();
    for user in &users {
        assert_eq!(user.put("k", "v").await.status, 201);
        warm(user, "k", "v").await;
    }
    let ring = cluster.ring().await;
    let bases: Vec<_> = cluster.nodes.values().map(|node| node.url()).collect();
    postgres(&mut cluster).stop().await.expect("postgres stops");
    let stopped = Instant::now();
    // The default lease lasts 3 s; the last heartbeat was before the stop.
    while stopped.elapsed() < Duration::from_millis(4500) {
        for base in &bases {
            for path in ["/healthz", "/readyz"] {
                let answer = answered(User::new(base, "probe").request(Method::GET, path)).await;
                assert_eq!(answer.status, 200, "{path}: {answer:?}");
            }
        }
        let answer = users[0].get("k").await;
        assert!(says(&answer, "v") || answer.status == 503, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for base in &bases {
        let ready = answered(User::new(base, "probe").request(Method::GET, "/readyz")).await.json();
        assert_eq!(ready["state"], "degraded", "{ready}");
    }
    postgres(&mut cluster).restart().await.expect("postgres starts");
    eventually("every user is served from L1 and can write", HEALED, async || {
        for user in &users {
            let answer = user.get("k").await;
            if !(says(&answer, "v") && from_l1(&answer)) || user.put("k", "v").await.status != 204 {
                return false;
            }
        }
        true
    })
    .await;
    // States, addresses and shares; the gateway sees the new leases a moment later.
    eventually("the ring is as before", HEALED, async || cluster.ring().await == ring).await;
    for node in cluster.nodes.values_mut() {
        assert!(node.process.is_running());
    }
}

/// What one writer knows of its key.
#[derive(Debug, Default)]
struct Written {
    acknowledged: u64,
    /// Sent after the last acknowledged one, of unknown outcome.
    unknown: Vec<u64>,
    next: u64,
}

async fn write_until(user: User, key: String, stop: Arc<AtomicBool>) -> Written {
    let mut written = Written { next: 1, ..Written::default() };
    while !stop.load(Ordering::Relaxed) {
        let number = written.next;
        written.next += 1;
        match attempt(&user, Method::PUT, &key, &number.to_string()).await.expect("the gateway answers").status {
            201 | 204 => {
                written.acknowledged = number;
                written.unknown.clear();
            }
            503 => {}
            504 => written.unknown.push(number),
            status => panic!("{status} is no answer to a write while the database dies"),
        }
    }
    written
}

#[tokio::test]
async fn killing_postgres_under_writes_loses_no_acknowledged_one() {
    let mut cluster = cluster(3, 1, &[]).await;
    let ada: Vec<_> = a_user_of_each(&cluster, "writer").await.iter().map(|id| cluster.user(id)).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let keys: Vec<_> = (0..12).map(|number| (ada[number % 3].clone(), format!("k{number}"))).collect();
    let writers: Vec<_> = keys
        .iter()
        .map(|(user, key)| tokio::spawn(write_until(user.clone(), key.clone(), Arc::clone(&stop))))
        .collect();
    for _ in 0..3 {
        let probe = &keys[0].0;
        eventually("writes go through", HEALED, async || probe.put("probe", "x").await.status < 300).await;
        postgres(&mut cluster).kill().await.expect("killed");
        postgres(&mut cluster).restart().await.expect("started");
    }
    eventually("writes go through again", HEALED, async || keys[0].0.put("probe", "x").await.status < 300).await;
    stop.store(true, Ordering::Relaxed);
    for (writer, (user, key)) in writers.into_iter().zip(&keys) {
        let mut written = writer.await.expect("the writer ends");
        assert!(written.acknowledged > 0, "{written:?}");
        let mut value = 0;
        eventually("the key can be read", HEALED, async || {
            let answer = user.get(key).await;
            value = answer.text().parse().unwrap_or(0);
            answer.status == 200
        })
        .await;
        assert!(value == written.acknowledged || written.unknown.contains(&value), "{value} {written:?}");
        eventually("the key can be written", HEALED, async || user.put(key, "last").await.status == 204).await;
        written.next = 0;
        assert!(says(&user.get(key).await, "last"));
    }
}

#[tokio::test]
async fn redis_and_postgres_may_both_be_away_and_come_back_in_any_order() {
    let mut cluster = cluster(2, 1, &[]).await;
    let ada = cluster.user("ada");
    let keys: Vec<_> = (0..10).map(|number| format!("k{number}")).collect();
    for key in &keys {
        assert_eq!(ada.put(key, "one").await.status, 201);
    }
    for redis_first in [true, false] {
        cluster.redis[0].kill().await.expect("killed");
        postgres(&mut cluster).stop().await.expect("stopped");
        for answer in get_all(&ada, &keys).await {
            assert!(says(&answer, "one") || answer.status == 503, "{answer:?}");
        }
        if redis_first {
            cluster.redis[0].restart().await.expect("started");
            postgres(&mut cluster).restart().await.expect("started");
        } else {
            postgres(&mut cluster).restart().await.expect("started");
            cluster.redis[0].restart().await.expect("started");
        }
        for key in &keys {
            eventually("the key can be written", HEALED, async || ada.put(key, "one").await.status == 204).await;
        }
    }
    assert_eq!(row_value(&mut cluster, "ada", "k0").await.as_deref(), Some("one"));
}

#[tokio::test]
async fn a_node_started_while_postgres_takes_no_writes_waits_until_it_does() {
    let mut cluster = cluster(1, 0, &[]).await;
    let user = cluster.user("ada");
    assert_eq!(user.put("k", "v").await.status, 201);
    cluster.node("n1").process.stop().await;
    let read_only = "ALTER SYSTEM SET default_transaction_read_only = on";
    postgres(&mut cluster).sql(read_only).await.expect("a superuser may");
    postgres(&mut cluster).sql("SELECT pg_reload_conf()").await.expect("a superuser may");
    cluster.node("n1").restart();
    let waits = async || cluster.nodes["n1"].process.log().contains("waiting for the database");
    eventually("the node waits", HEALED, waits).await;
    assert!(cluster.node("n1").process.is_running());
    postgres(&mut cluster).sql("ALTER SYSTEM RESET default_transaction_read_only").await.expect("a superuser may");
    postgres(&mut cluster).sql("SELECT pg_reload_conf()").await.expect("a superuser may");
    eventually("it serves", HEALED, async || user.put("k", "w").await.status == 204).await;
}
