//! What cannot be added is refused with a reason and changes nothing, and does not stand in the way of what can (C08).

use std::time::Duration;

use tempfile::TempDir;
use tests::cluster::Cluster;
use tests::processes::{Process, free_address, run};

use crate::support::{Door, add_standby, cluster, done, members, refused};

/// A node that registers, or tries to, under an address that is not its own.
fn node_advertising(cluster: &Cluster, name: &str, advertise: &str) -> Process {
    let mut env = cluster.migrator_env();
    for (variable, value) in [
        ("SHARDCACHE_NODE_ID", name),
        ("SHARDCACHE_LISTEN", &free_address().to_string()),
        ("SHARDCACHE_ADVERTISE", advertise),
    ] {
        env.push((variable.to_owned(), value.to_owned()));
    }
    Process::start("cache-node", &[], &env)
}

#[tokio::test]
async fn a_bad_member_is_refused_by_name_and_the_next_good_one_joins_on_every_gateway() {
    const SHORT: &[&str] = &["--wait", "1s"];
    let mut cluster = cluster(2).await;
    let gateways = [Door::of(&cluster, 0), Door::of(&cluster, 1)];
    let gateway_address = cluster.gateways[0].address.to_string();
    let n1_address = cluster.nodes["n1"].address.to_string();
    add_standby(&mut cluster, "n4", &[]).await;
    let mut as_gateway = node_advertising(&cluster, "n5", &gateway_address);
    let mut as_n1 = node_advertising(&cluster, "n6", &n1_address);
    let mut nowhere = node_advertising(&cluster, "n7", &free_address().to_string());

    for (args, code, reason) in [
        (&["add-node", "n4", "--weight", "0"][..], 2, "weight"),
        (&["add-node", "n4", "--weight", "10001"], 2, "10000"),
        (&["add-node", "n 4"], 2, "is not a node id"),
        (&["add-node", ""], 2, "is not a node id"),
        (&["add-node", "../n4"], 2, "is not a node id"),
        (&["add-node", "ghost"], 1, "ghost"),
        (&["add-node", "n1"], 1, "n1 is a member already"),
        (&["add-node", "n5"], 1, "n5 cannot take slots: no cache-node answers at"),
        (&["add-node", "n6"], 1, "n6"),
        (&["add-node", "n7"], 1, "n7 cannot take slots"),
        (&["remove-node", "ghost"], 1, "ghost is not a member"),
        (&["remove-node", "n4"], 1, "n4 is not a member"),
        (&["set-weight", "n1", "100"], 1, "weight 100 already"),
        (&["set-weight", "n1", "0"], 2, "10000"),
        (&["set-weight", "n4", "50"], 1, "n4 is not a member"),
    ] {
        let waits = if args[0] == "add-node" { SHORT } else { &[] };
        refused(&cluster, &[args, waits].concat(), code, reason).await;
    }
    for process in [&mut as_gateway, &mut as_n1, &mut nowhere] {
        assert!(process.is_running(), "{}", process.log_tail());
    }
    for gateway in &gateways {
        let ring = gateway.ring().await;
        assert_eq!((&ring["epoch"], &ring["change"]), (&1.into(), &serde_json::Value::Null));
    }

    done(&cluster, &["add-node", "n4"]).await;
    for gateway in &gateways {
        gateway.follows(2).await;
        assert_eq!(members(&gateway.ring().await), ["n1", "n2", "n3", "n4"]);
    }
}

#[tokio::test]
async fn a_node_with_an_address_that_nobody_can_dial_does_not_start() {
    const BOUND: Duration = Duration::from_secs(10);
    let data = TempDir::new().expect("a directory");
    let env = vec![("DATABASE_URL".to_owned(), format!("sqlite://{}/shardcache.db", data.path().display()))];
    for advertise in ["127.0.0.1:0", "127.0.0.1:70000", "127.0.0.1", ":7000", "", "user@host:7000", "a b:7000"] {
        let args = ["--node-id", "n4", "--listen", "127.0.0.1:0", "--advertise", advertise];
        let ended = run("cache-node", &args, &env, BOUND).await;
        assert_eq!(ended.code, Some(2), "{advertise:?}: {ended:#?}");
        assert!(ended.stderr.contains("SHARDCACHE_ADVERTISE"), "{advertise:?}: {ended:#?}");
    }
}
