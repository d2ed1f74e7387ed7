//! Each key is a register, for the clients of two gateways, while nodes come and go.

use tests::checker::Checker;

use crate::support::{Door, add_standby, cluster, done};

#[tokio::test]
async fn concurrent_clients_of_two_gateways_see_registers_while_the_ring_changes() {
    let mut cluster = cluster(2).await;
    add_standby(&mut cluster, "n4", &[]).await;
    let checker = Checker::start(vec![Door::of(&cluster, 0), Door::of(&cluster, 1)], 7);
    checker.goes_on(1500).await;
    for change in [&["add-node", "n4"], &["remove-node", "n1"], &["add-node", "n1"]] {
        done(&cluster, change).await;
        checker.goes_on(1000).await;
    }
    let seen = checker.finish().await;
    println!("{} reads, {} writes, {} unknown", seen.reads, seen.writes, seen.unknown);
    assert!(seen.violations.is_empty(), "{seen:#?}");
    assert_eq!((seen.unknown, seen.write_errors.len(), seen.read_errors.len()), (0, 0, 0), "{seen:#?}");
    Door::of(&cluster, 0).follows(4).await;
}
