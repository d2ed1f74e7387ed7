//! The requests of one HTTP/2 connection, and how long their client has not taken what was sent: by the stream, for a client that
//! takes nothing of one answer may well take others.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::pace::{CoarseMoment, PaceLimits};

/// How much of an answer is handed to the connection at a time, which keeps it until the client takes it: a frame.
const PIECE_BYTES: usize = 16 << 10;

/// All of one connection.
#[derive(Debug)]
pub(super) struct Streams(Mutex<State>);

#[derive(Debug)]
struct State {
    open: HashMap<u64, Turn>,
    begun: u64,
    /// Since when none is open.
    idle_since: CoarseMoment,
}

/// Whose turn it is on one stream.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// Pieces that the client has not taken.
    sent: u32,
    /// Since when it is the client's turn; `None`: it is ours.
    clients_since: Option<CoarseMoment>,
}

/// One request, until the last piece of its answer was taken.
#[derive(Debug)]
pub(super) struct OpenStream {
    id: u64,
    streams: Arc<Streams>,
}

impl Streams {
    pub(super) fn new(now: CoarseMoment) -> Self {
        Self(Mutex::new(State { open: HashMap::new(), begun: 0, idle_since: now }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request has come.
    pub(super) fn begin(self: &Arc<Self>) -> Arc<OpenStream> {
        let mut state = self.state();
        state.begun += 1;
        let id = state.begun;
        state.open.insert(id, Turn::default());
        Arc::new(OpenStream { id, streams: Arc::clone(self) })
    }

    /// Whether no request has been open for long; the first must come as soon as a head that has begun.
    pub(super) fn are_idle_too_long(&self, now: CoarseMoment, limits: &PaceLimits) -> bool {
        let state = self.state();
        let limit = if state.begun == 0 { limits.head } else { limits.idle };
        state.open.is_empty() && state.idle_since.plus(limit) <= now
    }

    /// Whether the client takes too long to take what it is sent.
    pub(super) fn are_stuck(&self, now: CoarseMoment, limits: &PaceLimits) -> bool {
        let late = |turn: &Turn| turn.clients_since.is_some_and(|since| since.plus(limits.stuck_reader) <= now);
        self.state().open.values().any(late)
    }
}

impl OpenStream {
    fn change(&self, change: impl FnOnce(&mut Turn)) {
        self.streams.state().open.entry(self.id).and_modify(change);
    }

    fn is_clients_turn(&self) {
        self.change(|turn| turn.clients_since = Some(CoarseMoment::now()));
    }

    fn is_our_turn(&self) {
        self.change(|turn| {
            if turn.sent == 0 {
                turn.clients_since = None;
            }
        });
    }

    fn sends(&self) {
        let now = CoarseMoment::now();
        self.change(|turn| *turn = Turn { sent: turn.sent + 1, clients_since: Some(now) });
    }

    fn was_taken(&self) {
        let now = CoarseMoment::now();
        self.change(|turn| *turn = Turn { sent: turn.sent.saturating_sub(1), clients_since: Some(now) });
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut state = self.streams.state();
        state.open.remove(&self.id);
        if state.open.is_empty() {
            state.idle_since = CoarseMoment::now();
        }
    }
}

/// A piece of an answer; gone once the client has taken it.
struct Piece {
    bytes: Bytes,
    stream: Arc<OpenStream>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.stream.was_taken();
    }
}

pin_project! {
    /// An answer's body in pieces whose way is watched.
    pub(super) struct WatchedBody<B> {
        #[pin]
        body: B,
        rest: Bytes,
        stream: Arc<OpenStream>,
    }
}

impl<B> WatchedBody<B> {
    pub(super) fn new(body: B, stream: Arc<OpenStream>) -> Self {
        stream.is_clients_turn();
        Self { body, rest: Bytes::new(), stream }
    }
}

impl<B: Body<Data = Bytes>> Body for WatchedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        if this.rest.is_empty() {
            // Asked only when the client has room.
            this.stream.is_our_turn();
            match ready!(this.body.poll_frame(cx)).map(|frame| frame.map(Frame::into_data)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Ok(Ok(data))) => *this.rest = data,
            }
        }
        let bytes = this.rest.split_to(this.rest.len().min(PIECE_BYTES));
        this.stream.sends();
        let piece = Bytes::from_owner(Piece { bytes, stream: Arc::clone(this.stream) });
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::{BodyExt, Full};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn later(now: CoarseMoment, seconds: u64) -> CoarseMoment {
        now.plus(Duration::from_secs(seconds))
    }

    fn limits() -> PaceLimits {
        PaceLimits { head: LIMIT, idle: 2 * LIMIT, stuck_reader: LIMIT }
    }

    #[tokio::test]
    async fn what_is_not_taken_makes_the_client_stuck_and_what_is_taken_does_not() {
        let now = CoarseMoment::now();
        let streams = Arc::new(Streams::new(now));
        assert!(streams.are_idle_too_long(later(now, 31), &limits()), "no request yet");
        let stream = streams.begin();
        assert!(!streams.are_stuck(later(now, 1000), &limits()), "the handler may take its time");
        let mut body = WatchedBody::new(Full::new(Bytes::from(vec![b'x'; PIECE_BYTES + 1])), stream);
        assert!(streams.are_stuck(later(now, 31), &limits()), "a client without any room");
        let first = body.frame().await.expect("a frame").expect("no error").into_data().expect("data");
        let second = body.frame().await.expect("a frame").expect("no error").into_data().expect("data");
        assert_eq!((first.len(), second.len()), (PIECE_BYTES, 1));
        drop((first, body));
        assert!(streams.are_stuck(later(now, 31), &limits()), "the second is still here");
        assert!(!streams.are_idle_too_long(later(now, 1000), &limits()));
        drop(second);
        assert!(!streams.are_stuck(later(now, 1000), &limits()));
        assert!(!streams.are_idle_too_long(later(now, 31), &limits()));
        assert!(streams.are_idle_too_long(later(now, 1000), &limits()));
    }
}
