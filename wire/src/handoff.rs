//! The stream by which an old owner hands the entries of slots to their receiver (protocol C2–C5).
//!
//! One connection per stream: `GET /internal/handoffs/{stream}` with `Upgrade: shardcache-handoff/1`; after the 101 the
//! old owner sends [`Handed`] frames, the receiver [`Reply`] frames. How frames lie on the wire: [`frame`].

pub mod frame;
mod message;

use bytes::Bytes;
use placement::{ChangeId, EntryKey, NodeId, PinnedUser, Slot, UserId};

use crate::control::SealedTenure;
use crate::entries::Version;

/// The token of the `Upgrade` header. Nodes of another version of the stream refuse it.
pub const UPGRADE: &str = "shardcache-handoff/1";

/// What an old owner sends, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handed {
    /// First, and only then: what the stream is about.
    Hello(Hello),
    /// The entry of a name, or that there is none, as it is now; replaces what was sent of the name before.
    Entry(HandedEntry),
    /// A write of the name has begun: what was sent of it is void.
    Invalidate(UserId, EntryKey),
    /// Nothing to send; the stream lives.
    Beat,
    /// Last: the slots take no writes any more, and everything that was committed has been sent.
    End(Vec<SealedTenure>),
}

/// What a stream is about.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Hello {
    /// The ring change.
    pub change: ChangeId,
    /// The old owner.
    pub owner: NodeId,
    /// The receiver, so that a wrong address is noticed.
    pub receiver: NodeId,
    /// The slots that the receiver is to gain.
    pub slots: Vec<Slot>,
    /// The users of those that are single users' own: their entries come under these, all others under their home.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<PinnedUser>,
}

/// An entry, or a known absence, on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedEntry {
    /// The user.
    pub user: UserId,
    /// The key.
    pub key: EntryKey,
    /// How long it may still be served from a cache, in milliseconds.
    pub left_ms: u32,
    /// The entry; `None`: there is none.
    pub content: Option<HandedContent>,
}

/// The entry's own parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedContent {
    /// Its version.
    pub version: Version,
    /// Its media type.
    pub content_type: String,
    /// Its own cache control.
    pub cache_control: Option<String>,
    /// Its bytes: a piece of what was read, to be copied by whoever keeps it.
    pub value: Bytes,
}

/// A [`HandedEntry`] that is sent: its parts where they are.
#[derive(Clone, Copy, Debug)]
pub struct SentEntry<'a> {
    /// The user.
    pub user: &'a [u8],
    /// The key.
    pub key: &'a [u8],
    /// How long it may still be served from a cache, in milliseconds.
    pub left_ms: u32,
    /// The entry; `None`: there is none.
    pub content: Option<SentContent<'a>>,
}

/// A [`HandedContent`] that is sent.
#[derive(Clone, Copy, Debug)]
pub struct SentContent<'a> {
    /// Its version.
    pub version: Version,
    /// Its media type.
    pub content_type: &'a [u8],
    /// Its own cache control.
    pub cache_control: Option<&'a [u8]>,
    /// Its bytes.
    pub value: &'a [u8],
}

/// What a receiver sends back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// So many frames have been taken in since the last such reply, and so many more bytes of frames may be sent.
    Credit {
        /// Frames taken in.
        frames: u32,
        /// Bytes that may be sent in addition to those granted before. A frame may be begun while any credit is left.
        bytes: u32,
    },
    /// The end has been seen and everything before it is in place.
    Complete,
    /// The receiver does not take the stream; why.
    Refused(String),
}
