//! A change whose migrator was killed is carried on by the leader.

use tests::poll::eventually;

use crate::support::{HEALED, Users, cluster, done, leader, shares, status};

#[tokio::test]
async fn a_change_whose_migrator_was_killed_comes_to_its_end() {
    let mut cluster = cluster().await;
    cluster.add_standby("n4", &[]).await;
    let all = Users::new(&cluster, 100);
    all.put_all("first").await;
    let watch = leader(&cluster, "60s").await;
    // The change cannot get past its first phases while an old owner does not answer.
    cluster.node("n1").process.pause();
    let mut migrator = cluster.start_migrator(&["add-node", "n4"]);
    eventually("the change has begun", HEALED, async || status(&cluster).await["change"]["phase"] == "copy").await;
    migrator.kill();
    cluster.node("n1").process.resume();
    eventually("the change is over", HEALED, async || status(&cluster).await["change"].is_null()).await;
    println!("{}", watch.log_tail());
    assert_eq!(done(&cluster).await, ["add-node n4"], "{}", watch.log_tail());
    eventually("the gateway knows", HEALED, async || shares(&cluster).await.contains_key("n4")).await;
    all.read_all("first").await;
    eventually("all can write", HEALED, async || all.can_put_all("second").await).await;
}
