//! Names and messages made from fuzzed bytes: always such as a peer could really send.

use arbitrary::{Arbitrary, Result, Unstructured};
use bytes::Bytes;
use placement::{ChangeId, EntryKey, NodeId, PinnedUser, Slot, Tenure, UserId, Weight};
use wire::control::SealedTenure;
use wire::entries::Version;
use wire::handoff::{Handed, HandedContent, HandedEntry, Hello, Reply};

/// The most parts of a made message: enough for every kind of order, few enough to be fast.
const PARTS_MAX: u32 = 8;

pub(crate) fn slot(bytes: &mut Unstructured<'_>) -> Result<Slot> {
    let number: u16 = bytes.int_in_range(0..=4095)?;
    Ok(Slot::try_from(number).expect("below 4096"))
}

pub(crate) fn node(bytes: &mut Unstructured<'_>) -> Result<NodeId> {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let rest: String = <&[u8]>::arbitrary(bytes)?.iter().filter(|byte| allowed(byte)).map(|b| char::from(*b)).collect();
    let name = format!("n{rest}");
    Ok(name[..name.len().min(63)].parse().expect("a letter, then what a node id may have"))
}

pub(crate) fn user(bytes: &mut Unstructured<'_>) -> Result<UserId> {
    let mut id: Vec<u8> = <&[u8]>::arbitrary(bytes)?.iter().copied().filter(u8::is_ascii_graphic).take(255).collect();
    id.push(b'u');
    Ok(UserId::parse(&id).expect("visible ASCII"))
}

pub(crate) fn key(bytes: &mut Unstructured<'_>) -> Result<EntryKey> {
    let mut key: String = <&str>::arbitrary(bytes)?.chars().filter(|c| !c.is_control()).take(255).collect();
    key.push('k');
    Ok(EntryKey::parse(&key).expect("1 to 1021 bytes, no control characters"))
}

pub(crate) fn weight(bytes: &mut Unstructured<'_>) -> Result<Weight> {
    let weight: u32 = bytes.int_in_range(1..=10_000)?;
    Ok(Weight::try_from(weight).expect("in range"))
}

/// Header texts as nodes store them.
pub(crate) fn text(bytes: &mut Unstructured<'_>) -> Result<String> {
    Ok(<&[u8]>::arbitrary(bytes)?.iter().filter(|b| (b' '..=b'~').contains(b)).take(256).map(|b| *b as char).collect())
}

pub(crate) fn handed(bytes: &mut Unstructured<'_>) -> Result<Handed> {
    Ok(match bytes.int_in_range(0..=5)? {
        0 => {
            let (owner, receiver) = (node(bytes)?, node(bytes)?);
            let slots = several(bytes, slot)?;
            let pinned = several(bytes, |bytes| Ok(PinnedUser { slot: slot(bytes)?, user: user(bytes)? }))?;
            Handed::Hello(Hello { change: ChangeId(bytes.arbitrary()?), owner, receiver, slots, pinned })
        }
        1 => Handed::Invalidate(user(bytes)?, key(bytes)?),
        2 => Handed::Beat,
        3 => Handed::End(several(bytes, |bytes| {
            Ok(SealedTenure { slot: slot(bytes)?, tenure: Tenure(bytes.arbitrary()?) })
        })?),
        _ => Handed::Entry(HandedEntry {
            user: user(bytes)?,
            key: key(bytes)?,
            left_ms: bytes.arbitrary()?,
            content: if bytes.arbitrary()? { Some(content(bytes)?) } else { None },
        }),
    })
}

fn content(bytes: &mut Unstructured<'_>) -> Result<HandedContent> {
    Ok(HandedContent {
        version: Version(bytes.arbitrary()?),
        content_type: text(bytes)?,
        cache_control: if bytes.arbitrary()? { Some(text(bytes)?) } else { None },
        value: Bytes::copy_from_slice(bytes.arbitrary()?),
    })
}

pub(crate) fn reply(bytes: &mut Unstructured<'_>) -> Result<Reply> {
    Ok(match bytes.int_in_range(0..=2)? {
        0 => Reply::Credit { frames: bytes.arbitrary()?, bytes: bytes.arbitrary()? },
        1 => Reply::Complete,
        _ => Reply::Refused(bytes.arbitrary()?),
    })
}

/// Up to [`PARTS_MAX`] of something.
pub(crate) fn several<T>(
    bytes: &mut Unstructured<'_>,
    one: impl Fn(&mut Unstructured<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = bytes.int_in_range(0..=PARTS_MAX)?;
    (0..count).map(|_| one(bytes)).collect()
}
