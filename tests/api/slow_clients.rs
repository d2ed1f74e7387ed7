//! E09: clients that dribble hold nobody up, and are sent away.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tests::http::RawConnection;
use tests::poll::eventually;
use tokio::time::interval;

use crate::support::small_cluster;

/// The bound on a head or a body is 10 s; a busy machine gets as much again.
const SENT_AWAY: Duration = Duration::from_secs(25);
const DRIBBLE_EVERY: Duration = Duration::from_secs(1);

/// Sends the start, then a byte now and then; how long until it is closed or answered.
async fn dribble(address: SocketAddr, start: String, byte: &'static [u8]) -> Duration {
    let mut connection = RawConnection::open(address).await;
    connection.send(start.as_bytes()).await;
    let began = Instant::now();
    while began.elapsed() < SENT_AWAY {
        if connection.closes_within(DRIBBLE_EVERY).await {
            return began.elapsed();
        }
        connection.send(byte).await;
    }
    panic!("{start:?} is still open after {SENT_AWAY:?}");
}

fn open_files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

#[tokio::test]
async fn dribbling_clients_are_sent_away_and_a_normal_one_is_served_meanwhile() {
    let cluster = small_cluster(1, &[]).await;
    let user = cluster.user("normal");
    assert_eq!(user.put("k", "v").await.status, 201);
    let gateway = &cluster.gateways[0];
    let before = open_files(gateway.process.pid());

    let head = || "GET /v1/entries/k HTTP/1.1\r\nX-Slow: ".to_owned();
    let body =
        || "PUT /v1/entries/slow HTTP/1.1\r\nHost: x\r\nX-User-ID: slow\r\nContent-Length: 1000\r\n\r\n".to_owned();
    let node = cluster.nodes["n1"].address;
    let heads = join_all((0..200).map(|_| dribble(gateway.address, head(), b"x")));
    let bodies = join_all((0..50).map(|_| dribble(gateway.address, body(), b"x")));
    let at_node = join_all((0..20).map(|_| dribble(node, head(), b"x")).chain([dribble(node, body(), b"x")]));
    let slow = async { tokio::join!(heads, bodies, at_node) };

    let normal = async {
        let mut every = interval(Duration::from_millis(20));
        let mut times = Vec::new();
        loop {
            every.tick().await;
            let began = Instant::now();
            let answer = user.get("k").await;
            assert_eq!(answer.status, 200, "{answer:?}");
            times.push(began.elapsed());
            if times.len() == 300 {
                times.sort_unstable();
                return times;
            }
        }
    };
    let (_, times) = tokio::join!(slow, normal);
    // Proposed: 200 ms; what a machine with two busy cores adds is not ours.
    assert!(times[times.len() * 9 / 10] < Duration::from_millis(500), "p90 {:?}", times[times.len() * 9 / 10]);
    eventually("their sockets are given back", SENT_AWAY, async || open_files(gateway.process.pid()) < before + 20)
        .await;
    assert_eq!(user.get("slow").await.status, 404);
}
