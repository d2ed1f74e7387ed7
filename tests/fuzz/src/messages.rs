//! Bodies of handoff frames (`wire::handoff`).

use arbitrary::Unstructured;
use bytes::{Bytes, BytesMut};
use wire::handoff::frame::Message;
use wire::handoff::{Handed, Reply};

use crate::names;

/// Reads the bytes as both kinds of messages, and sends messages made from them.
pub fn messages(data: &[u8]) {
    if let Ok(handed) = Handed::read(Bytes::copy_from_slice(data)) {
        let again = body_of(&handed);
        // JSON has many spellings, ours is the shortest; all else has one.
        if matches!(handed, Handed::Hello(_) | Handed::End(_)) {
            assert!(again.len() <= data.len(), "more came out than went in");
        } else {
            assert_eq!(again, data);
        }
        comes_back(&handed);
    }
    if let Ok(reply) = Reply::read(Bytes::copy_from_slice(data)) {
        assert_eq!(body_of(&reply), data);
    }
    let mut bytes = Unstructured::new(data);
    if let Ok(handed) = names::handed(&mut bytes) {
        comes_back(&handed);
        nothing_may_be_missing_or_follow(&handed);
    }
    if let Ok(reply) = names::reply(&mut bytes) {
        comes_back(&reply);
        nothing_may_be_missing_or_follow(&reply);
    }
}

fn body_of(message: &impl Message) -> Bytes {
    let mut body = BytesMut::new();
    message.write(&mut body);
    body.freeze()
}

fn comes_back<M: Message + PartialEq + std::fmt::Debug>(message: &M) {
    assert_eq!(M::read(body_of(message)).as_ref(), Ok(message));
}

/// No body is the beginning of another.
fn nothing_may_be_missing_or_follow<M: Message + std::fmt::Debug>(message: &M) {
    let body = body_of(message);
    assert!(M::read(body.slice(..body.len() - 1)).is_err(), "{message:?} without its last byte");
    assert!(M::read([&body[..], b"\0"].concat().into()).is_err(), "{message:?} and a byte");
}
