//! Entries: what is stored, what a write asks for and what it answers.

use bytes::Bytes;
use placement::{EntryKey, Slot, Tenure, UserId};
use wire::entries::Version;

/// A committed entry.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// The raw bytes.
    pub value: Bytes,
    /// The `Content-Type` it was stored with (always set; `application/octet-stream` by default).
    pub content_type: String,
    /// The `Cache-Control` it was stored with, if any.
    pub cache_control: Option<String>,
    /// Its version.
    pub version: Version,
}

impl std::fmt::Debug for StoredEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoredEntry(version {}, {} bytes)", self.version, self.value.len())
    }
}

/// A write with the tenure that fences it (protocol W3).
#[derive(Clone, Debug)]
pub struct FencedWrite {
    /// The user's slot.
    pub slot: Slot,
    /// The tenure under which it may commit.
    pub tenure: Tenure,
    /// Whose entry.
    pub user: UserId,
    /// Which entry.
    pub key: EntryKey,
    /// Put or delete.
    pub kind: WriteKind,
    /// What must hold for it to be done.
    pub precondition: Precondition,
}

/// What to write.
#[derive(Clone)]
pub enum WriteKind {
    /// Create or replace.
    Put {
        /// The raw bytes.
        value: Bytes,
        /// Stored and given back.
        content_type: String,
        /// Stored and given back.
        cache_control: Option<String>,
    },
    /// Remove.
    Delete,
}

impl std::fmt::Debug for WriteKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Put { value, .. } => write!(f, "Put({} bytes)", value.len()),
            Self::Delete => f.write_str("Delete"),
        }
    }
}

/// What must hold, checked inside the statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    None,
    /// `If-Match: "v", …`: the entry exists with one of these versions.
    IfMatch(Vec<Version>),
    /// `If-Match: *`: the entry exists.
    IfExists,
    /// `If-None-Match: *`: the entry does not exist.
    IfAbsent,
    /// `If-None-Match: "v", …`: the entry does not exist, or has none of these versions.
    IfNoneMatch(Vec<Version>),
}

/// The database's answer to a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteAnswer {
    /// The slot has another tenure: not executed.
    Fenced,
    /// The precondition does not hold: not executed. The present version, `None` when absent.
    PreconditionFailed(Option<Version>),
    /// A new entry.
    Created(Version),
    /// An old entry has a new version.
    Replaced(Version),
    /// The entry of this version is gone.
    Deleted(Version),
    /// A delete that found nothing.
    Absent,
}

/// One page of a listing.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// Only keys that start with this; empty for all.
    pub prefix: String,
    /// Only keys after this one, by bytes.
    pub after: Option<String>,
    /// At most this many.
    pub limit: u32,
}
