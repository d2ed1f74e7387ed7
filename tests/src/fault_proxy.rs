//! A TCP proxy that misbehaves on demand, to stand between two programs of a test.

mod connection;

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::poll::eventually;
use crate::processes::free_address;
use connection::Proxied;

/// How long a change of the fault may take to be carried out.
const SWITCH_BOUND: Duration = Duration::from_secs(5);

/// A direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// From the client to the upstream.
    There,
    /// From the upstream to the client.
    Back,
}

/// What the proxy does to connections, present and new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Passes everything.
    Pass,
    /// Passes everything, each chunk in each direction so much later.
    Delay(Duration),
    /// The same with a time of its own for each chunk, drawn from the seed.
    Jitter {
        /// The shortest.
        least: Duration,
        /// The longest.
        most: Duration,
        /// Where chance comes from; the same for each direction of each connection.
        seed: u64,
    },
    /// Passes so many bytes per second in each direction of each connection.
    Throttle(u32),
    /// Accepts, and passes nothing; nobody is told. After another fault what has piled up is passed.
    Blackhole,
    /// Takes what comes this way and loses it, the end too; the other way passes. Nothing is closed and nobody is told.
    /// Connections that have lost something are reset after the fault: what follows would not be what was sent.
    Vanish(Way),
    /// Resets present and new connections.
    Reset,
    /// Resets each connection once so many bytes have come back from the upstream: in the middle of an answer.
    ResetAfter(usize),
    /// Does not listen: new connections are refused, present ones pass.
    Refuse,
    /// Does not listen, and closes present connections.
    Cut,
    /// Ends what it sends on both sides, in order, and goes on reading.
    HalfClose,
    /// Answers new connections itself, with this text once they have said something, and ends them; present ones pass.
    Answer(&'static str),
    /// Holds each answer of the upstream in which this stands, and all that comes after it on its connection, until another
    /// fault; everything else passes. Meant for answers of one chunk.
    Hold(&'static str),
}

/// A proxy in front of one address. Dropping it closes everything.
pub struct FaultProxy {
    address: SocketAddr,
    upstream: watch::Sender<String>,
    fault: watch::Sender<Fault>,
    /// What the acceptor has carried out.
    carried_out: watch::Receiver<Fault>,
    /// How many connections are held.
    held: watch::Receiver<usize>,
    _acceptor: oneshot::Sender<()>,
}

impl FaultProxy {
    /// Starts one in front of `upstream` (`host:port`), which need not be there yet.
    pub async fn start(upstream: &str) -> Self {
        Self::start_for(upstream, "").await
    }

    /// Starts one whose faults meet only connections on which the client's first bytes are these; the others pass, but
    /// for `Refuse` and `Cut`, which nobody gets by.
    pub async fn start_for(upstream: &str, only: &'static str) -> Self {
        let address = free_address();
        let listener = TcpListener::bind(address).await.expect("the address is free");
        let (upstream, upstreams) = watch::channel(upstream.to_owned());
        let (fault, faults) = watch::channel(Fault::Pass);
        let (report, carried_out) = watch::channel(Fault::Pass);
        let (keep, dropped) = oneshot::channel();
        let (holding, held) = watch::channel(0);
        let acceptor = Acceptor { address, upstream: upstreams, only, faults, report, holding };
        tokio::spawn(async move {
            tokio::select! {
                _ = dropped => {}
                () = acceptor.run(listener) => {}
            }
        });
        Self { address, upstream, fault, carried_out, held, _acceptor: keep }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has new connections go to another upstream; present ones stay as they are.
    pub fn redirect(&self, upstream: &str) {
        self.upstream.send_replace(upstream.to_owned());
    }

    /// Changes what it does; returns when new connections meet it so.
    pub async fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
        eventually("the proxy follows", SWITCH_BOUND, async || *self.carried_out.borrow() == fault).await;
    }

    /// Waits until an answer is held.
    ///
    /// # Panics
    /// When none is in time.
    pub async fn holds(&self) {
        eventually("an answer is held", SWITCH_BOUND, async || *self.held.borrow() > 0).await;
    }
}

struct Acceptor {
    address: SocketAddr,
    upstream: watch::Receiver<String>,
    only: &'static str,
    faults: watch::Receiver<Fault>,
    report: watch::Sender<Fault>,
    holding: watch::Sender<usize>,
}

impl Acceptor {
    async fn run(mut self, listener: TcpListener) {
        let mut listener = Some(listener);
        let mut connections = JoinSet::new();
        loop {
            let fault = *self.faults.borrow_and_update();
            match (fault, &listener) {
                (Fault::Refuse | Fault::Cut, _) => listener = None,
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
                    let upstream = self.upstream.borrow().clone();
                    let proxied = Proxied { upstream, faults: self.faults.clone(), holding: self.holding.clone() };
                    connections.spawn(connection::carry(stream, self.only, proxied));
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
