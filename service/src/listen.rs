//! Serving HTTP/1 on a listener: bounded connections, bounded waits, and a stop that finishes what is in flight.
//!
//! Not `axum::serve`: that one has no timers. What a request may take is up to the handler; how long a peer may be idle,
//! dribble a head or refuse to read is decided here.

mod connection;
mod pace;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::Service;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use connection::PeerAddress;
pub use pace::PaceLimits;

/// The first pause after an accept error such as "too many open files"; doubled up to [`ACCEPT_PAUSE_MAX`].
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(5);
/// The longest pause between two tries to accept.
const ACCEPT_PAUSE_MAX: Duration = Duration::from_millis(500);

/// How to serve.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// How long requests in flight may go on after the stop before their connections are closed hard.
    pub drain_timeout: Duration,
    /// The most connections at a time; further ones wait in the listener's backlog.
    pub max_connections: usize,
    /// How slow a peer may be.
    pub pace: PaceLimits,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self { drain_timeout: Duration::from_secs(10), max_connections: 10_000, pace: PaceLimits::default() }
    }
}

/// Binds a listener; the error says what to do about it.
pub async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            anyhow::anyhow!("{address} is in use by another program: stop it, or choose another address with --listen")
        }
        _ => anyhow::anyhow!("cannot listen at {address}: {error}"),
    })
}

/// Serves until `stop`, then stops accepting, closes idle connections, lets requests in flight finish for
/// [`ServeOptions::drain_timeout`] and closes the rest. Returns when no connection is left.
///
/// Requests carry a [`PeerAddress`] extension. A panic in the handler closes its connection only.
pub async fn serve<S, B>(listener: TcpListener, handler: S, options: ServeOptions, stop: CancellationToken)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let permits = Arc::new(Semaphore::new(options.max_connections));
    let connections = TaskTracker::new();
    let hard_stop = CancellationToken::new();
    loop {
        let permit = tokio::select! {
            () = stop.cancelled() => break,
            permit = Arc::clone(&permits).acquire_owned() => permit.expect("the semaphore is never closed"),
        };
        let (stream, peer) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener) => accepted,
        };
        let handler = handler.clone();
        let (stop, hard_stop) = (stop.clone(), hard_stop.clone());
        connections.spawn(async move {
            let served = connection::serve_one(stream, peer, handler, options.pace, &stop);
            tokio::select! {
                () = hard_stop.cancelled() => {}
                () = served => {}
            }
            drop(permit);
        });
    }
    drop(listener);
    connections.close();
    if timeout(options.drain_timeout, connections.wait()).await.is_err() {
        tracing::warn!(connections = connections.len(), "the drain timeout is over: closing what is left");
        hard_stop.cancel();
        connections.wait().await;
    }
}

/// The next connection; errors are waited out, they must not end the server.
async fn accept(listener: &TcpListener) -> (TcpStream, std::net::SocketAddr) {
    let mut pause = ACCEPT_PAUSE_MIN;
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if concerns_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                sleep(pause).await;
                pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
            }
        }
    }
}

fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests;
