//! One connection: hyper's HTTP/1 over a stream that keeps the peer's pace.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::pace::{Pace, PaceLimits};

/// The most bytes of a request head: many times what any of our routes needs (longer: 431).
const HEAD_MAX_BYTES: usize = 32 << 10;
/// The most header lines of a request (more: 431).
const HEADERS_MAX: usize = 100;
/// The most that is buffered per connection and direction.
const BUFFER_MAX_BYTES: usize = 128 << 10;

/// The address of the client, as an extension of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress(pub SocketAddr);

/// Serves one connection to its end; after `stop` that is the end of the request in flight, if any.
pub(super) async fn serve_one<S, B>(
    stream: TcpStream,
    peer: SocketAddr,
    handler: S,
    limits: PaceLimits,
    stop: &CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY cannot be set");
    }
    let pace = Arc::new(Pace::new(limits));
    let paced = PacedStream { stream, pace: Arc::clone(&pace) };
    let service = service_fn(|mut request: Request<Incoming>| {
        pace.request_began();
        let progress = InProgress(Arc::clone(&pace));
        request.extensions_mut().insert(PeerAddress(peer));
        let handling = handler.call(request);
        async move {
            let Ok(response) = handling.await;
            Ok::<_, Infallible>(response.map(|body| PacedBody { body, _progress: progress }))
        }
    });
    let mut http = http1::Builder::new();
    http.header_read_timeout(None)
        .max_headers(HEADERS_MAX)
        .max_header_size(HEAD_MAX_BYTES)
        .max_buf_size(BUFFER_MAX_BYTES);
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(paced), service).with_upgrades());
    let mut look_again = std::pin::pin!(sleep(pace.time_left().unwrap_or_default()));
    let mut stopping = false;
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended");
                }
                return;
            }
            () = look_again.as_mut() => match pace.time_left() {
                Some(left) => look_again.as_mut().reset(Instant::now() + left),
                None => return,
            },
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Ends the request when dropped, however that comes about.
struct InProgress(Arc<Pace>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.request_ended();
    }
}

pin_project! {
    /// An answer's body; the request is in progress until hyper lets go of it.
    struct PacedBody<B> {
        #[pin]
        body: B,
        _progress: InProgress,
    }
}

impl<B: Body> Body for PacedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The socket; tells the pace what moves.
struct PacedStream {
    stream: TcpStream,
    pace: Arc<Pace>,
}

impl PacedStream {
    fn note_write(&self, written: &Poll<io::Result<usize>>) {
        if written.is_pending() { self.pace.write_blocked() } else { self.pace.write_moved() }
    }
}

impl AsyncRead for PacedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.pace.bytes_read();
        }
        read
    }
}

impl AsyncWrite for PacedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note_write(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.note_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
