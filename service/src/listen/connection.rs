//! One connection: which HTTP is spoken on it, with TLS or plain; and hyper's HTTP/1 over a stream that keeps the peer's pace.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_util::sync::WaitForCancellationFuture;

use super::pace::{COARSE_LAG, CoarseMoment, Pace, PaceLimits};
use super::paced::{InProgress, PacedBody, PacedStream};
use super::preface::{self, Begins, Rewound};
use super::{Closing, Handler, http2, manners};
use crate::tls::ServerTls;

/// The most bytes of a request head: many times what any of our routes needs (longer: 431).
pub(super) const HEAD_MAX_BYTES: usize = 32 << 10;
/// The most that is buffered per connection and direction.
const BUFFER_MAX_BYTES: usize = 128 << 10;
/// How long a stop waits for the request of a client that has connected or been answered just now, or that is in the middle of a
/// head: the request may be on its way, and nobody has told the client not to send it.
pub(super) const ASKING_GRACE: Duration = Duration::from_secs(1);

/// Serves one connection to its end; after the stop that is the end of the request in flight, if any.
pub(super) async fn serve_one<H: Handler>(
    mut stream: TcpStream,
    peer: SocketAddr,
    handler: Arc<H>,
    (limits, tls): (PaceLimits, Option<Arc<ServerTls>>),
    closing: Arc<Closing>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY cannot be set");
    }
    // Boxed are all but plain HTTP/1, whose connections need not have room for the others.
    if let Some(tls) = tls {
        return Box::pin(serve_tls(stream, peer, handler, (limits, &tls), closing)).await;
    }
    if !H::SPEAKS_HTTP2 {
        return http1((stream, Vec::new()), peer, handler, limits, closing).await;
    }
    match Box::pin(preface::read(&mut stream, limits, &closing)).await {
        Begins::Not => {}
        Begins::Http1(input) => http1((stream, input), peer, handler, limits, closing).await,
        Begins::Http2(input) => {
            Box::pin(http2::serve(Rewound::new(input, stream), peer, handler, limits, closing)).await;
        }
    }
}

async fn serve_tls<H: Handler>(
    stream: TcpStream,
    peer: SocketAddr,
    handler: Arc<H>,
    (limits, tls): (PaceLimits, &ServerTls),
    closing: Arc<Closing>,
) {
    let stopped = async {
        closing.token.cancelled().await;
        sleep(ASKING_GRACE).await;
    };
    let accepted = tokio::select! {
        biased;
        accepted = timeout(limits.head, tls.accept(stream)) => accepted,
        () = stopped => return,
    };
    match accepted {
        Ok(Ok((stream, true))) => http2::serve(stream, peer, handler, limits, closing).await,
        Ok(Ok((stream, false))) => http1((stream, Vec::new()), peer, handler, limits, closing).await,
        Ok(Err(error)) => tracing::debug!(%error, "no TLS connection"),
        Err(_elapsed) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn http1<S, H>(
    (stream, input): (S, Vec<u8>),
    peer: SocketAddr,
    handler: Arc<H>,
    limits: PaceLimits,
    closing: Arc<Closing>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Handler,
{
    let pace = Arc::new(Pace::new(limits));
    let paced = PacedStream::new(stream, input, Arc::clone(&pace), Arc::clone(&handler));
    let service = service_fn(|request: Request<Incoming>| {
        let progress = InProgress::begin(&pace);
        let handling = match manners::fault_of(&request) {
            None => Ok(handler.respond(request, peer)),
            Some(problem) => Err(manners::refused(request, problem)),
        };
        async move {
            let mut answer = match handling {
                Ok(handling) => handling.await.map(Either::Left),
                Err(refused) => refused.map(Either::Right),
            };
            progress.announce_the_end(&mut answer);
            Ok::<_, Infallible>(answer.map(|body: manners::AnswerBody<H::Body>| PacedBody::new(body, progress)))
        }
    });
    // How many header lines a request may have is left at what hyper has room for without an allocation: 100 (more: 431).
    let mut http = http1::Builder::new();
    http.header_read_timeout(None).max_header_size(HEAD_MAX_BYTES).max_buf_size(BUFFER_MAX_BYTES);
    let mut connection = pin!(http.serve_connection(TokioIo::new(paced), service).with_upgrades());
    let timer = pin!(sleep(Duration::ZERO));
    let mut ending = Ending { stop: pin!(Stop::new(&closing)), pace: &pace, grace: None, told: false };
    let mut watch = Watch { pace: &pace, timer, due: CoarseMoment::now() };
    poll_fn(|context| {
        while connection.as_mut().poll(context).map(log_end).is_pending() {
            if !ending.begins(context) {
                return watch.peer_is_too_slow(context);
            }
            connection.as_mut().graceful_shutdown();
        }
        Poll::Ready(())
    })
    .await;
}

pub(super) fn log_end(ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

pin_project! {
    /// The server's stop as one connection sees it.
    pub(super) struct Stop<'c> {
        closing: &'c Closing,
        #[pin]
        told: WaitForCancellationFuture<'c>,
        will_be_told: bool,
    }
}

impl<'c> Stop<'c> {
    pub(super) fn new(closing: &'c Closing) -> Self {
        Self { closing, told: closing.token.cancelled(), will_be_told: false }
    }

    /// Whether the stop has come. Asking the token takes a lock that all connections share: that is done once, to be woken by
    /// it; from then on the flag tells.
    pub(super) fn has_come(self: Pin<&mut Self>, context: &mut Context<'_>) -> bool {
        let this = self.project();
        if *this.will_be_told {
            return this.closing.has_begun();
        }
        *this.will_be_told = true;
        Pin::new(&mut unconstrained(this.told)).poll(context).is_ready()
    }
}

/// When a connection is told of the stop.
struct Ending<'a, 'c> {
    stop: Pin<&'a mut Stop<'c>>,
    pace: &'a Pace,
    grace: Option<Pin<Box<Sleep>>>,
    told: bool,
}

impl Ending<'_, '_> {
    /// True once: after the stop, as soon as no request is just coming in.
    fn begins(&mut self, context: &mut Context<'_>) -> bool {
        if self.told || !self.stop.as_mut().has_come(context) {
            return false;
        }
        self.pace.end_with_the_next_answer();
        if self.pace.may_be_asked(CoarseMoment::now(), ASKING_GRACE) {
            let grace = self.grace.get_or_insert_with(|| Box::pin(sleep(ASKING_GRACE)));
            if Pin::new(&mut unconstrained(grace.as_mut())).poll(context).is_pending() {
                return false;
            }
        }
        self.told = true;
        true
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
