//! A node with another cluster token: it gets no slots, and where it has some its users can still read.

use std::time::Duration;

use tests::cluster::{Cluster, ClusterOptions};
use tests::door::{Door, each, owned_by, shares, users};
use tests::poll::eventually;
use tests::ring_change::{done, refused};

const TOKEN: &str = "SHARDCACHE_CLUSTER_TOKEN";

async fn cluster() -> Cluster {
    let env = vec![(TOKEN.to_owned(), "the-right-one".to_owned())];
    Cluster::start(ClusterOptions { env, ..ClusterOptions::default() }).await
}

#[tokio::test]
async fn an_owner_that_refuses_the_gateways_token_costs_its_users_their_writes_only_and_is_named() {
    let mut cluster = cluster().await;
    let gateway = Door::of(&cluster, 0);
    let all = users(40);
    gateway.put_all(&all, "v").await;
    cluster.node("n3").process.kill();
    cluster.node("n3").restart_with(&[(TOKEN, "another")]);
    cluster.node("n3").wait_ready().await;
    let own = owned_by(&gateway.owners(&all).await, "n3");
    assert!(!own.is_empty());
    eventually("n3 is asked again", tests::door::PHASE_BOUND, async || {
        gateway.get(&own[0]).await;
        cluster.gateways[0].process.log().contains("refuses our cluster token")
    })
    .await;
    gateway.read_all(&all, "v").await;
    for answer in each(&own, async |user| gateway.put(user, "w").await).await {
        assert_eq!((answer.status, answer.code().as_str()), (503, "owner_unavailable"), "{answer:?}");
        assert!(answer.text().contains("refuses our token"), "{answer:?}");
    }

    // No slot goes to it either, copied or not, whatever the verb.
    for verb in [&["remove-node", "n1"][..], &["remove-node", "n1", "--cold"], &["set-weight", "n3", "200", "--cold"]] {
        refused(&cluster, verb, 1, "n3 cannot take slots").await;
    }
    assert_eq!(gateway.epoch().await, 1);

    // Nor does a takeover, by an operator or by the controller.
    cluster.node("n1").process.kill();
    eventually("the lease of n1 is over", Duration::from_secs(15), async || {
        gateway.ring().await["members"][0]["state"] == "down"
    })
    .await;
    refused(&cluster, &["remove-node", "n1"], 1, "n3 cannot take slots").await;
    assert_eq!(gateway.epoch().await, 1);
    let mut watch = cluster.start_migrator(&["watch", "--grace", "1s"]);
    eventually("n1 is taken over", Duration::from_secs(15), async || gateway.epoch().await == 2).await;
    let slots = shares(&gateway.ring().await);
    assert_eq!(slots["n1"], 0, "{slots:?}");
    assert!(slots["n2"] > slots["n3"] * 3 / 2, "n2 has all of them: {slots:?}");
    watch.stop().await;
    cluster.node("n1").restart();
    cluster.node("n1").wait_ready().await;

    cluster.node("n3").process.kill();
    cluster.node("n3").restart_with(&[(TOKEN, "the-right-one")]);
    cluster.node("n3").wait_ready().await;
    eventually("writes are taken again", tests::door::PHASE_BOUND, async || {
        each(&own, async |user| gateway.put(user, "w").await.status).await.iter().all(|status| *status == 204)
    })
    .await;
    done(&cluster, &["remove-node", "n1"]).await;
}
