//! A cluster in this process: started, used over HTTP, stopped, and started again on the same data.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use origin::{OpenOptions, Origin};
use standalone::{Config, Running, banner, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// Far beyond any start or stop.
const BOUND: Duration = Duration::from_secs(30);

fn config(data_dir: &Path, nodes: u16, listen: SocketAddr) -> Config {
    Config {
        nodes,
        listen,
        data_dir: data_dir.to_owned(),
        database_url: None,
        redis_url: Vec::new(),
        takeover_grace: "10s".parse().expect("a time"),
        audit_every: 1,
        cluster_token: Some("a-token".parse().expect("a token")),
        log_format: None,
    }
}

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

async fn started(config: &Config) -> (Running, CancellationToken) {
    let stop = CancellationToken::new();
    let running = tokio::time::timeout(BOUND, start(config.clone(), stop.clone())).await.expect("in time");
    (running.expect("started"), stop)
}

async fn stopped(running: Running, stop: CancellationToken) {
    stop.cancel();
    tokio::time::timeout(BOUND, running.stopped()).await.expect("in time").expect("stopped well");
}

/// Status and body.
async fn request(address: SocketAddr, method: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let request = format!(
        "{method} /v1/entries/greeting HTTP/1.1\r\nHost: localhost\r\nX-User-ID: ada\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head[9..12].parse().expect("a status"), body.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_survive_a_restart_and_further_nodes_stand_by() {
    let data = tempfile::tempdir().expect("a directory");
    let two = config(&data.path().join("not/there/yet"), 2, any_port());
    let (running, stop) = started(&two).await;
    assert_eq!((running.nodes.len(), running.members.len(), running.epoch.0), (2, 2, 1));
    assert_eq!(request(running.gateway, "GET", "").await.0, 404);
    assert_eq!(request(running.gateway, "PUT", "hello").await.0, 201);
    assert_eq!(request(running.gateway, "GET", "").await, (200, "hello".to_owned()));
    stopped(running, stop).await;

    let three = Config { nodes: 3, ..two };
    let (running, stop) = started(&three).await;
    assert_eq!(request(running.gateway, "GET", "").await, (200, "hello".to_owned()));
    assert_eq!((running.nodes.len(), running.members.len(), running.epoch.0), (3, 2, 1), "the ring stays as it is");
    let text = banner::text(&three, &running);
    assert!(text.contains("migrator -- add-node node-3 --database-url sqlite://"), "{text}");
    assert!(text.contains("standby") && !text.contains("a-token"), "{text}");
    stopped(running, stop).await;

    let one = Config { nodes: 1, ..three };
    let (running, stop) = started(&one).await;
    assert_eq!(running.nodes.len(), 2, "every member of the ring is run");
    assert_eq!(request(running.gateway, "GET", "").await, (200, "hello".to_owned()));
    stopped(running, stop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_cluster_on_the_same_data_is_refused_and_leaves_the_first_alone() {
    let data = tempfile::tempdir().expect("a directory");
    let config = config(data.path(), 1, any_port());
    let (running, stop) = started(&config).await;
    let error = start(config.clone(), CancellationToken::new()).await.err().expect("refused");
    assert!(error.to_string().starts_with("another process runs node-1 on this database"), "{error:#}");
    assert_eq!(request(running.gateway, "PUT", "hello").await.0, 201);
    stopped(running, stop).await;
}

#[tokio::test]
async fn a_port_in_use_is_said_in_one_line_before_anything_is_made() {
    let taken = TcpListener::bind(any_port()).await.expect("a port");
    let data = tempfile::tempdir().expect("a directory");
    let data_dir = data.path().join("data");
    let config = config(&data_dir, 1, taken.local_addr().expect("an address"));
    let error = start(config, CancellationToken::new()).await.err().expect("refused");
    assert!(error.to_string().contains("is in use by another program"), "{error:#}");
    assert!(!data_dir.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_while_starting_leaves_nothing_in_the_way_of_the_next_start() {
    let data = tempfile::tempdir().expect("a directory");
    let config = config(data.path(), 2, any_port());
    let stop = CancellationToken::new();
    let starting = tokio::spawn(start(config.clone(), stop.clone()));
    let origin = Origin::open(&config.database(), OpenOptions::default()).expect("an origin");
    // The file is not there at first: an error is as good as no node.
    while origin.nodes().await.unwrap_or_default().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stop.cancel();
    // On a fast machine it was up already.
    if let Ok(running) = tokio::time::timeout(BOUND, starting).await.expect("in time").expect("no panic") {
        stopped(running, stop).await;
    }
    let (running, stop) = started(&config).await;
    assert_eq!(request(running.gateway, "PUT", "hello").await.0, 201);
    stopped(running, stop).await;
}
