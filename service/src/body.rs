//! Reading a request body within a size and a time, so that a refused client can still read why.
//!
//! Closing a socket while the peer still sends resets it, and the answer is lost: so the rest of a refused body is read and
//! thrown away for a bounded while.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// How much of a refused body is read and thrown away.
const DISCARD_MAX_BYTES: u64 = 64 << 20;
/// For how long a refused body is read.
const DISCARD_MAX_TIME: Duration = Duration::from_secs(5);
/// How long a refused client may send nothing before its connection is closed.
const DISCARD_MAX_PAUSE: Duration = Duration::from_secs(1);
/// Lets the answer go first: reading at once would send "100 Continue" to a client that asked before sending.
const DISCARD_DELAY: Duration = Duration::from_millis(50);
/// The most that is reserved on the word of a `Content-Length` alone.
const RESERVE_MAX_BYTES: u64 = 64 << 10;

/// Why a body could not be read. The answer should carry `Connection: close`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Over the limit, by its `Content-Length` or while reading.
    #[error("the body is too large")]
    TooLarge,
    /// Not there within the deadline.
    #[error("the body did not arrive in time")]
    Timeout,
    /// The connection broke, or the framing is wrong.
    #[error("the body is broken")]
    Broken,
}

/// The whole body, of at most `limit` bytes, within `deadline`.
///
/// A `Content-Length` over the limit is refused before the first read, so that no "100 Continue" is sent. What a refused
/// client still sends is discarded in the background.
pub async fn read_limited(mut body: Incoming, limit: u64, deadline: Duration) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > limit {
        tokio::spawn(discard_after_delay(body));
        return Err(BodyError::TooLarge);
    }
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    match timeout(deadline, collect(&mut body, limit)).await {
        Ok(Err(BodyError::TooLarge)) => {
            tokio::spawn(discard_after_delay(body));
            Err(BodyError::TooLarge)
        }
        Ok(result) => result,
        Err(_elapsed) => {
            tokio::spawn(discard(body));
            Err(BodyError::Timeout)
        }
    }
}

/// Refuses a body unread, before an answer with `Connection: close`.
///
/// What the client still sends is discarded in the background: also that of one that announced to wait for "100 Continue",
/// for not all that say so do.
pub fn refuse(request_headers: &HeaderMap, body: Incoming) {
    if body.is_end_stream() {
        return;
    }
    if request_headers.contains_key(header::EXPECT) {
        tokio::spawn(discard_after_delay(body));
    } else {
        tokio::spawn(discard(body));
    }
}

async fn collect(body: &mut Incoming, limit: u64) -> Result<Bytes, BodyError> {
    let mut single: Option<Bytes> = None;
    let mut joined: Option<BytesMut> = None;
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        length += data.len() as u64;
        if length > limit {
            return Err(BodyError::TooLarge);
        }
        // One frame is the common case and needs no copy.
        match (&mut joined, single.take()) {
            (Some(joined), _) => joined.extend_from_slice(&data),
            (None, None) => single = Some(data),
            (None, Some(first)) => {
                let expected = length + body.size_hint().lower().min(RESERVE_MAX_BYTES);
                let mut start = BytesMut::with_capacity(expected as usize);
                start.extend_from_slice(&first);
                start.extend_from_slice(&data);
                joined = Some(start);
            }
        }
    }
    Ok(joined.map(BytesMut::freeze).or(single).unwrap_or_default())
}

async fn discard_after_delay(body: Incoming) {
    sleep(DISCARD_DELAY).await;
    discard(body).await;
}

async fn discard(mut body: Incoming) {
    let end = Instant::now() + DISCARD_MAX_TIME;
    let mut left = DISCARD_MAX_BYTES;
    loop {
        let pause_end = end.min(Instant::now() + DISCARD_MAX_PAUSE);
        let Ok(Some(Ok(frame))) = timeout_at(pause_end, body.frame()).await else { return };
        let read = frame.data_ref().map_or(0, |data| data.len() as u64);
        match left.checked_sub(read) {
            Some(rest) if rest > 0 => left = rest,
            _ => return,
        }
    }
}
