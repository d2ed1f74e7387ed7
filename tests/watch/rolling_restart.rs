//! Every node restarted in turn under load: nobody sees an error or an old value.

use tests::poll::eventually;

use crate::clients::Clients;
use crate::support::{HEALED, cluster, done, leader, shares};

/// Requests between two steps: about a second's.
const BETWEEN: u64 = 1000;

#[tokio::test]
async fn a_rolling_restart_with_handoffs_costs_no_request() {
    let mut cluster = cluster().await;
    let watch = leader(&cluster, "60s").await;
    let clients = Clients::start(&cluster);
    clients.go_on(BETWEEN).await;
    for name in ["n1", "n2", "n3"] {
        let end = cluster.node(name).process.stop().await;
        let log = cluster.node(name).process.log();
        assert!(end.code() == Some(0) && log.contains("all slots are handed off"), "{log}");
        clients.go_on(BETWEEN).await;
        cluster.node(name).restart();
        cluster.node(name).wait_ready().await;
        eventually("it has its share again", HEALED, async || shares(&cluster).await[name] > 1000).await;
        clients.go_on(BETWEEN).await;
    }
    let (seen, answered) = clients.finish().await;
    println!("{answered} requests");
    assert!(seen.errors.is_empty() && seen.violations.is_empty(), "{seen:#?}\n{}", watch.log_tail());
    let expected = ["n1", "n2", "n3"].map(|name| [format!("drain {name}"), format!("readmit {name}")]);
    assert_eq!(done(&cluster).await, expected.concat());
}
