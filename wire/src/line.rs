//! The line: reads of single entries from a gateway to a node, many at a time on one connection, answered in any order.
//!
//! Reads alone go by it: they may be sent again at any time, so that a line which breaks leaves no outcome unknown. A gateway
//! opens it by `GET` of [`PATH`] with `Upgrade:` [`UPGRADE`]; after the 101 it sends [`ToNode`] frames, the node [`FromNode`]
//! frames. An answer names the question's number and, once more, the entry it is about ([`name_hash`]): it can go to nobody
//! else. How frames lie on the wire: [`frame`].

pub mod frame;
mod from_node;
mod to_node;

use http::{HeaderName, HeaderValue, header};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::headers::{CACHE_STATUS, TRACEPARENT, TRACESTATE, X_CACHE_NODE, X_REQUEST_TIMEOUT_MS, X_RING_EPOCH};

pub use from_node::{EntryAnswer, SharedHeaders, write_answer, write_elsewhere, write_entry};
pub use to_node::write_read;

/// The route of a node at which lines begin.
pub const PATH: &str = "/internal/line";
/// The token of the `Upgrade` header. Nodes of another version of the line refuse it.
pub const UPGRADE: &str = "shardcache-line/2";
/// How many questions of one line may be without an answer. The node can work on them all, so that none waits for another.
pub const OUTSTANDING_MAX: usize = 1024;
/// The largest value that is answered on a line, in bytes: a larger one would hold up those behind it.
pub const VALUE_MAX: usize = 64 << 10;
/// The most bytes of headers in one frame: many times what ours take, and a question with more goes by a connection of its own.
pub const HEADERS_MAX: usize = 4 << 10;
/// The most bytes of a request id.
pub const REQUEST_ID_MAX: usize = 128;

/// What a question carries of the client's headers, by their numbers on the wire.
pub static READ_HEADERS: [HeaderName; 6] =
    [header::IF_MATCH, header::IF_NONE_MATCH, header::ACCEPT, TRACEPARENT, TRACESTATE, X_REQUEST_TIMEOUT_MS];

/// What an answer carries, by their numbers on the wire; the first three are those of an entry ([`EntryAnswer`]). The length
/// follows from the value.
pub static ANSWER_HEADERS: [HeaderName; 8] = [
    header::CONTENT_TYPE,
    header::CACHE_CONTROL,
    header::ETAG,
    CACHE_STATUS,
    X_CACHE_NODE,
    X_RING_EPOCH,
    header::RETRY_AFTER,
    header::ALLOW,
];

/// What a gateway sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToNode<'a> {
    /// A question, with the headers of [`READ_HEADERS`] that the client sent.
    Read(Read<'a>, RawHeaders<'a>),
    /// Nothing to ask; the line lives. The node answers with [`FromNode::Beat`].
    Beat,
}

/// A read of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read<'a> {
    /// Never used twice on one line.
    pub id: u64,
    /// `HEAD`: the answer has no body.
    pub head_only: bool,
    /// As `X-Shardcache-Detached: 1` (protocol G6).
    pub detached: bool,
    /// The user's id, unchecked.
    pub user: &'a str,
    /// The key, percent-decoded, unchecked.
    pub key: &'a str,
    /// The value of `X-Request-ID`.
    pub request_id: &'a [u8],
}

/// What a node sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromNode<'a> {
    /// The answer to a question.
    Answer {
        /// The question's number.
        id: u64,
        /// What the answer is about: [`name_hash`].
        name: u64,
        /// The rest.
        answer: RawAnswer<'a>,
    },
    /// The answer does not fit on a line: ask by a connection of its own.
    Elsewhere {
        /// The question's number.
        id: u64,
        /// What it is about: [`name_hash`].
        name: u64,
    },
    /// The node has read a [`ToNode::Beat`].
    Beat,
    /// The node is about to stop: it answers what is asked already, and what follows until the gateway closes the line, which
    /// it is asked to do soon.
    Goodbye,
}

/// Headers as they lie in a frame: whole, each of a known name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawHeaders<'a> {
    bytes: &'a [u8],
    names: &'static [HeaderName],
}

/// An answer as it lies in a frame; [`RawAnswer::read`] makes a response of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawAnswer<'a>(&'a [u8]);

/// Bytes that are no line's. Nothing after them can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame that cannot be read: {0}")]
pub struct LineInvalid(pub(crate) &'static str);

/// More than a frame may hold. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too large for a line")]
pub struct TooLarge;

/// What an entry is called in answers: both ends make it of the name they have before them.
pub fn name_hash(user: &str, key: &str) -> u64 {
    xxh3_64_with_seed(key.as_bytes(), xxh3_64(user.as_bytes()))
}

impl<'a> RawHeaders<'a> {
    /// Name and value of each; what is no header value ends them with an error.
    pub fn iter(self) -> impl Iterator<Item = Result<(&'static HeaderName, HeaderValue), LineInvalid>> + 'a {
        self.raw().map(|(name, value)| {
            let value = HeaderValue::from_bytes(value).map_err(|_| LineInvalid("no header value"))?;
            Ok((name, value))
        })
    }

    /// Name and value, in bytes.
    fn raw(self) -> impl Iterator<Item = (&'static HeaderName, &'a [u8])> {
        let (mut rest, names) = (frame::Rest(self.bytes), self.names);
        // They were checked when the frame was taken apart, so that there is no error left to meet.
        std::iter::from_fn(move || rest.header(names).ok())
    }
}

#[cfg(test)]
mod tests;
