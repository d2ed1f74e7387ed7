//! Several Redis servers, and servers that change their role: whose slots lose what.

use futures_util::future::join_all;
use reqwest::Method;
use tests::cluster::{Cluster, ClusterOptions};
use tests::http::{Answer, User, answered};
use tests::poll::eventually;
use tests::redis::RedisServer;

use crate::support::{HEALED, SHORT_L1, assert_all, cluster, eventually_l2_hit, from_l2, says, start, sum_of, urls};

/// Users by the server their slot's entries live on.
async fn a_user_on_each(cluster: &Cluster) -> [String; 2] {
    let mut found = [None, None];
    for number in 0.. {
        let id = format!("sharded-{number}");
        let located = answered(cluster.user(&id).request(Method::GET, "/v1/ring/locate")).await.json();
        let slot = located["slot"].as_u64().expect("a slot") as usize;
        found[slot % 2].get_or_insert(id);
        if let [Some(first), Some(second)] = &found {
            return [first.clone(), second.clone()];
        }
    }
    unreachable!("two slots of different parity turn up")
}

#[tokio::test]
async fn of_two_redis_servers_one_dying_costs_only_its_own_slots() {
    let mut cluster = cluster(2, 2, &[SHORT_L1]).await;
    let [first, second] = a_user_on_each(&cluster).await.map(|id| cluster.user(&id));
    for user in [&first, &second] {
        assert_eq!(user.put("k", "one").await.status, 201);
        eventually_l2_hit(user, "k", "one", HEALED).await;
    }
    cluster.redis[0].kill().await.expect("killed");
    eventually("the dead server is passed by", HEALED, async || {
        let answer = first.get(&format!("absent-{}", rand::random::<u64>())).await;
        assert_eq!(answer.status, 404, "{answer:?}");
        !answer.header("cache-status").contains("shardcache-l2")
    })
    .await;
    eventually_l2_hit(&second, "k", "one", HEALED).await;
    for user in [&first, &second] {
        assert_eq!(user.put("k", "two").await.status, 204);
    }
    eventually_l2_hit(&second, "k", "two", HEALED).await;
    for _ in 0..20 {
        let answer = first.get("k").await;
        assert!(says(&answer, "two") && !from_l2(&answer), "{answer:?}");
    }
    cluster.redis[0].restart().await.expect("started");
    eventually_l2_hit(&first, "k", "two", HEALED).await;
}

pub(crate) async fn replicate(replica: &RedisServer, of: &RedisServer) {
    let settings = [["repl-diskless-sync-delay", "0"], ["repl-diskless-sync", "yes"]];
    for [name, value] in settings {
        of.cli(&["CONFIG", "SET", name, value]).await.expect("set");
    }
    replica.cli(&["REPLICAOF", "127.0.0.1", &of.port().to_string()]).await.expect("demoted");
    eventually("the replica is in sync", HEALED, async || {
        replica.cli(&["INFO", "replication"]).await.is_ok_and(|info| info.contains("master_link_status:up"))
    })
    .await;
}

/// A server with an old copy of everything takes over and back, as in a failover that lost the newest writes.
#[tokio::test]
async fn a_redis_demoted_and_promoted_again_gives_no_old_value() {
    let [main, copy] =
        [RedisServer::start().await.expect("redis starts"), RedisServer::start().await.expect("redis starts")];
    let env = vec![("REDIS_URL".to_owned(), urls(&[&main])), (SHORT_L1.0.to_owned(), SHORT_L1.1.to_owned())];
    let cluster = start(ClusterOptions { nodes: 1, redis: 0, env, ..ClusterOptions::default() }).await;
    let users: Vec<User> = (0..20).map(|number| cluster.user(&format!("user-{number}"))).collect();
    for user in &users {
        assert_eq!(user.put("k", "old").await.status, 201);
    }
    eventually_l2_hit(&users[0], "k", "old", HEALED).await;
    // A sentinel closes the clients when it demotes; by hand it is forgotten, and the node must find out by itself.
    for (round, clients_closed) in [true, false].into_iter().enumerate() {
        replicate(&copy, &main).await;
        copy.cli(&["REPLICAOF", "NO", "ONE"]).await.expect("promoted");
        let new = format!("new-{round}");
        for user in &users {
            assert_eq!(user.put("k", new.clone()).await.status, 204);
        }
        replicate(&main, &copy).await;
        if clients_closed {
            main.cli(&["CLIENT", "KILL", "TYPE", "normal"]).await.expect("clients closed");
        }
        // Nobody asks meanwhile.
        eventually("the session has ended", HEALED, async || {
            sum_of(&cluster, "shardcache_node_l2_sessions").await == 0
        })
        .await;
        assert_all(&get_k(&users).await, |answer| says(answer, &new));
        main.cli(&["REPLICAOF", "NO", "ONE"]).await.expect("promoted again");
        assert_all(&get_k(&users).await, |answer| says(answer, &new));
        eventually_l2_hit(&users[1], "k", &new, HEALED).await;
        assert_all(&get_k(&users).await, |answer| says(answer, &new));
    }
}

/// The same within a moment, of which no command of the node's and none of its probes learns.
#[tokio::test]
async fn a_redis_demoted_and_promoted_again_unnoticed_gives_no_old_value() {
    let [main, copy] =
        [RedisServer::start().await.expect("redis starts"), RedisServer::start().await.expect("redis starts")];
    let env = vec![("REDIS_URL".to_owned(), urls(&[&main])), (SHORT_L1.0.to_owned(), SHORT_L1.1.to_owned())];
    let cluster = start(ClusterOptions { nodes: 1, redis: 0, env, ..ClusterOptions::default() }).await;
    let user = cluster.user("user-1");
    assert_eq!(user.put("k", "old").await.status, 201);
    eventually_l2_hit(&user, "k", "old", HEALED).await;
    replicate(&copy, &main).await;
    copy.cli(&["REPLICAOF", "NO", "ONE"]).await.expect("promoted");
    assert_eq!(user.put("k", "new").await.status, 204);
    eventually_l2_hit(&user, "k", "new", HEALED).await;
    // The node is frozen for as long as it takes: its connection stays, and it has nothing to learn from.
    let node = &cluster.nodes["n1"].process;
    node.pause();
    replicate(&main, &copy).await;
    main.cli(&["REPLICAOF", "NO", "ONE"]).await.expect("promoted again");
    node.resume();
    for _ in 0..20 {
        let answer = user.get("k").await;
        assert!(says(&answer, "new"), "{answer:?}");
    }
    eventually_l2_hit(&user, "k", "new", HEALED).await;
}

async fn get_k(users: &[User]) -> Vec<Answer> {
    join_all(users.iter().map(|user| user.get("k"))).await
}
