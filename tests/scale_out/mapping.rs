//! Which users move when a member leaves and comes back, and that every gateway says the same (C04, C05).

use std::collections::BTreeMap;

use crate::support::{Door, cluster_on_a_file, done, owned_by, shares, users};

/// The owners as both gateways see them, which must agree.
async fn agreed(gateways: &[Door; 2], users: &[String]) -> BTreeMap<String, String> {
    let [first, second] = [gateways[0].owners(users).await, gateways[1].owners(users).await];
    assert_eq!(first, second, "the gateways differ");
    first
}

#[tokio::test]
async fn only_the_leaving_members_users_move_and_they_return_with_it() {
    let mut cluster = cluster_on_a_file(3).await;
    cluster.add_gateway().await;
    let gateways = [Door::of(&cluster, 0), Door::of(&cluster, 1)];
    let all = users(2000);
    let start = agreed(&gateways, &all).await;
    let start_shares = shares(&gateways[0].ring().await);
    let leaving = owned_by(&start, "n3");
    assert!(leaving.len() > 500 && leaving.len() < 850, "n3 has {} of 2000 users", leaving.len());

    done(&cluster, &["remove-node", "n3"]).await;
    gateways[0].follows(2).await;
    gateways[1].follows(2).await;
    let without = agreed(&gateways, &all).await;
    for (user, owner) in &without {
        assert_ne!(owner, "n3");
        assert!(start[user] == *owner || start[user] == "n3", "{user} moved from {} to {owner}", start[user]);
    }

    done(&cluster, &["add-node", "n3"]).await;
    gateways[0].follows(3).await;
    gateways[1].follows(3).await;
    assert_eq!(agreed(&gateways, &all).await, start);
    assert_eq!(shares(&gateways[0].ring().await), start_shares);

    for gateway in &mut cluster.gateways {
        gateway.restart();
        gateway.wait_ready().await;
    }
    let restarted = [Door::of(&cluster, 0), Door::of(&cluster, 1)];
    assert_eq!(agreed(&restarted, &all).await, start, "after a restart of the gateways");
}
