//! A machine that is gone can be removed and replaced, and stands in nobody else's way (D07).

use std::time::{Duration, Instant};

use tests::cluster::Cluster;
use tests::door::{Door, members, owned_by, shares, users};
use tests::poll::eventually;
use tests::ring_change::{add_standby, cluster, done};

/// A lease of 3 s and what a busy machine adds.
const LEASE_BOUND: Duration = Duration::from_secs(10);
/// How long a verb may take that never talks to the dead node.
const VERB_BOUND: Duration = Duration::from_secs(10);

/// Kills the node and waits until its lease is over.
async fn gone(cluster: &mut Cluster, gateway: &Door, name: &str) {
    cluster.node(name).process.kill();
    eventually("the lease is over", LEASE_BOUND, async || {
        let ring = gateway.ring().await;
        let states = ring["members"].as_array().expect("members").iter();
        states.filter(|member| member["id"] == name).all(|member| member["state"] == "down")
    })
    .await;
}

/// Runs the verb, which must end well and soon.
async fn soon(cluster: &Cluster, verb: &[&str]) -> String {
    let began = Instant::now();
    let ended = done(cluster, verb).await;
    println!("{verb:?} took {:?}\n{}", began.elapsed(), ended.stdout);
    assert!(began.elapsed() < VERB_BOUND, "{verb:?} took {:?}", began.elapsed());
    ended.stdout
}

#[tokio::test]
async fn a_machine_that_is_gone_is_removed_without_a_word_to_it_and_stays_out_when_it_is_back() {
    let mut cluster = cluster(1).await;
    let gateway = Door::of(&cluster, 0);
    let all = users(60);
    gateway.put_all(&all, "before").await;
    gone(&mut cluster, &gateway, "n3").await;
    let said = soon(&cluster, &["remove-node", "n3"]).await;
    assert!(said.contains("cold"), "{said}");
    gateway.follows(2).await;
    assert_eq!(members(&gateway.ring().await), ["n1", "n2"]);
    gateway.read_all(&all, "before").await;
    gateway.put_all(&all, "after").await;
    cluster.node("n3").restart();
    cluster.node("n3").wait_ready().await;
    gateway.read_all(&all, "after").await;
    assert_eq!((gateway.epoch().await, members(&gateway.ring().await)), (2, vec!["n1".to_owned(), "n2".to_owned()]));
}

#[tokio::test]
async fn a_dead_node_keeps_its_slots_while_another_joins_and_leaves() {
    let mut cluster = cluster(1).await;
    add_standby(&mut cluster, "n4", &[]).await;
    let gateway = Door::of(&cluster, 0);
    let all = users(60);
    gateway.put_all(&all, "before").await;
    let before = shares(&gateway.ring().await);
    gone(&mut cluster, &gateway, "n2").await;
    soon(&cluster, &["add-node", "n4"]).await;
    gateway.follows(2).await;
    let during = shares(&gateway.ring().await);
    assert_eq!(during["n2"], before["n2"]);
    assert!(during["n4"] > 500, "{during:?}");
    let owners = gateway.owners(&all).await;
    let of_others: Vec<String> = all.iter().filter(|user| owners[*user] != "n2").cloned().collect();
    gateway.put_all(&of_others, "after").await;
    gateway.read_all(&of_others, "after").await;
    gateway.read_all(&owned_by(&owners, "n2"), "before").await;
    soon(&cluster, &["remove-node", "n4"]).await;
    cluster.node("n2").restart();
    cluster.node("n2").wait_ready().await;
    gateway.follows(3).await;
    eventually("n2 takes writes again", LEASE_BOUND, async || {
        gateway.put(&owned_by(&owners, "n2")[0], "after").await.status == 204
    })
    .await;
    gateway.put_all(&all, "after").await;
    gateway.read_all(&all, "after").await;
}

#[tokio::test]
async fn a_node_is_replaced_by_another_with_exactly_its_users_dead_or_alive() {
    let mut cluster = cluster(1).await;
    add_standby(&mut cluster, "n4", &[]).await;
    let gateway = Door::of(&cluster, 0);
    let all = users(60);
    gateway.put_all(&all, "v").await;
    let before = gateway.owners(&all).await;
    soon(&cluster, &["replace-node", "n2", "n4"]).await;
    gateway.follows(2).await;
    let alive = gateway.owners(&all).await;
    let moved = owned_by(&before, "n2");
    assert_eq!(owned_by(&alive, "n4"), moved);
    assert!(all.iter().filter(|user| before[*user] != "n2").all(|user| alive[user] == before[user]));
    for answer in gateway.read_all(&moved, "v").await {
        assert_eq!(answer.header("cache-status"), "shardcache-l1; hit", "it was alive, so its users stay warm");
    }
    gone(&mut cluster, &gateway, "n3").await;
    soon(&cluster, &["replace-node", "n3", "n2"]).await;
    gateway.follows(3).await;
    assert_eq!(owned_by(&gateway.owners(&all).await, "n2"), owned_by(&before, "n3"));
    gateway.read_all(&all, "v").await;
    gateway.put_all(&all, "w").await;
    gateway.read_all(&all, "w").await;
}
