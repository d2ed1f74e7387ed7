//! A plan is for one epoch: the command that `plan` prints does what it showed, or nothing.

use tests::door::{Door, shares};
use tests::ring_change::{add_standby, cluster, done, json, refused};

#[tokio::test]
async fn the_command_of_a_plan_does_what_it_showed_and_is_refused_once_the_ring_has_changed() {
    let mut cluster = cluster(1).await;
    add_standby(&mut cluster, "n4", &[]).await;
    let gateway = Door::of(&cluster, 0);
    let plan = json(&cluster, &["plan", "add-node", "n4"]).await;
    let command: Vec<&str> = plan["command"].as_str().expect("a command").split(' ').collect();
    assert_eq!(command, ["migrator", "add-node", "n4", "--at-epoch", "1"], "{plan}");
    done(&cluster, &["set-weight", "n1", "150"]).await;
    gateway.follows(2).await;
    let before = shares(&gateway.ring().await);
    refused(&cluster, &command[1..], 1, "the command is for epoch 1, but the ring is at epoch 2").await;
    assert_eq!((gateway.epoch().await, shares(&gateway.ring().await)), (2, before));

    let plan = json(&cluster, &["plan", "add-node", "n4"]).await;
    let command: Vec<&str> = plan["command"].as_str().expect("a command").split(' ').collect();
    let result = json(&cluster, &command[1..]).await;
    assert_eq!(
        (&result["event"], &result["outcome"], &result["moved_slots"]),
        (&"result".into(), &"done".into(), &plan["moving_slots"],)
    );
    gateway.follows(3).await;
    let shown = plan["nodes"].as_array().expect("nodes");
    for (node, slots) in shares(&gateway.ring().await) {
        assert!(shown.iter().any(|share| share["id"] == *node && share["slots_after"] == slots), "{node}: {plan}");
    }
}
