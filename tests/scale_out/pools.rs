//! Users that move to a pool of their own, under load, and back.

use std::collections::BTreeSet;

use serde_json::json as document;
use tests::checker::Checker;
use tests::cluster::{Cluster, ClusterOptions, Database};
use tests::http::answered;

use crate::support::{Door, add_standby, cluster, done, json, refused, users};

const VIP: [(&str, &str); 1] = [("SHARDCACHE_NODE_POOL", "vip")];
const SEED: u64 = 6;

/// What `locate` says of a user: slot, owner, pool.
async fn located(door: &Door, user: &str) -> (u64, String, String) {
    let answer = answered(door.request(reqwest::Method::GET, user, "/v1/ring/locate")).await.json();
    let text = |field: &str| answer[field].as_str().expect("a text").to_owned();
    (answer["slot"].as_u64().expect("a slot"), text("owner"), text("pool"))
}

async fn epoch_of(cluster: &Cluster) -> u64 {
    json(cluster, &["status"]).await["epoch"].as_u64().expect("an epoch")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_move_to_a_pool_and_back_under_load_and_every_key_stays_a_register() {
    let mut cluster = cluster(2).await;
    for name in ["n4", "n5"] {
        add_standby(&mut cluster, name, &VIP).await;
        assert_eq!(json(&cluster, &["add-node", name]).await["moved_slots"], 0, "nobody is assigned to it yet");
    }
    let doors = vec![Door::of(&cluster, 0), Door::of(&cluster, 1)];
    let checker = Checker::start(doors.clone(), SEED);
    checker.goes_on(200).await;
    let moved = users(6);
    for user in &moved {
        let assigned = json(&cluster, &["assign-user", user, "--pool", "vip"]).await;
        assert_eq!((&assigned["moved"], &assigned["already_there"]), (&1.into(), &0.into()), "{assigned}");
    }
    checker.goes_on(200).await;
    doors[0].follows(epoch_of(&cluster).await).await;
    let mut slots = BTreeSet::new();
    let mut owners = BTreeSet::new();
    for user in &moved {
        let (slot, owner, pool) = located(&doors[0], user).await;
        assert!(slot >= 4096 && pool == "vip" && ["n4", "n5"].contains(&owner.as_str()), "{slot} {owner} {pool}");
        assert!(slots.insert(slot), "each has a slot of its own");
        owners.insert(owner);
        let read = doors[0].get(user).await;
        assert!(["n4", "n5"].contains(&read.header("x-cache-node")), "{read:?}");
    }
    assert_eq!(owners.len(), 2, "spread over the pool");

    // Back, by ways of any kind: assigned, the node removed, the node gone.
    done(&cluster, &["assign-user", &moved[0], "--pool", "shared"]).await;
    done(&cluster, &["remove-node", "n4"]).await;
    checker.goes_on(200).await;
    cluster.node("n5").process.kill();
    let gone = tests::poll::eventually("the lease of n5 is over", tests::door::PHASE_BOUND, async || {
        cluster.migrator(&["remove-node", "n5", "--json"]).await.code == Some(0)
    });
    gone.await;
    checker.goes_on(300).await;
    doors[0].follows(epoch_of(&cluster).await).await;
    for user in &moved {
        let (slot, owner, pool) = located(&doors[0], user).await;
        assert!(slot >= 4096 && pool == "shared", "{user} is served by {owner} of {pool} under {slot}");
    }
    // A node of the pool comes: its users come to it, except the one that was brought back.
    drop(cluster.nodes.remove("n5"));
    add_standby(&mut cluster, "n6", &VIP).await;
    assert_eq!(json(&cluster, &["add-node", "n6"]).await["moved_slots"], 5);
    doors[0].follows(epoch_of(&cluster).await).await;
    assert_eq!(located(&doors[0], &moved[1]).await.1, "n6");
    assert_ne!(located(&doors[0], &moved[0]).await.1, "n6");
    let seen = checker.finish().await;
    assert_eq!(seen.violations, Vec::<String>::new());
    assert!(seen.reads > 500 && seen.writes > 200, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_user_takes_its_entries_along_warm_and_the_others_of_its_home_keep_theirs() {
    let mut cluster = cluster(1).await;
    add_standby(&mut cluster, "n4", &VIP).await;
    done(&cluster, &["add-node", "n4"]).await;
    let door = Door::of(&cluster, 0);
    let (slot, owner, _) = located(&door, "big").await;
    let mut neighbour = None;
    for candidate in users(40_000) {
        if located(&door, &candidate).await.0 == slot {
            neighbour = Some(candidate);
            break;
        }
    }
    let neighbour = neighbour.expect("one of so many users falls into the same slot");
    for user in ["big", &neighbour] {
        assert_eq!(door.put(user, "v1").await.status, 201);
        assert_eq!(door.get(user).await.status, 200);
    }
    let assigned = json(&cluster, &["assign-user", "big", "--pool", "vip"]).await;
    assert_eq!(assigned["copied_entries"], 1, "only this user's: {assigned}");
    door.follows(epoch_of(&cluster).await).await;
    for (user, node) in [("big", "n4"), (neighbour.as_str(), owner.as_str())] {
        let read = door.get(user).await;
        assert_eq!((read.header("x-cache-node"), read.header("cache-status")), (node, "shardcache-l1; hit"));
        assert_eq!(read.text(), "v1");
    }
    assert_eq!(door.put("big", "v2").await.status, 204);
    assert_eq!(door.get("big").await.text(), "v2");
    // A gateway and a node that start anew know of it.
    cluster.node(&owner).restart();
    cluster.node(&owner).wait_ready().await;
    let second = cluster.add_gateway().await;
    assert_eq!(located(&Door::of(&cluster, second), "big").await.1, "n4");
    assert_eq!(Door::of(&cluster, second).get("big").await.text(), "v2");
    let direct = Door::new(&cluster.node(&owner).url());
    assert_eq!(direct.get("big").await.status, 421, "its old owner sends it away");
}

#[tokio::test]
async fn what_cannot_be_assigned_is_refused_and_nothing_is_journaled_with_a_users_name() {
    let options = ClusterOptions { nodes: 2, database: Database::Sqlite, redis: 0, ..ClusterOptions::default() };
    let mut cluster = Cluster::start(options).await;
    refused(&cluster, &["assign-user", "secret-user", "--pool", "vip"], 1, "SHARDCACHE_NODE_POOL=vip").await;
    assert_eq!(json(&cluster, &["assign-user", "secret-user", "--pool", "shared"]).await["already_there"], 1);
    cluster.add_standby("n3", &VIP).await;
    done(&cluster, &["add-node", "n3"]).await;
    refused(&cluster, &["plan", "replace-node", "n1", "n3"], 1, "already").await;
    cluster.add_standby("n4", &VIP).await;
    refused(&cluster, &["replace-node", "n1", "n4"], 1, "in pool vip").await;
    let list = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(list.path(), "secret-user\nsecret-other\n\nsecret-user\n").expect("written");
    let file = list.path().to_str().expect("a path");
    let assigned = json(&cluster, &["assign-user", "--file", file, "--pool", "vip"]).await;
    assert_eq!((&assigned["moved"], &assigned["already_there"]), (&2.into(), &1.into()), "{assigned}");
    refused(&cluster, &["assign-user", "--file", "/nonexistent", "--pool", "vip"], 2, "/nonexistent").await;
    for verb in [&["status"][..], &["history"], &["status", "--json"], &["history", "--json"]] {
        let told = done(&cluster, verb).await;
        assert!(!told.stdout.contains("secret") && !told.stderr.contains("secret"), "{verb:?}: {told:?}");
    }
    let status = json(&cluster, &["status"]).await;
    let of_pools = document!([
        {"pool": "shared", "members": 2, "pinned_users": 0},
        {"pool": "vip", "members": 1, "pinned_users": 2},
    ]);
    assert_eq!(status["pools"], of_pools);
    let pools: Vec<_> = status["members"].as_array().expect("members").iter().map(|member| &member["pool"]).collect();
    assert_eq!(document!(pools), document!(["shared", "shared", "vip"]));
    assert!(!cluster.log_tails().contains("secret"));
    assert!(!cluster.ring().await.to_string().contains("secret"));
}
