//! One connection: hyper's HTTP/1 over a stream that keeps the peer's pace.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::WaitForCancellationFuture;

use super::pace::{COARSE_LAG, CoarseMoment, Pace, PaceLimits};
use super::paced::{InProgress, PacedBody, PacedStream};
use super::{Closing, Handler};

/// The most bytes of a request head: many times what any of our routes needs (longer: 431).
pub(super) const HEAD_MAX_BYTES: usize = 32 << 10;
/// The most that is buffered per connection and direction.
const BUFFER_MAX_BYTES: usize = 128 << 10;

/// Serves one connection to its end; after the stop that is the end of the request in flight, if any.
pub(super) async fn serve_one<H: Handler>(
    stream: TcpStream,
    peer: SocketAddr,
    handler: Arc<H>,
    limits: PaceLimits,
    closing: Arc<Closing>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY cannot be set");
    }
    let pace = Arc::new(Pace::new(limits));
    let paced = PacedStream::new(stream, Arc::clone(&pace), Arc::clone(&handler));
    let service = service_fn(|request: Request<Incoming>| {
        let progress = InProgress::begin(&pace);
        let handling = handler.respond(request, peer);
        async move { Ok::<_, Infallible>(handling.await.map(|body| PacedBody::new(body, progress))) }
    });
    // How many header lines a request may have is left at what hyper has room for without an allocation: 100 (more: 431).
    let mut http = http1::Builder::new();
    http.header_read_timeout(None).max_header_size(HEAD_MAX_BYTES).max_buf_size(BUFFER_MAX_BYTES);
    let mut connection = pin!(http.serve_connection(TokioIo::new(paced), service).with_upgrades());
    let told = pin!(closing.token.cancelled());
    let timer = pin!(sleep(Duration::ZERO));
    let mut stop = Stop { closing: &closing, told, will_be_told: false, seen: false };
    let mut watch = Watch { pace: &pace, timer, due: CoarseMoment::now() };
    poll_fn(|context| {
        while connection.as_mut().poll(context).map(log_end).is_pending() {
            if !stop.begins(context) {
                return watch.peer_is_too_slow(context);
            }
            connection.as_mut().graceful_shutdown();
        }
        Poll::Ready(())
    })
    .await;
}

fn log_end(ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// The server's stop as one connection sees it.
struct Stop<'c, 't> {
    closing: &'c Closing,
    told: Pin<&'t mut WaitForCancellationFuture<'c>>,
    will_be_told: bool,
    seen: bool,
}

impl Stop<'_, '_> {
    /// Whether the stop has come, once. Asking the token takes a lock that all connections share: that is done once, to be
    /// woken by it; from then on the flag tells.
    fn begins(&mut self, context: &mut Context<'_>) -> bool {
        if self.seen {
            return false;
        }
        self.seen = if self.will_be_told {
            self.closing.has_begun()
        } else {
            self.will_be_told = true;
            Pin::new(&mut unconstrained(self.told.as_mut())).poll(context).is_ready()
        };
        self.seen
    }
}

/// Looks at the pace again and again, with one timer.
struct Watch<'a> {
    pace: &'a Pace,
    timer: Pin<&'a mut Sleep>,
    due: CoarseMoment,
}

impl Watch<'_> {
    /// Called whenever the connection waits; ready when the peer has been too slow.
    fn peer_is_too_slow(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let now = CoarseMoment::now();
        self.pace.waits_from(now);
        // The timer wakes the task when it is over: until then it need not be asked.
        if now.plus(COARSE_LAG) < self.due {
            return Poll::Pending;
        }
        let Some(left) = self.pace.time_left(now) else { return Poll::Ready(()) };
        self.due = now.plus(left);
        self.timer.as_mut().reset(Instant::now() + left);
        // Unconstrained: a budget that is used up must not keep it from learning whom to wake.
        if Pin::new(&mut unconstrained(self.timer.as_mut())).poll(context).is_ready() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}
