//! The cluster in one process has a failure controller too: it looks after members that other processes run.

use std::time::{Duration, Instant};

use tempfile::TempDir;
use tests::http::User;
use tests::poll::eventually;
use tests::processes::{Process, free_address, run};

use crate::support::HEALED;

/// How long one verb of the migrator may take.
const VERB_BOUND: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_further_process_that_dies_is_taken_over_and_the_stop_stays_quick() {
    let data = TempDir::new().expect("a directory");
    let (listen, further) = (free_address(), free_address().to_string());
    let directory = data.path().display().to_string();
    let mut standalone = Process::start(
        "shardcache",
        &["--listen", &listen.to_string(), "--data-dir", &directory, "--grace", "1s"],
        &vec![("SHARDCACHE_LOG_FORMAT".to_owned(), "json".to_owned())],
    );
    standalone.wait_ready(listen, "/readyz").await;
    let database = vec![("DATABASE_URL".to_owned(), format!("sqlite://{directory}/shardcache.db"))];
    let mut node = Process::start("cache-node", &["--node-id", "node-4", "--listen", &further], &database);
    node.wait_ready(further.parse().expect("an address"), "/readyz").await;
    let added = run("migrator", &["add-node", "node-4"], &database, VERB_BOUND).await;
    assert_eq!(added.code, Some(0), "{added:#?}");

    let users: Vec<User> =
        (0..40).map(|number| User::new(&format!("http://{listen}"), &format!("user-{number}"))).collect();
    let mut of_node = Vec::new();
    for user in users {
        let put = user.put("k", "first").await;
        assert_eq!(put.status, 201, "{put:?}");
        of_node.extend((put.header("X-Cache-Node") == "node-4").then_some(user));
    }
    assert!(!of_node.is_empty(), "node-4 has users");
    node.kill();
    eventually("its users can write again", HEALED, async || of_node[0].put("k", "second").await.status == 204).await;
    for user in &of_node {
        let read = user.get("k").await;
        assert!(read.status == 200 && read.header("X-Cache-Node") != "node-4", "{read:?}");
    }
    let check = run("migrator", &["watch", "--check"], &database, VERB_BOUND).await;
    assert_eq!(check.code, Some(0), "{check:?}");

    let asked = Instant::now();
    assert_eq!(standalone.stop().await.code(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    let log = standalone.log();
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("{text:?} in {log}"));
    assert!(at("no longer leading") < at("stopped, lease released"), "the controller stops first: {log}");
}
