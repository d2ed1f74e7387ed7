//! Many reads at the same moment: how many round trips they cost, and whom the failure of one of them meets.

use futures_util::future::join_all;
use reqwest::Method;
use tests::cluster::Cluster;
use tests::http::{Answer, User, answered};
use tests::poll::eventually;

use crate::support::{
    HEALED, LONG_LEASE, assert_all, cluster, get_all, l2_in_use, l2_sessions, owner, postgres, put_row, restart, says,
    sum_of, value_of,
};

/// As many keys as a multi-get may name.
const KEYS: usize = 256;

async fn multi_get(user: &User, count: usize) -> Answer {
    let keys: Vec<_> = (0..count).map(|number| format!("k{number}")).collect();
    let body = serde_json::json!({ "keys": keys }).to_string();
    answered(user.request(Method::POST, "/v1/entries:mget").body(body)).await
}

/// Pipelines to Redis, and statements that read entries.
async fn round_trips(cluster: &Cluster) -> (u64, u64) {
    let pipelines = sum_of(cluster, "shardcache_node_l2_pipelines_total").await;
    (pipelines, sum_of(cluster, "shardcache_node_origin_read_statements_total").await)
}

/// How often Redis was told one of these commands.
async fn redis_calls(cluster: &Cluster, command: &str) -> u64 {
    let stats = cluster.redis[0].cli(&["INFO", "commandstats"]).await.expect("stats");
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|rest| rest.split(',').next()).map_or(0, |calls| calls.parse().expect("a number"))
}

#[tokio::test]
async fn a_multi_get_of_cold_keys_costs_one_round_trip_to_each_tier() {
    // No audit asks for itself.
    let mut cluster = cluster(1, 1, &[LONG_LEASE, ("SHARDCACHE_AUDIT_EVERY", "0")]).await;
    let ada = cluster.user("ada");
    let sql = format!(
        "INSERT INTO entries (usr, key, value, content_type, version, updated_ms) \
         SELECT 'ada', 'k' || n, 'v', 'text/plain', nextval('version_seq'), 0 FROM generate_series(0, {}) AS n",
        KEYS - 1
    );
    postgres(&mut cluster).sql(&sql).await.expect("rows can be put in");
    l2_in_use(&ada).await;
    let (pipelines, statements) = round_trips(&cluster).await;
    let (sets, infos) = (redis_calls(&cluster, "set").await, redis_calls(&cluster, "info").await);
    let answer = multi_get(&ada, KEYS).await;
    let entries = answer.json()["entries"].as_array().expect("a list").clone();
    assert_eq!(entries.len(), KEYS);
    assert!(entries.iter().all(|entry| entry["value"] == "dg=="), "{answer:?}");
    let after = round_trips(&cluster).await;
    assert_eq!((after.0 - pipelines, after.1 - statements), (1, 1));
    // A look-up for each key, and the look at the identity once and not for each key; our own questions count as well.
    let looked_up = redis_calls(&cluster, "set").await - sets;
    assert!(looked_up >= KEYS as u64, "{looked_up}");
    let looked_at = redis_calls(&cluster, "info").await - infos;
    assert!(looked_at < 10, "{looked_at}");

    restart(&mut cluster, "n1").await;
    l2_sessions(&cluster).await;
    let (pipelines, statements) = round_trips(&cluster).await;
    let again = multi_get(&cluster.user("ada"), KEYS).await;
    assert_eq!(again.json()["entries"], answer.json()["entries"]);
    let after = round_trips(&cluster).await;
    assert_eq!(after.0 - pipelines, 1);
    assert!(
        after.1 - statements <= 1,
        "on a busy machine L2 may have answered too late, and then the database is asked once"
    );
}

#[tokio::test]
async fn a_row_that_cannot_be_read_fails_nobody_elses_reads() {
    let mut cluster = cluster(1, 0, &[LONG_LEASE]).await;
    for number in 0..40 {
        put_row(&mut cluster, "ada", &format!("k{number}"), "v").await;
    }
    // Whoever reads this row has an error, as of a damaged page.
    let sql = "ALTER TABLE entries RENAME TO entry_rows; \
               CREATE VIEW entries AS SELECT usr, key, CASE WHEN key = 'k30' THEN decode(key, 'hex') ELSE value END AS value, \
               content_type, cache_control, version, updated_ms FROM entry_rows";
    postgres(&mut cluster).sql(sql).await.expect("a view can be made");
    let node = owner(&cluster.user("ada")).await;
    let base = cluster.node(&node).url();
    let ada = User::new(&base, "ada");
    // Held until all of them wait, so that most share a statement with the bad row.
    let mut session = postgres(&mut cluster).session().await.expect("a session");
    session.run("BEGIN; LOCK TABLE entry_rows IN ACCESS EXCLUSIVE MODE").await.expect("locked");
    let readers = tokio::spawn(async move {
        let keys: Vec<_> = (0..40).map(|number| format!("k{number}")).collect();
        get_all(&ada, &keys).await
    });
    eventually("all readers wait", HEALED, async || {
        value_of(&base, "shardcache_node_requests_in_progress").await >= 40 || readers.is_finished()
    })
    .await;
    session.run("ROLLBACK").await.expect("released");
    let mut answers = readers.await.expect("the readers end");
    let bad = answers.remove(30);
    assert_eq!((bad.status, bad.code().as_str()), (503, "origin_unavailable"), "{bad:?}");
    assert_all(&answers, |answer| says(answer, "v"));
}

#[tokio::test]
async fn reads_of_many_users_at_the_same_moment_get_their_own_values() {
    let mut cluster = cluster(1, 1, &[LONG_LEASE]).await;
    let users: Vec<_> = (0..64).map(|number| format!("user-{number}")).collect();
    for user in &users {
        put_row(&mut cluster, user, "k", &format!("of {user}")).await;
    }
    let readers: Vec<_> = users.iter().map(|user| cluster.user(user)).collect();
    for _ in 0..3 {
        let answers = join_all(readers.iter().map(|user| user.get("k"))).await;
        for (answer, user) in answers.iter().zip(&users) {
            assert!(says(answer, &format!("of {user}")), "{user}: {answer:?}");
        }
        // L1 is cold again, and Redis has them all.
        restart(&mut cluster, "n1").await;
        l2_sessions(&cluster).await;
    }
}

#[tokio::test]
async fn of_many_writes_at_the_same_moment_most_share_a_commit_and_each_is_kept() {
    const WRITERS: usize = 40;
    let mut cluster = cluster(1, 0, &[LONG_LEASE]).await;
    let ada = cluster.user("ada");
    let base = cluster.node(&owner(&ada).await).url();
    let mut session = postgres(&mut cluster).session().await.expect("a session");
    session.run("BEGIN; LOCK TABLE entries IN EXCLUSIVE MODE").await.expect("locked");
    let user = User::new(&base, "ada");
    let writers = tokio::spawn(async move {
        let keys: Vec<_> = (0..WRITERS).map(|number| format!("k{number}")).collect();
        join_all(keys.iter().map(|key| user.put(key, key.clone()))).await
    });
    eventually("all writers wait", HEALED, async || {
        value_of(&base, "shardcache_node_requests_in_progress").await >= WRITERS as u64 || writers.is_finished()
    })
    .await;
    session.run("ROLLBACK").await.expect("released");
    let answers = writers.await.expect("the writers end");
    assert_all(&answers, |answer| answer.status == 201);
    for number in 0..WRITERS {
        let key = format!("k{number}");
        assert!(says(&ada.get(&key).await, &key), "{key}");
    }
    let commits = "SELECT count(DISTINCT xmin::text) FROM entries";
    let commits: usize = postgres(&mut cluster).sql(commits).await.expect("rows").trim().parse().expect("a count");
    assert!(commits < WRITERS / 2, "{commits} commits");
}
