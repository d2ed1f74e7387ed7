//! What tells the pace of a connection how it goes: its socket, and the bodies of its answers.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::boundary::Boundary;
use super::connection::HEAD_MAX_BYTES;
use super::lane::{self, Next, PlainGet};
use super::pace::Pace;
use super::{AnswerSoon, Handler};

/// Up to here an answer's head and body are copied together and written by the cheaper of the two system calls.
const JOINED_WRITE_MAX: usize = 1024;

/// How much the lane reads at a time: a few requests.
const INPUT_BYTES: usize = 2048;
/// From how many bytes of answers on the lane writes before it answers more.
const OUTPUT_BYTES: usize = 16 << 10;

/// The most room that a connection keeps for answers while it has none: for one of 4 KiB.
const OUTPUT_KEPT_BYTES: usize = 6 << 10;

/// A request, until its answer was handed over. Ends when dropped, however that comes about.
pub(super) struct InProgress(Arc<Pace>);

impl InProgress {
    pub(super) fn begin(pace: &Arc<Pace>) -> Self {
        pace.request_began();
        Self(Arc::clone(pace))
    }

    /// Says in an answer that it is the last of its connection, if it is.
    pub(super) fn announce_the_end<B>(&self, answer: &mut Response<B>) {
        if self.0.is_ending() && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
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

/// The socket; tells the pace what moves, and has the handler answer what it can before hyper hears of it.
pub(super) struct PacedStream<S, H> {
    stream: S,
    pace: Arc<Pace>,
    handler: Arc<H>,
    lane_is_open: bool,
    boundary: Boundary,
    /// What was read and is not handed to hyper or answered yet.
    input: Vec<u8>,
    /// Bytes of the message that hyper is reading which it has not got yet.
    message_left: u64,
    /// The request whose answer is on its way past hyper; nothing behind it is looked at before it has that.
    soon: Option<(AnswerSoon, InProgress)>,
    /// Answers of the lane, and how much of them was written.
    output: Vec<u8>,
    written: usize,
    /// Whether everything that hyper had to write is written: not from when it gets a message until it has flushed the answer.
    hyper_is_flushed: bool,
    flush_is_blocked: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin, H: Handler> PacedStream<S, H> {
    /// `input` was read off the stream already.
    pub(super) fn new(stream: S, input: Vec<u8>, pace: Arc<Pace>, handler: Arc<H>) -> Self {
        Self {
            stream,
            pace,
            handler,
            lane_is_open: H::ANSWERS_AT_ONCE,
            boundary: Boundary::default(),
            input,
            soon: None,
            message_left: if H::ANSWERS_AT_ONCE { 0 } else { u64::MAX },
            output: Vec::new(),
            written: 0,
            hyper_is_flushed: true,
            flush_is_blocked: false,
        }
    }

    fn note_write(&self, written: &Poll<io::Result<usize>>) {
        if written.is_pending() { self.pace.write_blocked() } else { self.pace.write_moved() }
    }

    /// What the peer does not take is seen here where the stream has a buffer of its own.
    fn poll_flush_socket(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_pending() {
            self.flush_is_blocked = true;
            self.pace.write_blocked();
        } else if std::mem::take(&mut self.flush_is_blocked) {
            self.pace.write_moved();
        }
        flushed
    }

    fn poll_read_socket(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let input = &buffer.filled()[before..];
        if !input.is_empty() {
            // The lane itself sees where messages begin.
            if !H::ANSWERS_AT_ONCE {
                self.pace.note_begun_head(self.boundary.ends_in_a_head(input, self.pace.reading()));
            }
            self.pace.bytes_read();
        }
        read
    }

    /// Reads more input; ready with how much came.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut room = [0; INPUT_BYTES];
        let mut buffer = ReadBuf::new(&mut room);
        ready!(self.poll_read_socket(cx, &mut buffer))?;
        self.input.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Gives hyper what is here of the input, at most the rest of the message.
    fn hand_over(&mut self, buffer: &mut ReadBuf<'_>) {
        let most = usize::try_from(self.message_left).unwrap_or(usize::MAX);
        let length = self.input.len().min(buffer.remaining()).min(most);
        buffer.put_slice(&self.input[..length]);
        if !H::ANSWERS_AT_ONCE {
            let input = &self.input[..length];
            self.pace.note_begun_head(self.boundary.ends_in_a_head(input, self.pace.reading()));
        }
        self.input.drain(..length);
        self.message_left -= length as u64;
        self.pace.bytes_read();
    }

    fn close_lane(&mut self) {
        self.lane_is_open = false;
        self.message_left = u64::MAX;
    }

    /// Writes the answers of the lane.
    fn poll_answers(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.output.len() {
            let written = Pin::new(&mut self.stream).poll_write(cx, &self.output[self.written..]);
            self.note_write(&written);
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                length => self.written += length,
            }
        }
        // A socket with TLS may have taken them and not sent them yet.
        ready!(self.poll_flush_socket(cx))?;
        self.written = 0;
        self.output.clear();
        // An idle connection keeps no more than an answer of the usual size took.
        self.output.shrink_to(OUTPUT_KEPT_BYTES);
        Poll::Ready(Ok(()))
    }

    /// Between two messages of hyper's: answers what can be, and finds the message that hyper gets next.
    fn poll_lane(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_soon(cx))?;
            // The last answer says so, which only hyper's do.
            let (mut answered, may_answer) = (0, self.hyper_is_flushed && !self.pace.is_ending());
            let mut soon = None;
            let next = loop {
                if self.output.len() >= OUTPUT_BYTES || soon.is_some() {
                    break None;
                }
                let (handler, output) = (&self.handler, &mut self.output);
                let mut answer = |get: &PlainGet<'_>| {
                    if handler.answer_at_once(get, output) {
                        return true;
                    }
                    soon = handler.answer_soon(get);
                    soon.is_some()
                };
                match lane::next(&self.input[answered..], |get| may_answer && answer(get)) {
                    Next::Answered(length) => answered += length,
                    next => break Some(next),
                }
            };
            if answered > 0 {
                self.input.drain(..answered);
                self.pace.request_ended();
            }
            self.soon = soon.map(|answer| (answer, InProgress::begin(&self.pace)));
            // In order: what was answered goes before hyper sees the next.
            ready!(self.poll_answers(cx))?;
            match next {
                None | Some(Next::Answered(_)) => {}
                Some(Next::Message(length)) => {
                    (self.message_left, self.hyper_is_flushed) = (length, false);
                    return Poll::Ready(Ok(()));
                }
                Some(Next::Unknown) => {
                    self.close_lane();
                    return Poll::Ready(Ok(()));
                }
                Some(Next::Part) => {
                    if !self.input.is_empty() {
                        self.pace.bytes_read();
                    }
                    // Too long, or cut off: hyper knows what to say.
                    if self.input.len() >= HEAD_MAX_BYTES || ready!(self.poll_input(cx))? == 0 {
                        self.close_lane();
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }

    /// Ready when no answer is on its way any more, which is then among those to be written.
    fn poll_soon(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some((answer, _)) = &mut self.soon else { return Poll::Ready(Ok(())) };
        if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
            self.soon = None;
            if self.output.is_empty() {
                self.output = answer;
            } else {
                self.output.extend_from_slice(&answer);
            }
            return Poll::Ready(Ok(()));
        }
        // As hyper does: a client that has gone needs no answer, nor one to what it has sent meanwhile.
        ready!(self.poll_ahead(cx))?;
        self.soon = None;
        Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
    }

    /// Reads ahead within a request, to see whether the client is still there; ready when it is not.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.input.len() < INPUT_BYTES {
            if ready!(self.poll_input(cx))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, H: Handler> AsyncRead for PacedStream<S, H> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.lane_is_open && this.message_left == 0 {
            if this.soon.is_none() && this.pace.is_in_request() {
                return this.poll_ahead(cx);
            }
            ready!(this.poll_lane(cx))?;
        }
        if !this.input.is_empty() {
            this.hand_over(buffer);
            return Poll::Ready(Ok(()));
        }
        if this.lane_is_open && this.message_left < buffer.remaining() as u64 {
            if ready!(this.poll_input(cx))? > 0 {
                this.hand_over(buffer);
            }
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(this.poll_read_socket(cx, buffer))?;
        this.message_left -= (buffer.filled().len() - before) as u64;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, H: Handler> AsyncWrite for PacedStream<S, H> {
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

    /// hyper flushes when it has nothing left to write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush_socket(cx))?;
        if !self.hyper_is_flushed && self.pace.is_idle() {
            self.hyper_is_flushed = true;
            if self.lane_is_open && !self.input.is_empty() {
                // What came meanwhile was kept back, and nothing else would have it looked at.
                cx.waker().wake_by_ref();
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A stop lets the request in progress have its answer.
        ready!(self.poll_soon(cx))?;
        ready!(self.poll_answers(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
