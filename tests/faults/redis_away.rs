//! Redis frozen, slow, killed, emptied or full while requests run.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Method;
use tests::cluster::ClusterOptions;
use tests::fault_proxy::{Fault, FaultProxy};
use tests::http::{Answer, answered};
use tests::poll::eventually;
use tests::redis::RedisServer;

use crate::support::{
    HEALED, SHORT_L1, a_user_of_each, cluster, eventually_l2_hit, from_l1, from_l2, get_all, l2_in_use, l2_sessions,
    owner, put_row, restart, says, start, sum_of, warm,
};

/// A request that does not wait for Redis: its own time, and what a busy machine adds.
const FAST: Duration = Duration::from_secs(1);

async fn timed(answer: impl Future<Output = Answer>) -> (Answer, Duration) {
    let start = Instant::now();
    let answer = answer.await;
    (answer, start.elapsed())
}

/// One write while Redis is frozen, on a key that both tiers hold; then the key as every tier has it.
async fn after_a_write_without_redis(method: Method, body: &'static str) -> (Answer, Vec<Answer>) {
    let mut cluster = cluster(2, 1, &[]).await;
    let ids = a_user_of_each(&cluster, "writer").await;
    for id in &ids {
        l2_in_use(&cluster.user(id)).await;
        assert_eq!(cluster.user(id).put("k", "old").await.status, 201);
        warm(&cluster.user(id), "k", "old").await;
    }
    let user = cluster.user(&ids[0]);
    // On a busy machine a command to Redis may come too late: the trial is of no use unless L2 has the value.
    eventually("a cold L1 gets the value from L2", 4 * HEALED, async || {
        l2_in_use(&user).await;
        assert_eq!(user.put("k", "old").await.status, 204);
        restart(&mut cluster, "n1").await;
        l2_sessions(&cluster).await;
        let cold = user.get("k").await;
        assert!(says(&cold, "old"), "{cold:?}");
        from_l2(&cold)
    })
    .await;
    cluster.redis[0].pause().expect("paused");
    let written = answered(user.request(method, "/v1/entries/k").body(body)).await;
    cluster.redis[0].resume().expect("resumed");
    let mut answers: Vec<_> = join_all((0..20).map(|_| user.get("k"))).await;
    // The servers' own sight: an L2 that has healed, and an L1 that is cold.
    let healed = cluster.user(&ids[0]);
    l2_in_use(&healed).await;
    answers.push(healed.get("k").await);
    for node in ["n1", "n2"] {
        restart(&mut cluster, node).await;
        l2_sessions(&cluster).await;
        answers.push(healed.get("k").await);
        answers.push(healed.get("k").await);
    }
    // The other user's value is untouched.
    assert!(says(&cluster.user(&ids[1]).get("k").await, "old"));
    (written, answers)
}

#[tokio::test]
async fn a_delete_while_redis_is_frozen_is_never_undone_by_what_redis_holds() {
    let (deleted, answers) = after_a_write_without_redis(Method::DELETE, "").await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
    for answer in answers {
        assert_eq!(answer.status, 404, "{answer:?}");
    }
}

#[tokio::test]
async fn a_write_while_redis_is_frozen_is_never_undone_by_what_redis_holds() {
    let (written, answers) = after_a_write_without_redis(Method::PUT, "new").await;
    assert_eq!(written.status, 204, "{written:?}");
    for answer in answers {
        assert!(says(&answer, "new"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_frozen_redis_costs_no_errors_and_little_time_and_is_used_again_when_it_wakes() {
    let mut cluster = cluster(2, 1, &[]).await;
    let ada = cluster.user("ada");
    l2_in_use(&ada).await;
    assert_eq!(ada.put("warm", "w").await.status, 201);
    warm(&ada, "warm", "w").await;
    for number in 0..20 {
        put_row(&mut cluster, "ada", &format!("cold-{number}"), "c").await;
    }
    cluster.redis[0].pause().expect("paused");
    for number in 0..20 {
        let (cold, took) = timed(ada.get(&format!("cold-{number}"))).await;
        assert!(says(&cold, "c") && took < FAST, "{took:?} {cold:?}");
        let (hit, took) = timed(ada.get("warm")).await;
        assert!(says(&hit, "w") && from_l1(&hit) && took < FAST, "{took:?} {hit:?}");
        let (put, took) = timed(ada.put(&format!("new-{number}"), "n")).await;
        assert!(put.status == 201 && took < FAST, "{took:?} {put:?}");
    }
    cluster.redis[0].resume().expect("resumed");
    let resumed = Instant::now();
    l2_in_use(&ada).await;
    assert!(resumed.elapsed() < Duration::from_secs(10), "{:?}", resumed.elapsed());
}

#[tokio::test]
async fn a_slow_redis_is_passed_by_after_a_moment_and_used_again_when_it_heals() {
    let redis = RedisServer::start().await.expect("redis starts");
    let proxy = FaultProxy::start(&format!("127.0.0.1:{}", redis.port())).await;
    let env = vec![
        ("REDIS_URL".to_owned(), format!("redis://{}", proxy.address())),
        (SHORT_L1.0.to_owned(), SHORT_L1.1.to_owned()),
    ];
    let cluster = start(ClusterOptions { nodes: 1, redis: 0, env, ..ClusterOptions::default() }).await;
    let ada = cluster.user("ada");
    assert_eq!(ada.put("k", "v").await.status, 201);
    eventually_l2_hit(&ada, "k", "v", HEALED).await;
    proxy.set(Fault::Delay(Duration::from_millis(800))).await;
    eventually("the slow server is passed by", Duration::from_secs(10), async || {
        let answer = ada.get(&format!("absent-{}", rand::random::<u64>())).await;
        assert_eq!(answer.status, 404, "{answer:?}");
        !answer.header("cache-status").contains("shardcache-l2")
    })
    .await;
    let failed_probes = sum_of(&cluster, "shardcache_node_l2_probe_failures_total").await;
    for number in 0..20 {
        let answer = ada.get(&format!("absent-{number}")).await;
        assert!(!answer.header("cache-status").contains("shardcache-l2"), "a request paid for L2: {answer:?}");
    }
    eventually("it is probed meanwhile", HEALED, async || {
        sum_of(&cluster, "shardcache_node_l2_probe_failures_total").await > failed_probes
    })
    .await;
    proxy.set(Fault::Pass).await;
    eventually_l2_hit(&ada, "k", "v", HEALED).await;
}

#[tokio::test]
async fn a_redis_that_comes_back_empty_is_used_again_under_new_spaces() {
    let mut cluster = cluster(2, 1, &[SHORT_L1]).await;
    let ada = cluster.user("ada");
    assert_eq!(ada.put("k", "one").await.status, 201);
    eventually_l2_hit(&ada, "k", "one", HEALED).await;
    cluster.redis[0].kill().await.expect("killed");
    assert!(says(&ada.get("k").await, "one"));
    assert_eq!(ada.put("k", "two").await.status, 204);
    cluster.redis[0].restart().await.expect("started");
    eventually_l2_hit(&ada, "k", "two", Duration::from_secs(15)).await;
    let keys = cluster.redis[0].cli(&["KEYS", "*/*"]).await.expect("keys");
    let run_id = cluster.redis[0].cli(&["INFO", "server"]).await.expect("info");
    let run_id = run_id.lines().find_map(|line| line.strip_prefix("run_id:")).expect("a run id").trim().to_owned();
    assert!(keys.lines().all(|key| key.starts_with(&run_id)), "a space of the dead server is in use: {keys}");
}

#[tokio::test]
async fn writes_go_on_while_redis_dies_and_none_is_lost() {
    let mut cluster = cluster(2, 1, &[]).await;
    let ids = a_user_of_each(&cluster, "writer").await;
    let users: Vec<_> = ids.iter().map(|id| cluster.user(id)).collect();
    for user in &users {
        l2_in_use(user).await;
    }
    let writers = users.into_iter().map(|user| {
        tokio::spawn(async move {
            for number in 0..150 {
                let answer = user.put("k", number.to_string()).await;
                assert!(answer.status < 300, "{answer:?}");
                let read = user.get("k").await;
                assert!(says(&read, &number.to_string()), "{read:?}");
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    cluster.redis[0].kill().await.expect("killed");
    for writer in writers {
        writer.await.expect("every write is acknowledged and seen");
    }
    cluster.redis[0].restart().await.expect("started");
    for (id, node) in ids.iter().zip(["n1", "n2"]) {
        assert_eq!(owner(&cluster.user(id)).await, node);
        restart(&mut cluster, node).await;
        l2_sessions(&cluster).await;
        let answer = cluster.user(id).get("k").await;
        assert!(says(&answer, "149"), "{answer:?}");
    }
}

#[tokio::test]
async fn flushing_redis_while_reads_run_loses_nothing_but_hits() {
    let cluster = cluster(2, 1, &[SHORT_L1]).await;
    let ada = cluster.user("ada");
    let keys: Vec<_> = (0..20).map(|number| format!("k{number}")).collect();
    for key in &keys {
        assert_eq!(ada.put(key, "v").await.status, 201);
    }
    eventually_l2_hit(&ada, "k0", "v", HEALED).await;
    for round in 0..10 {
        let flush = cluster.redis[0].cli(&["FLUSHALL"]);
        let (flushed, answers) = tokio::join!(flush, get_all(&ada, &keys));
        flushed.expect("flushed");
        assert!(answers.iter().all(|answer| says(answer, "v")), "round {round}: {answers:?}");
    }
    eventually_l2_hit(&ada, "k1", "v", HEALED).await;
}

#[tokio::test]
async fn a_full_redis_that_evicts_nothing_costs_hits_and_never_an_answer() {
    let mut cluster = cluster(1, 1, &[]).await;
    let ada = cluster.user("ada");
    l2_in_use(&ada).await;
    for number in 0..50 {
        assert_eq!(ada.put(&format!("k{number}"), "old").await.status, 201);
    }
    let redis = &cluster.redis[0];
    redis.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await.expect("set");
    redis.cli(&["CONFIG", "SET", "maxmemory", "2mb"]).await.expect("set");
    redis
        .cli(&["EVAL", "for i=1,40 do pcall(redis.call,'SET','fill'..i,string.rep('x',100000)) end", "0"])
        .await
        .expect("full");
    for number in 0..50 {
        let key = format!("k{number}");
        if number % 2 == 0 {
            assert_eq!(ada.put(&key, "new").await.status, 204);
        } else {
            assert_eq!(ada.delete(&key).await.status, 204);
        }
    }
    let check = async |when: &str| {
        for number in 0..50 {
            let answer = ada.get(&format!("k{number}")).await;
            let right = if number % 2 == 0 { says(&answer, "new") } else { answer.status == 404 };
            assert!(right, "{when}: {answer:?}");
        }
    };
    check("full").await;
    restart(&mut cluster, "n1").await;
    check("full, cold L1").await;
    let redis = &cluster.redis[0];
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]).await.expect("set");
    l2_in_use(&ada).await;
    restart(&mut cluster, "n1").await;
    check("room again, cold L1").await;
    let again = ada.get("k0").await;
    assert!(from_l1(&again) || from_l2(&again), "{again:?}");
}
