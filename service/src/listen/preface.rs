//! Which HTTP a client speaks on a plain connection: one that knows that we speak HTTP/2 begins with its preface.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until, timeout};

use super::Closing;
use super::connection::ASKING_GRACE;
use super::pace::PaceLimits;

/// RFC 9113, section 3.4.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How much is read at first: a request or two.
const FIRST_BYTES: usize = 2048;

/// How a connection begins, with what was read of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Begins {
    Http1(Vec<u8>),
    Http2(Vec<u8>),
    /// The client has gone, or sends nothing.
    Not,
}

/// Reads until it is clear what the client speaks.
pub(super) async fn read<S: AsyncRead + Unpin>(stream: &mut S, limits: PaceLimits, closing: &Closing) -> Begins {
    let mut input = Vec::with_capacity(FIRST_BYTES);
    let reading = async {
        let mut bound = limits.idle;
        loop {
            if !matches!(timeout(bound, stream.read_buf(&mut input)).await, Ok(Ok(1..))) {
                return false;
            }
            if !(input.len() < PREFACE.len() && PREFACE.starts_with(&input)) {
                return true;
            }
            bound = limits.head;
        }
    };
    let stopped = async {
        closing.token.cancelled().await;
        sleep_until(Instant::now() + ASKING_GRACE).await;
    };
    let read = tokio::select! {
        biased;
        read = reading => read,
        () = stopped => false,
    };
    match read {
        false => Begins::Not,
        true if input.starts_with(PREFACE) => Begins::Http2(input),
        true => Begins::Http1(input),
    }
}

/// A stream of which something was read already.
#[derive(Debug)]
pub(super) struct Rewound<S> {
    first: Vec<u8>,
    stream: S,
}

impl<S> Rewound<S> {
    pub(super) fn new(first: Vec<u8>, stream: S) -> Self {
        Self { first, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let length = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..length]);
        self.first.drain(..length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
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
