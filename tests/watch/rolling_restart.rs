//! Every node restarted in turn under load: nobody sees an error or an old value.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tests::http::{User, send};
use tests::poll::eventually;
use tokio::task::JoinHandle;

use crate::support::{HEALED, cluster, done, leader, shares};

/// Clients, each with keys of its own: the only writer, and a reader that knows what must come back.
const CLIENTS: usize = 12;
/// Between two requests of one client, so that clients and servers fit on a small machine.
const THINK: Duration = Duration::from_millis(5);

/// What all clients have done.
#[derive(Default)]
struct Load {
    stop: AtomicBool,
    requests: AtomicU64,
}

async fn client(user: User, load: Arc<Load>) -> Vec<String> {
    let mut errors = Vec::new();
    let mut number = 0u64;
    while !load.stop.load(Ordering::Relaxed) {
        number += 1;
        let put = user.request(reqwest::Method::PUT, "/v1/entries/k").body(number.to_string());
        match send(put).await {
            Ok(answer) if matches!(answer.status, 201 | 204) => {}
            other => errors.push(format!("PUT: {other:?}")),
        }
        for _ in 0..3 {
            match send(user.request(reqwest::Method::GET, "/v1/entries/k")).await {
                Ok(answer) if answer.status == 200 && answer.text() == number.to_string() => {}
                other => errors.push(format!("GET, {number} expected: {other:?}")),
            }
            tokio::time::sleep(THINK).await;
        }
        load.requests.fetch_add(4, Ordering::Relaxed);
    }
    errors
}

#[tokio::test]
async fn a_rolling_restart_with_handoffs_costs_no_request() {
    let mut cluster = cluster().await;
    let watch = leader(&cluster, "60s").await;
    let load = Arc::new(Load::default());
    let clients: Vec<JoinHandle<_>> = (0..CLIENTS)
        .map(|number| tokio::spawn(client(cluster.user(&format!("roller-{number}")), Arc::clone(&load))))
        .collect();
    let goes_on = async || {
        let goal = load.requests.load(Ordering::Relaxed) + 500;
        eventually("the load goes on", HEALED, async || load.requests.load(Ordering::Relaxed) >= goal).await;
    };
    goes_on().await;
    for name in ["n1", "n2", "n3"] {
        let end = cluster.node(name).process.stop().await;
        let log = cluster.node(name).process.log();
        assert!(end.code() == Some(0) && log.contains("all slots are handed off"), "{log}");
        goes_on().await;
        cluster.node(name).restart();
        cluster.node(name).wait_ready().await;
        eventually("it has its share again", HEALED, async || shares(&cluster).await[name] > 1000).await;
        goes_on().await;
    }
    load.stop.store(true, Ordering::Relaxed);
    let mut errors = Vec::new();
    for client in clients {
        errors.extend(client.await.expect("a client"));
    }
    println!("{} requests, {} errors", load.requests.load(Ordering::Relaxed), errors.len());
    assert!(errors.is_empty(), "{errors:#?}\n{}", watch.log_tail());
    let expected = ["n1", "n2", "n3"].map(|name| [format!("drain {name}"), format!("readmit {name}")]);
    assert_eq!(done(&cluster).await, expected.concat());
}
