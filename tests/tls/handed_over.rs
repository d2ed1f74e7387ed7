//! A listening socket that outlives the gateways that accept on it: a restart that no client notices.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tests::http::RawConnection;
use tests::poll::{eventually, until};
use tests::processes::{binary, free_address};

use crate::certificates::SOON;

const ASK: &[u8] = b"GET /v1/ring HTTP/1.1\r\nHost: x\r\n\r\n";
const ASK_ONCE: &[u8] = b"GET /v1/ring HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
/// Longer than a gateway drains.
const ENDED: Duration = Duration::from_secs(20);

/// A gateway that was given the socket as its third open file.
struct Gateway(Child);

impl Gateway {
    fn start(listener: &TcpListener, database: &str) -> Self {
        let socket = OwnedFd::from(listener.try_clone().expect("a second handle"));
        let mut command = Command::new("sh");
        command.args(["-c", "exec 3<&0 0</dev/null; exec \"$0\""]).arg(binary("gateway"));
        command.env("DATABASE_URL", database).env("LISTEN_FDS", "1").env("RUST_LOG", "info");
        command.env("SHARDCACHE_LISTEN", listener.local_addr().expect("an address").to_string());
        let child = command.stdin(Stdio::from(socket)).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.expect("sh is there"))
    }

    fn ask_to_stop(&self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).expect("it runs");
    }

    /// Whether it ended well.
    async fn has_ended(&mut self) -> bool {
        let end = until(ENDED, async || self.0.try_wait().expect("a child can be waited for")).await;
        end.expect("it ends in time").success()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks again and again until told; on one connection as long as the gateway keeps it, or on one for each request.
async fn hammer(address: SocketAddr, keeps: bool, over: Arc<AtomicBool>, answered: Arc<AtomicU64>) {
    while !over.load(Ordering::Relaxed) {
        let mut connection = RawConnection::open(address).await;
        loop {
            connection.send(if keeps { ASK } else { ASK_ONCE }).await;
            let answer = connection.answer(SOON).await.expect("every request is answered");
            assert_eq!(answer.status, 200, "{answer:?}");
            answered.fetch_add(1, Ordering::Relaxed);
            let closes = answer.head.to_ascii_lowercase().contains("connection: close");
            if closes || over.load(Ordering::Relaxed) {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_takes_over_the_socket_of_another_without_a_refused_or_failed_request() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let database = format!("sqlite://{}", dir.path().join("db").display());
    let listener = TcpListener::bind(free_address()).expect("bind");
    let address = listener.local_addr().expect("an address");
    let mut first = Gateway::start(&listener, &database);
    let (over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..6)
        .map(|number| tokio::spawn(hammer(address, number % 2 == 0, Arc::clone(&over), Arc::clone(&answered))))
        .collect();
    let more = async |what: &str| {
        let before = answered.load(Ordering::Relaxed);
        eventually(what, ENDED, async || answered.load(Ordering::Relaxed) > before + 200).await;
    };
    more("the first answers").await;
    for _ in 0..3 {
        let second = Gateway::start(&listener, &database);
        more("one or both answer").await;
        first.ask_to_stop();
        more("one answers while the other stops").await;
        assert!(first.has_ended().await);
        more("the second answers alone").await;
        first = second;
    }
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("no request failed");
    }
}
