//! Users that cost more than others: counted at nodes, named by gateways, and suggested by the migrator for a pool of their own.

use std::collections::BTreeSet;

use futures_util::{StreamExt, stream};
use reqwest::Method;
use serde_json::Value;
use tests::cluster::{Cluster, ClusterOptions, Database};
use tests::http::{Answer, User, answered, client};
use tests::processes::{Env, Finished};

const TOKEN: &str = "tests-cluster-token";
const BIG: &str = "tenant-of-twenty";
const READS: usize = 50;

async fn cluster() -> Cluster {
    let env: Env = vec![("SHARDCACHE_CLUSTER_TOKEN".to_owned(), TOKEN.to_owned())];
    Cluster::start(ClusterOptions { nodes: 2, database: Database::Sqlite, redis: 0, env, ..ClusterOptions::default() })
        .await
}

async fn owner(cluster: &Cluster, user: &str) -> String {
    let answer = answered(cluster.user(user).request(Method::GET, "/v1/ring/locate")).await;
    answer.json()["owner"].as_str().expect("an owner").to_owned()
}

async fn top(cluster: &Cluster, query: &str) -> Answer {
    answered(client().get(format!("{}/v1/users/top{query}", cluster.gateway_url()))).await
}

async fn node_top(cluster: &Cluster, node: &str, token: &str) -> Answer {
    let url = format!("{}/internal/users/top?limit=5", cluster.nodes[node].url());
    answered(client().get(url).bearer_auth(token)).await
}

/// Puts an entry and reads it so often, with a condition, which keeps the reads out of the sample: each is counted.
async fn use_it(user: &User, reads: usize) {
    let status = user.put("k", vec![b'v'; 100]).await.status;
    assert_eq!(status, 201);
    let read = async |_| {
        let request = user.request(Method::GET, "/v1/entries/k").header("If-None-Match", "\"1\"");
        assert!(matches!(answered(request).await.status, 200 | 304));
    };
    stream::iter(0..reads).map(read).buffer_unordered(8).collect::<Vec<_>>().await;
}

/// Four users of each node make a twentieth of the requests that one user makes. Returns that one's owner.
async fn one_of_twenty_times_the_others(cluster: &Cluster) -> String {
    let mut places = ["n1", "n2"].repeat(4);
    for number in 0.. {
        let id = format!("other-{number}");
        let owner = owner(cluster, &id).await;
        if let Some(place) = places.iter().position(|&place| place == owner) {
            places.swap_remove(place);
            use_it(&cluster.user(&id), READS).await;
        }
        if places.is_empty() {
            break;
        }
    }
    use_it(&cluster.user(BIG), 20 * READS).await;
    owner(cluster, BIG).await
}

fn json(finished: &Finished) -> Value {
    assert_eq!(finished.code, Some(0), "{finished:?}");
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:?}"))
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// By the model: 6 µs a request, 40 more for the write and for the first read; 6.1 ms beside four times 0.4.
fn assert_share(user: &Value) {
    let share = user["share"].as_f64().expect("a number");
    assert!((0.7..0.9).contains(&share), "{user}");
}

#[tokio::test]
async fn a_user_of_twenty_times_the_traffic_is_named_first_and_worth_a_pool_of_its_own() {
    let mut cluster = cluster().await;
    let owner = one_of_twenty_times_the_others(&cluster).await;

    let answer = top(&cluster, "").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    let document = answer.json();
    assert_eq!(keys(&document), BTreeSet::from(["users", "named", "complete", "unanswered"]));
    assert_eq!((&document["named"], &document["complete"]), (&"hashed".into(), &true.into()));
    let users = document["users"].as_array().expect("users");
    assert_eq!(users.len(), 9);
    let fields = ["user", "node", "requests_per_second", "bytes_per_second", "cores", "share", "counted_seconds"];
    assert_eq!(keys(&users[0]), BTreeSet::from(fields));
    assert_eq!(users[0]["node"], *owner);
    assert_share(&users[0]);
    assert!(
        users[0]["requests_per_second"].as_f64() > users[1]["requests_per_second"].as_f64().map(|rate| 10.0 * rate)
    );
    assert!(!answer.text().contains(BIG) && !answer.text().contains("other-"), "{}", answer.text());
    assert_eq!(top(&cluster, "?limit=1").await.json()["users"][0]["user"], users[0]["user"]);

    cluster.gateways[0].restart_with(&[("SHARDCACHE_SHOW_USERS", "on")]);
    cluster.gateways[0].wait_ready().await;
    let raw = top(&cluster, "?limit=1").await.json();
    assert_eq!((&raw["named"], &raw["users"][0]["user"]), (&"raw".into(), &BIG.into()));

    let suggestion = json(&cluster.migrator(&["suggest", "--json"]).await);
    let fields = ["users", "nodes", "to_pool", "to_pool_exists", "above", "complete", "unanswered"];
    assert_eq!(keys(&suggestion), BTreeSet::from(fields));
    let moved = suggestion["users"].as_array().expect("users");
    assert_eq!(moved.iter().map(|user| &user["user"]).collect::<Vec<_>>(), [BIG], "{suggestion}");
    assert_share(&moved[0]);
    assert_eq!(moved[0]["command"], format!("migrator assign-user {BIG} --pool vip"));
    let nodes = suggestion["nodes"].as_array().expect("nodes");
    let new = nodes.iter().find(|row| row["node"].is_null()).expect("a node to be started");
    let left = nodes.iter().find(|row| row["node"] == *owner).expect("the owner");
    assert_eq!((&new["pool"], &left["pool"]), (&"vip".into(), &"shared".into()));
    assert!(left["cores_after"].as_f64() < left["cores_now"].as_f64().map(|now| now / 2.0), "{suggestion}");
    let text = cluster.migrator(&["suggest", "--above", "95%"]).await.stdout;
    assert!(text.starts_with("nobody costs more than 95.0 %"), "{text}");
    let text = cluster.migrator(&["suggest"]).await.stdout;
    assert!(text.contains("SHARDCACHE_NODE_POOL=vip") && text.contains("run: migrator assign-user"), "{text}");
    assert!(!cluster.log_tails().contains(BIG));
}

#[tokio::test]
async fn hits_are_counted_by_a_sample_and_who_does_not_answer_is_named() {
    let mut cluster = cluster().await;
    let user = cluster.user(BIG);
    user.put("k", "value").await;
    let hits = 4_000;
    let hit = async |_| assert_eq!(user.get("k").await.status, 200);
    stream::iter(0..hits).map(hit).buffer_unordered(8).collect::<Vec<_>>().await;

    let owner = owner(&cluster, BIG).await;
    let other = if owner == "n1" { "n2" } else { "n1" };
    assert_eq!(node_top(&cluster, &owner, "no-such-token").await.status, 401);
    let report = node_top(&cluster, &owner, TOKEN).await.json();
    let rate = report["users"][0]["requests_per_second"].as_f64().expect("a rate");
    let counted = rate * report["window_seconds"].as_f64().expect("seconds");
    // Within eight standard deviations: 16 × √(4,000 × 1/16 × 15/16) = 245. A halving in between takes half of it away.
    let halved = report["users"][0]["counted_seconds"].as_u64().expect("seconds") < 50;
    assert!((if halved { 2_040.0 } else { 1_000.0 }..5_960.0).contains(&counted), "{report}");

    for query in ["?limit=0", "?limit=101", "?limit=many", "?all=1"] {
        let answer = top(&cluster, query).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "request_invalid"), "{query}");
    }
    cluster.node(other).process.kill();
    let document = top(&cluster, "").await.json();
    assert_eq!((&document["complete"], &document["unanswered"]), (&false.into(), &vec![other].into()), "{document}");
    assert_eq!(document["users"][0]["node"], *owner);
    let suggestion = json(&cluster.migrator(&["suggest", "--json"]).await);
    assert_eq!((&suggestion["complete"], &suggestion["unanswered"][0]), (&false.into(), &other.into()), "{suggestion}");
    cluster.node(&owner).process.kill();
    let failed = cluster.migrator(&["suggest", "--json"]).await;
    assert_eq!(failed.code, Some(1), "{failed:?}");
}
