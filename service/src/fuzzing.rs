//! What `tests/fuzz` reaches of the readers of outside bytes. No part of the crate's interface.

use crate::listen::{PlainGet, lane};

/// What the lane of a connection says of the beginning of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Not yet a whole head.
    Part,
    /// A message of so many bytes that has been answered.
    Answered(usize),
    /// A message of so many bytes for hyper.
    Message(u64),
    /// Something of unknown length.
    Unknown,
}

/// Looks at the beginning of some input, and lets `answer` try what is plain.
pub fn lane_next(input: &[u8], answer: impl FnOnce(&PlainGet<'_>) -> bool) -> Next {
    match lane::next(input, answer) {
        lane::Next::Part => Next::Part,
        lane::Next::Answered(length) => Next::Answered(length),
        lane::Next::Message(length) => Next::Message(length),
        lane::Next::Unknown => Next::Unknown,
    }
}
