//! Loads from the database: once per key, of absent keys too, never remembered when failed, and never outliving L2.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tests::http::User;
use tests::poll::eventually;

use crate::support::{
    HEALED, LONG_LEASE, a_user_of_each, assert_all, cluster, connect_all, from_l1, from_l2, get_all, l2_in_use,
    l2_sessions, origin_reads, owner, postgres, put_row, restart, says, value_of, warm,
};

#[tokio::test]
async fn five_hundred_readers_of_a_cold_key_cost_one_load() {
    let mut cluster = cluster(3, 1, &[LONG_LEASE]).await;
    put_row(&mut cluster, "ada", "k", "v").await;
    let node = owner(&cluster.user("ada")).await;
    // Straight to the node, so that all of them are there before the load ends.
    let base = cluster.node(&node).url();
    let ada = User::new(&base, "ada");
    let before = origin_reads(&cluster).await;
    let mut session = postgres(&mut cluster).session().await.expect("a session");
    session.run("BEGIN; LOCK TABLE entries IN ACCESS EXCLUSIVE MODE").await.expect("locked");
    let readers = tokio::spawn(async move { join_all((0..500).map(|_| ada.get("k"))).await });
    eventually("all readers wait", HEALED, async || {
        value_of(&base, "shardcache_node_requests_in_progress").await >= 500 || readers.is_finished()
    })
    .await;
    session.run("ROLLBACK").await.expect("released");
    let answers = readers.await.expect("the readers end");
    let tags: std::collections::HashSet<_> = answers.iter().map(|answer| answer.header("etag").to_owned()).collect();
    assert_all(&answers, |answer| says(answer, "v"));
    assert_eq!(tags.len(), 1);
    assert_eq!(origin_reads(&cluster).await - before, 1);
    let collapsed = answers.iter().filter(|answer| answer.header("cache-status").contains("collapsed")).count();
    assert_eq!(collapsed, 499);
}

#[tokio::test]
async fn many_users_through_the_gateway_cost_one_load_each() {
    let mut cluster = cluster(3, 1, &[LONG_LEASE]).await;
    connect_all(&cluster).await;
    let users: Vec<_> = (0..40).map(|number| format!("reader-{number}")).collect();
    for user in &users {
        put_row(&mut cluster, user, "k", "v").await;
    }
    let before = origin_reads(&cluster).await;
    let readers: Vec<_> = users.iter().map(|user| cluster.user(user)).collect();
    let answers = join_all(readers.iter().flat_map(|user| (0..12).map(|_| user.get("k")))).await;
    assert_all(&answers, |answer| says(answer, "v"));
    assert_eq!(origin_reads(&cluster).await - before, 40);
}

#[tokio::test]
async fn a_flood_of_absent_keys_costs_one_load_each_and_leaves_the_hot_set_alone() {
    // Room for some five hundred entries: thousands of absences do not fit.
    let cluster = cluster(2, 1, &[LONG_LEASE, ("SHARDCACHE_L1_BYTES", "256KiB")]).await;
    connect_all(&cluster).await;
    let hot = cluster.user("hot");
    let keys: Vec<_> = (0..100).map(|number| format!("hot-{number}")).collect();
    for key in &keys {
        assert_eq!(hot.put(key, "hot").await.status, 201);
    }
    // Used, as a hot set is: the admission to L1 counts.
    for _ in 0..20 {
        get_all(&hot, &keys).await;
    }
    let flood = stream::iter(0..4000).map(|number| {
        let user = hot.clone();
        async move { user.get(&format!("absent-{number}")).await }
    });
    let mut flood = flood.buffer_unordered(32);
    let (mut hits, mut reads) = (0, 0);
    let mut asked = 0;
    while let Some(absent) = flood.next().await {
        assert_eq!(absent.status, 404, "{absent:?}");
        asked += 1;
        if asked % 4 == 0 {
            let answer = hot.get(&keys[asked % keys.len()]).await;
            assert_eq!(answer.status, 200);
            reads += 1;
            hits += usize::from(from_l1(&answer));
        }
    }
    assert!(hits * 10 >= reads * 9, "{hits} of {reads} reads of the hot set were L1 hits");
}

#[tokio::test]
async fn absent_keys_asked_again_and_again_cost_one_load_per_negative_ttl() {
    let cluster = cluster(2, 1, &[LONG_LEASE, ("SHARDCACHE_NEGATIVE_TTL", "5m")]).await;
    connect_all(&cluster).await;
    let users = a_user_of_each(&cluster, "asker").await;
    let keys: Vec<_> = (0..100).map(|number| format!("absent-{number}")).collect();
    let before = origin_reads(&cluster).await;
    for _ in 0..20 {
        for user in &users {
            let answers = get_all(&cluster.user(user), &keys).await;
            assert_all(&answers, |answer| answer.status == 404);
        }
    }
    assert_eq!(origin_reads(&cluster).await - before, 200);
}

#[tokio::test]
async fn a_failed_load_is_a_503_and_is_not_remembered() {
    let mut cluster = cluster(2, 1, &[]).await;
    put_row(&mut cluster, "ada", "k", "v").await;
    let ada = cluster.user("ada");
    postgres(&mut cluster).stop().await.expect("postgres stops");
    let answers = join_all((0..10).map(|_| ada.get("k"))).await;
    for answer in answers {
        assert_eq!((answer.status, answer.code().as_str()), (503, "origin_unavailable"), "{answer:?}");
        assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
    }
    postgres(&mut cluster).restart().await.expect("postgres starts");
    let answer = ada.get("k").await;
    assert!(says(&answer, "v"), "{answer:?}");
}

#[tokio::test]
async fn a_remembered_absence_ends_with_the_write_that_creates_the_entry() {
    let cluster = cluster(2, 1, &[]).await;
    for user in a_user_of_each(&cluster, "creator").await {
        let user = cluster.user(&user);
        assert_eq!(user.get("k").await.status, 404);
        let remembered = user.get("k").await;
        assert_eq!((remembered.status, from_l1(&remembered)), (404, true), "{remembered:?}");
        assert_eq!(user.put("k", "one").await.status, 201);
        assert!(says(&user.get("k").await, "one"));

        assert_eq!(user.delete("k").await.status, 204);
        assert_eq!(user.get("k").await.status, 404);
        assert_eq!(user.put("k", "two").await.status, 201);
        for _ in 0..10 {
            assert!(says(&user.get("k").await, "two"));
        }
    }
}

#[tokio::test]
async fn an_aged_l2_entry_gets_no_new_lifetime_in_l1() {
    let ttls = [("SHARDCACHE_L2_TTL", "4s"), ("SHARDCACHE_L1_TTL", "60s")];
    let mut cluster = cluster(1, 1, &ttls).await;
    let ada = cluster.user("ada");
    let mut key = String::new();
    let mut before_the_load = Instant::now();
    // On a busy machine a command to Redis may come too late, and the trial is of no use: once more.
    eventually("a cold L1 gets the old value from L2", 4 * HEALED, async || {
        l2_in_use(&ada).await;
        postgres(&mut cluster).sql("DELETE FROM entries").await.expect("deleted");
        key = format!("k{}", rand::random::<u64>());
        put_row(&mut cluster, "ada", &key, "old").await;
        before_the_load = Instant::now();
        assert!(says(&ada.get(&key).await, "old"));
        // Past the cache: only the entry's lifetime can bring it to light.
        let sql = "UPDATE entries SET value = 'new', version = nextval('version_seq')";
        postgres(&mut cluster).sql(sql).await.expect("updated");
        restart(&mut cluster, "n1").await;
        l2_sessions(&cluster).await;
        let aged = ada.get(&key).await;
        says(&aged, "old") && from_l2(&aged)
    })
    .await;
    warm(&ada, &key, "old").await;
    eventually("the old value is gone with its L2 lifetime", Duration::from_secs(20), async || {
        says(&ada.get(&key).await, "new")
    })
    .await;
    // 4 s and the jitter; by L1's own lifetime it would have been a minute.
    assert!(before_the_load.elapsed() < Duration::from_secs(12), "{:?}", before_the_load.elapsed());
}
