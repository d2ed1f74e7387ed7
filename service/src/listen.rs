//! Serving HTTP on a listener, with TLS or plain: bounded connections, bounded waits, and a stop that finishes what is in flight.
//!
//! Not `axum::serve`: that one has no timers. What a request may take is up to the handler; how long a peer may be idle,
//! dribble a head or refuse to read is decided here.

mod boundary;
mod connection;
mod http2;
mod inherited;
pub(crate) mod lane;
mod manners;
mod pace;
mod paced;
mod preface;
mod streams;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::tls::ServerTls;

pub use lane::PlainGet;
pub use pace::PaceLimits;

/// Connections that wait to be accepted: as many as clients may open at the same moment. The usual 128 overflows when a
/// thousand connect at once, and a client that is turned away tries again only after a second.
const BACKLOG: u32 = 4096;
/// The first pause after an accept error such as "too many open files"; doubled up to [`ACCEPT_PAUSE_MAX`].
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(5);
/// The longest pause between two tries to accept.
const ACCEPT_PAUSE_MAX: Duration = Duration::from_millis(500);

/// An answer on its way: the whole of it, head and body. Dropped when its client goes away.
pub type AnswerSoon = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;

/// What answers the requests of a listener. A function of request and peer is one.
pub trait Handler: Send + Sync + 'static {
    /// The body of an answer.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static;

    /// Whether HTTP/2 is spoken too: by ALPN under TLS, with prior knowledge on a plain listener.
    const SPEAKS_HTTP2: bool = false;

    /// Whether [`Handler::answer_at_once`] and [`Handler::answer_soon`] are worth asking.
    const ANSWERS_AT_ONCE: bool = false;

    /// Appends the whole answer to a request, head and body, if it is at hand; else it is left to [`Handler::answer_soon`].
    fn answer_at_once(&self, _get: &PlainGet<'_>, _answer: &mut Vec<u8>) -> bool {
        false
    }

    /// Begins to answer a request; `None`: it is left to [`Handler::respond`].
    fn answer_soon(&self, _get: &PlainGet<'_>) -> Option<AnswerSoon> {
        None
    }

    /// Answers one request of the client at `peer`. A panic closes the connection only.
    fn respond(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

impl<F, A, B> Handler for F
where
    F: Fn(Request<Incoming>, SocketAddr) -> A + Send + Sync + 'static,
    A: Future<Output = Response<B>> + Send,
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    type Body = B;

    fn respond(&self, request: Request<Incoming>, peer: SocketAddr) -> impl Future<Output = Response<B>> + Send {
        self(request, peer)
    }
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// How long requests in flight may go on after the stop before their connections are closed hard.
    pub drain_timeout: Duration,
    /// The most connections at a time; further ones wait in the listener's backlog.
    pub max_connections: usize,
    /// How slow a peer may be.
    pub pace: PaceLimits,
    /// The certificate, if TLS is spoken; then nothing else is.
    pub tls: Option<Arc<ServerTls>>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self { drain_timeout: Duration::from_secs(10), max_connections: 10_000, pace: PaceLimits::default(), tls: None }
    }
}

/// Binds a listener, or takes the one of that port that this process was started with (`LISTEN_FDS`, as systemd and its kind
/// hand sockets over: connections wait in it while one program ends and the next begins). The error says what to do about it.
pub async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    if let Some(listener) = inherited::take(address.port())? {
        tracing::info!(%address, "listening on the socket that was handed over");
        return Ok(listener);
    }
    listen(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            anyhow::anyhow!("{address} is in use by another program: stop it, or choose another address with --listen")
        }
        _ => anyhow::anyhow!("cannot listen at {address}: {error}"),
    })
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Else a restart would have to wait for the connections of the last process.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The stop, told to all connections.
#[derive(Default)]
struct Closing {
    begun: AtomicBool,
    token: CancellationToken,
}

impl Closing {
    fn begin(&self) {
        // Before anybody is woken by the token: whoever is, looks here.
        self.begun.store(true, Ordering::Release);
        self.token.cancel();
    }

    fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }
}

/// Serves until `stop`, then stops accepting, closes idle connections, lets requests in flight finish for
/// [`ServeOptions::drain_timeout`] and closes the rest. Returns when no connection is left.
pub async fn serve<H: Handler>(listener: TcpListener, handler: H, options: ServeOptions, stop: CancellationToken) {
    let handler = Arc::new(handler);
    let places = Arc::new(Semaphore::new(options.max_connections));
    let closing = Arc::new(Closing::default());
    let mut connections = JoinSet::new();
    let mut place = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_ended) = connections.join_next() => {}
            free = Arc::clone(&places).acquire_owned(), if place.is_none() => place = free.ok(),
            (stream, peer) = accept(&listener), if place.is_some() => {
                let (handler, closing, place) = (Arc::clone(&handler), Arc::clone(&closing), place.take());
                let (pace, tls) = (options.pace, options.tls.clone());
                connections.spawn(async move {
                    connection::serve_one(stream, peer, handler, (pace, tls), closing).await;
                    drop(place);
                });
            }
        }
    }
    drop(listener);
    closing.begin();
    if timeout(options.drain_timeout, all_ended(&mut connections)).await.is_err() {
        tracing::warn!(connections = connections.len(), "the drain timeout is over: closing what is left");
        connections.shutdown().await;
    }
}

async fn all_ended(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
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
