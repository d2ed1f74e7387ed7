//! What waits in a stream's queue to be sent, and what it counts for.

use std::sync::Arc;

use wire::control::SealedTenure;

use crate::entry_name::EntryName;
use crate::l1::Held;

/// What an item costs in the queue beside names and values, in bytes.
const ITEM: usize = 64;

/// What waits to be sent.
#[derive(Clone)]
pub(in crate::handoff) enum Item {
    /// An entry that L1 held at the beginning, with its bytes for the progress.
    Copy(Arc<Held>, u64),
    /// An entry written or loaded since.
    Value(Arc<Held>),
    Invalidate(EntryName),
    End(Vec<SealedTenure>),
}

impl Item {
    pub(super) fn bytes(&self) -> usize {
        ITEM + match self {
            Self::Copy(held, _) | Self::Value(held) => held.size(),
            Self::Invalidate(name) => name.size(),
            Self::End(slots) => size_of_val(slots.as_slice()),
        }
    }

    /// The bytes it counts for in the progress.
    pub(super) fn copied(&self) -> Option<u64> {
        if let Self::Copy(_, bytes) = self { Some(*bytes) } else { None }
    }
}
