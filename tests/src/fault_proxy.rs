//! A TCP proxy that misbehaves on demand, to stand between two programs of a test.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::poll::{PAUSE, eventually};
use crate::processes::free_address;

/// How much is read at a time.
const CHUNK_BYTES: usize = 16 << 10;
/// How long connecting to the upstream may take.
const CONNECT_BOUND: Duration = Duration::from_secs(5);
/// How long a change of the fault may take to be carried out.
const SWITCH_BOUND: Duration = Duration::from_secs(5);

/// What the proxy does to connections, present and new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Passes everything.
    Pass,
    /// Passes everything, each chunk in each direction so much later.
    Delay(Duration),
    /// Passes so many bytes per second in each direction of each connection.
    Throttle(u32),
    /// Accepts, and passes nothing; nobody is told. After another fault what has piled up is passed.
    Blackhole,
    /// Resets present and new connections.
    Reset,
    /// Does not listen: new connections are refused, present ones pass.
    Refuse,
    /// Ends what it sends on both sides, in order, and goes on reading.
    HalfClose,
    /// Answers new connections itself, with this text once they have said something, and ends them; present ones pass.
    Answer(&'static str),
}

/// A proxy in front of one address. Dropping it closes everything.
pub struct FaultProxy {
    address: SocketAddr,
    fault: watch::Sender<Fault>,
    /// What the acceptor has carried out.
    carried_out: watch::Receiver<Fault>,
    _acceptor: oneshot::Sender<()>,
}

impl FaultProxy {
    /// Starts one in front of `upstream` (`host:port`), which need not be there yet.
    pub async fn start(upstream: &str) -> Self {
        Self::start_for(upstream, "").await
    }

    /// Starts one whose faults meet only connections on which the client's first bytes are these; the others pass, but
    /// for `Refuse`, which nobody gets by.
    pub async fn start_for(upstream: &str, only: &'static str) -> Self {
        let address = free_address();
        let listener = TcpListener::bind(address).await.expect("the address is free");
        let (fault, faults) = watch::channel(Fault::Pass);
        let (report, carried_out) = watch::channel(Fault::Pass);
        let (keep, dropped) = oneshot::channel();
        let acceptor = Acceptor { address, upstream: upstream.to_owned(), only, faults, report };
        tokio::spawn(async move {
            tokio::select! {
                _ = dropped => {}
                () = acceptor.run(listener) => {}
            }
        });
        Self { address, fault, carried_out, _acceptor: keep }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what it does; returns when new connections meet it so.
    pub async fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
        eventually("the proxy follows", SWITCH_BOUND, async || *self.carried_out.borrow() == fault).await;
    }
}

struct Acceptor {
    address: SocketAddr,
    upstream: String,
    only: &'static str,
    faults: watch::Receiver<Fault>,
    report: watch::Sender<Fault>,
}

impl Acceptor {
    async fn run(mut self, listener: TcpListener) {
        let mut listener = Some(listener);
        let mut connections = JoinSet::new();
        loop {
            let fault = *self.faults.borrow_and_update();
            match (fault, &listener) {
                (Fault::Refuse, _) => listener = None,
                (_, None) => listener = Some(TcpListener::bind(self.address).await.expect("the address is still free")),
                (_, Some(_)) => {}
            }
            self.report.send_replace(fault);
            let accepted = async {
                match &listener {
                    Some(listener) => listener.accept().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.faults.changed() => if changed.is_err() { return },
                accepted = accepted => if let Ok((stream, _)) = accepted {
                    connections.spawn(sorted(stream, self.upstream.clone(), self.only, self.faults.clone()));
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

/// Carries one connection; whether faults meet it, its first bytes say.
async fn sorted(client: TcpStream, upstream: String, only: &'static str, faults: watch::Receiver<Fault>) {
    if begins(&client, only.as_bytes()).await {
        connection(client, upstream, faults).await;
    } else {
        // Kept as long as the connection, which would otherwise end with it.
        let (_none, no_faults) = watch::channel(Fault::Pass);
        connection(client, upstream, no_faults).await;
    }
}

/// Whether these are the first bytes the client says; looks without taking them.
async fn begins(client: &TcpStream, with: &[u8]) -> bool {
    let look = async {
        let mut first = vec![0; with.len()];
        let mut seen = 0;
        while seen < with.len() {
            seen = client.peek(&mut first).await.unwrap_or(0);
            if seen == 0 || first[..seen] != with[..seen] {
                return false;
            }
            if seen < with.len() {
                sleep(PAUSE).await;
            }
        }
        true
    };
    timeout(CONNECT_BOUND, look).await.unwrap_or(false)
}

/// Carries one connection until both directions have ended, or a reset.
async fn connection(mut client: TcpStream, upstream: String, mut faults: watch::Receiver<Fault>) {
    let fault = *faults.borrow();
    match fault {
        Fault::Reset => {
            let _ = client.set_zero_linger();
            return;
        }
        Fault::Answer(text) => {
            // One request fits into a chunk; a client that has gone away needs no answer.
            let _ = client.read(&mut vec![0; CHUNK_BYTES]).await;
            let _ = client.write_all(text.as_bytes()).await;
            let _ = client.shutdown().await;
            return;
        }
        _ => {}
    }
    let Ok(Ok(mut server)) = timeout(CONNECT_BOUND, TcpStream::connect(&upstream)).await else { return };
    for stream in [&client, &server] {
        let _ = stream.set_nodelay(true);
    }
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let there = pump(from_client, to_server, faults.clone());
    let back = pump(from_server, to_client, faults.clone());
    let reset = tokio::select! {
        reset = faults.wait_for(|fault| *fault == Fault::Reset) => reset.is_ok(),
        _ = async { tokio::join!(there, back) } => false,
    };
    if reset {
        for stream in [&client, &server] {
            let _ = stream.set_zero_linger();
        }
    }
}

/// Carries one direction until its end, which it passes on.
async fn pump(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut faults: watch::Receiver<Fault>) {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut closed = false;
    loop {
        let fault = *faults.borrow_and_update();
        if fault == Fault::HalfClose && !closed {
            closed = true;
            let _ = to.shutdown().await;
        }
        tokio::select! {
            changed = faults.changed() => if changed.is_err() { return },
            read = from.read(&mut chunk), if fault != Fault::Blackhole => {
                let Some(length) = read.ok().filter(|length| *length > 0) else { break };
                match fault {
                    Fault::Delay(delay) => sleep(delay).await,
                    Fault::Throttle(rate) => sleep(Duration::from_secs_f64(length as f64 / f64::from(rate))).await,
                    _ => {}
                }
                if !closed && to.write_all(&chunk[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
    let _ = to.shutdown().await;
}

#[cfg(test)]
mod tests;
