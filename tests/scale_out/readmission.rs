//! A removed node stays out when it starts again, and brings nothing old when it is added again (D06).

use reqwest::Method;
use tests::http::answered;

use crate::support::{Door, add_standby, cluster, done, members, owned_by, refused, shares, users};

/// What `/readyz` of a node says.
async fn readiness(node: &Door) -> serde_json::Value {
    answered(node.request(Method::GET, "anyone", "/readyz")).await.json()
}

#[tokio::test]
async fn a_removed_node_stays_out_and_comes_back_without_its_old_entries() {
    let mut cluster = cluster(1).await;
    let gateway = Door::of(&cluster, 0);
    let all = users(300);
    gateway.put_all(&all, "first").await;
    gateway.read_all(&all, "first").await;
    let start = shares(&gateway.ring().await);
    let of_n3 = owned_by(&gateway.owners(&all).await, "n3");

    // The same process leaves and comes back: its L1 still holds what it had.
    done(&cluster, &["remove-node", "n3"]).await;
    gateway.put_all(&of_n3, "while it was out").await;
    done(&cluster, &["add-node", "n3"]).await;
    gateway.follows(3).await;
    let answers = gateway.read_all(&of_n3, "while it was out").await;
    assert!(answers.iter().all(|answer| answer.header("X-Cache-Node") == "n3"));
    assert_eq!(shares(&gateway.ring().await), start);

    // It leaves and its process starts again: no member, no traffic.
    done(&cluster, &["remove-node", "n3"]).await;
    gateway.follows(4).await;
    let incarnation = readiness(&Door::new(&cluster.nodes["n3"].url())).await["incarnation"].clone();
    cluster.node("n3").restart();
    cluster.node("n3").wait_ready().await;
    let out = Door::new(&cluster.nodes["n3"].url());
    let says = readiness(&out).await;
    assert_ne!(says["incarnation"], incarnation);
    assert_eq!((&says["state"], &says["owned_slots"]), (&"standby".into(), &0.into()), "{says}");
    assert!(says["reasons"].to_string().contains("no member of the ring"), "{says}");
    gateway.put_all(&of_n3, "second").await;
    let answers = gateway.read_all(&of_n3, "second").await;
    assert!(answers.iter().all(|answer| answer.header("X-Cache-Node") != "n3"));
    assert_eq!((out.get(&of_n3[0]).await.status, out.put(&of_n3[0], "lost").await.status), (421, 421));
    let ring = gateway.ring().await;
    assert_eq!((&ring["epoch"], members(&ring)), (&4.into(), ["n1", "n2"].map(String::from).to_vec()));

    // The same name at another address.
    let before = cluster.nodes["n3"].address;
    cluster.node("n3").process.stop().await;
    add_standby(&mut cluster, "n3", &[]).await;
    assert_ne!(cluster.nodes["n3"].address, before);
    done(&cluster, &["add-node", "n3"]).await;
    gateway.follows(5).await;
    let ring = gateway.ring().await;
    assert_eq!(shares(&ring), start);
    let address = cluster.nodes["n3"].address.to_string();
    assert!(ring["members"].to_string().contains(&address), "{ring}");
    let answers = gateway.read_all(&of_n3, "second").await;
    assert!(answers.iter().all(|answer| answer.header("X-Cache-Node") == "n3"));
    refused(&cluster, &["add-node", "n3"], 1, "n3 is a member already").await;
}
