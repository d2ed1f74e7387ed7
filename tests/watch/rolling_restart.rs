//! Every node restarted in turn under load: nobody sees an error or an old value.

use tests::checker::Checker;
use tests::door::Door;
use tests::poll::eventually;

use crate::support::{HEALED, cluster, done, leader, shares};

/// Requests between two steps: about a second's.
const BETWEEN: u64 = 1000;

#[tokio::test]
async fn a_rolling_restart_with_handoffs_costs_no_request() {
    let mut cluster = cluster().await;
    let watch = leader(&cluster, "60s").await;
    let clients = Checker::start(vec![Door::of(&cluster, 0)], 3);
    clients.goes_on(BETWEEN).await;
    for name in ["n1", "n2", "n3"] {
        let end = cluster.node(name).process.stop().await;
        let log = cluster.node(name).process.log();
        assert!(end.code() == Some(0) && log.contains("all slots are handed off"), "{log}");
        clients.goes_on(BETWEEN).await;
        cluster.node(name).restart();
        cluster.node(name).wait_ready().await;
        eventually("it has its share again", HEALED, async || shares(&cluster).await[name] > 1000).await;
        clients.goes_on(BETWEEN).await;
    }
    let seen = clients.finish().await;
    let answered = seen.reads + seen.writes;
    println!("{answered} requests");
    let errors = seen.read_errors.len() + seen.write_errors.len() + seen.unknown as usize;
    assert!(errors == 0 && seen.violations.is_empty(), "{seen:#?}\n{}", watch.log_tail());
    let expected = ["n1", "n2", "n3"].map(|name| [format!("drain {name}"), format!("readmit {name}")]);
    assert_eq!(done(&cluster).await, expected.concat());
}
