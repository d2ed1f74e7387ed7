//! What tells the pace of a connection how it goes: its socket, and the bodies of its answers.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::pace::Pace;

/// Up to here an answer's head and body are copied together and written by the cheaper of the two system calls.
const JOINED_WRITE_MAX: usize = 1024;

/// A request, until its answer was handed over. Ends when dropped, however that comes about.
pub(super) struct InProgress(Arc<Pace>);

impl InProgress {
    pub(super) fn begin(pace: &Arc<Pace>) -> Self {
        pace.request_began();
        Self(Arc::clone(pace))
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.request_ended();
    }
}

pin_project! {
    /// An answer's body; the request is in progress until hyper lets go of it.
    pub(super) struct PacedBody<B> {
        #[pin]
        body: B,
        _progress: InProgress,
    }
}

impl<B> PacedBody<B> {
    pub(super) fn new(body: B, progress: InProgress) -> Self {
        Self { body, _progress: progress }
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
pub(super) struct PacedStream {
    stream: TcpStream,
    pace: Arc<Pace>,
}

impl PacedStream {
    pub(super) fn new(stream: TcpStream, pace: Arc<Pace>) -> Self {
        Self { stream, pace }
    }

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
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if length > JOINED_WRITE_MAX {
            let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
            self.note_write(&written);
            return written;
        }
        let mut joined = [0; JOINED_WRITE_MAX];
        let mut end = 0;
        for slice in slices {
            joined[end..end + slice.len()].copy_from_slice(slice);
            end += slice.len();
        }
        self.poll_write(cx, &joined[..end])
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
