//! One connection of HTTP/2: hyper's, with bounds on all that a client can make it keep.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::Request;
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::sleep;

use super::connection::{HEAD_MAX_BYTES, Stop, log_end};
use super::pace::{CoarseMoment, PaceLimits};
use super::streams::{Streams, WatchedBody};
use super::{Closing, Handler, manners};

/// The most requests at a time on one connection: what RFC 9113 asks servers to allow at least.
const STREAMS_MAX: u32 = 100;
/// How much of a body a client may send before it is read: what HTTP/1 buffers, for each stream.
const STREAM_WINDOW_BYTES: u32 = 128 << 10;
/// The same for all streams of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// How much of an answer may wait in a stream.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// Streams that a client has reset before we came to them: from here on it does nothing else (CVE-2023-44487), and is sent away.
const RESETS_PENDING_MAX: usize = 20;
/// Streams that we had to reset for the client's faults: from here on it does nothing else (CVE-2025-8671), and is sent away.
const RESETS_OURS_MAX: usize = 100;
/// How often a client is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(20);
/// How long it may take to say so.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves one connection to its end; after the stop that is the end of the requests in flight.
pub(super) async fn serve<S, H>(stream: S, peer: SocketAddr, handler: Arc<H>, limits: PaceLimits, closing: Arc<Closing>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Handler,
{
    let streams = Arc::new(Streams::new(CoarseMoment::now()));
    let service = service_fn(|request: Request<Incoming>| {
        let (handler, open) = (Arc::clone(&handler), streams.begin());
        async move {
            let answer = match manners::fault_of(&request) {
                None => handler.respond(request, peer).await.map(Either::Left),
                Some(problem) => manners::refused(request, problem).map(Either::Right),
            };
            Ok::<_, Infallible>(answer.map(|body| WatchedBody::new(body, open)))
        }
    });
    let mut connection = pin!(settings().serve_connection(TokioIo::new(stream), service));
    let mut stop = pin!(Stop::new(&closing));
    let look_every = limits.head.min(limits.idle).min(limits.stuck_reader) / 4;
    let mut look = pin!(sleep(look_every));
    let mut goes = false;
    poll_fn(|context| {
        loop {
            if connection.as_mut().poll(context).map(log_end).is_ready() {
                return Poll::Ready(());
            }
            if !goes && stop.as_mut().has_come(context) {
                goes = true;
                connection.as_mut().graceful_shutdown();
                continue;
            }
            if look.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            look.set(sleep(look_every));
            let now = CoarseMoment::now();
            if streams.are_stuck(now, &limits) || streams.are_idle_too_long(now, &limits) {
                return Poll::Ready(());
            }
        }
    })
    .await;
}

fn settings() -> http2::Builder<TokioExecutor> {
    let mut settings = http2::Builder::new(TokioExecutor::new());
    settings
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_MAX_BYTES as u32)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_pending_accept_reset_streams(RESETS_PENDING_MAX)
        .max_local_error_reset_streams(RESETS_OURS_MAX)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT);
    settings
}
