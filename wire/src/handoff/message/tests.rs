//! Whatever is sent comes out as it was; whatever else arrives is an error and no panic.

use placement::{ChangeId, Slot, Tenure};
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::Hello;
use super::super::frame::{FrameReader, FrameWriter};
use super::*;
use crate::control::SealedTenure;

const MAX: usize = 1 << 20;

fn slot() -> impl Strategy<Value = Slot> {
    (0u16..4096).prop_map(|number| Slot::try_from(number).expect("below 4096"))
}

fn name() -> impl Strategy<Value = (UserId, EntryKey)> {
    let user = "[!-~]{1,256}".prop_map(|id| UserId::parse(id.as_bytes()).expect("visible ASCII"));
    let key = r"[^\p{C}]{1,200}".prop_map(|key| EntryKey::parse(&key).expect("no control characters"));
    (user, key)
}

fn content() -> impl Strategy<Value = HandedContent> {
    (any::<i64>(), "[ -~]{0,80}", proptest::option::of("[ -~]{0,80}"), vec(any::<u8>(), 0..2000)).prop_map(
        |(version, content_type, cache_control, value)| HandedContent {
            version: Version(version),
            content_type,
            cache_control,
            value: value.into(),
        },
    )
}

fn handed() -> impl Strategy<Value = Handed> {
    let entry = (name(), any::<u32>(), proptest::option::of(content()))
        .prop_map(|((user, key), left_ms, content)| Handed::Entry(HandedEntry { user, key, left_ms, content }));
    let hello = (any::<i64>(), vec(slot(), 0..50)).prop_map(|(change, slots)| {
        let node = |name: &str| name.parse().expect("node id");
        Handed::Hello(Hello {
            change: ChangeId(change),
            owner: node("n1"),
            receiver: node("n-2"),
            slots,
            pinned: Vec::new(),
        })
    });
    let end = vec((slot(), any::<i64>()), 0..50).prop_map(|slots| {
        let sealed = |(slot, tenure)| SealedTenure { slot, tenure: Tenure(tenure) };
        Handed::End(slots.into_iter().map(sealed).collect())
    });
    let invalidate = name().prop_map(|(user, key)| Handed::Invalidate(user, key));
    prop_oneof![4 => entry, 2 => invalidate, 1 => hello, 1 => end, 1 => Just(Handed::Beat)]
}

fn reply() -> impl Strategy<Value = Reply> {
    let credit = (any::<u32>(), any::<u32>()).prop_map(|(frames, bytes)| Reply::Credit { frames, bytes });
    prop_oneof![credit, Just(Reply::Complete), ".{0,80}".prop_map(Reply::Refused)]
}

/// All messages in the buffer, until it has no whole frame.
fn read_all<M: Message>(reader: &mut FrameReader, buffer: &mut BytesMut) -> Result<Vec<M>, FrameInvalid> {
    let mut messages = Vec::new();
    while let Some((message, _)) = reader.read(buffer)? {
        messages.push(message);
    }
    Ok(messages)
}

fn written<M: Message>(messages: &[M]) -> BytesMut {
    let (mut writer, mut wire) = (FrameWriter::default(), BytesMut::new());
    let lengths: usize = messages.iter().map(|message| writer.write(message, &mut wire)).sum();
    assert_eq!(lengths, wire.len());
    wire
}

proptest! {
    #[test]
    fn messages_come_out_as_they_went_in_however_the_bytes_arrive(
        messages in vec(handed(), 1..12), replies in vec(reply(), 1..12), piece in 1usize..700,
    ) {
        let (mut reader, mut buffer, mut seen) = (FrameReader::new(MAX), BytesMut::new(), Vec::new());
        for bytes in written(&messages).chunks(piece) {
            buffer.extend_from_slice(bytes);
            seen.extend(read_all::<Handed>(&mut reader, &mut buffer).expect("whole frames"));
        }
        prop_assert_eq!(seen, messages);
        prop_assert!(buffer.is_empty());
        prop_assert_eq!(read_all::<Reply>(&mut FrameReader::new(MAX), &mut written(&replies)).expect("whole"), replies);
    }

    #[test]
    fn a_changed_byte_is_never_taken_for_a_message(
        messages in vec(handed(), 1..6), at in any::<prop::sample::Index>(), change in 1u8..,
    ) {
        let mut wire = written(&messages);
        let at = at.index(wire.len());
        wire[at] ^= change;
        let outcome = read_all::<Handed>(&mut FrameReader::new(MAX), &mut wire);
        // An error, or a length that waits for bytes that never come; what is read before it is as sent.
        if let Ok(seen) = outcome {
            prop_assert!(seen.len() < messages.len());
            prop_assert_eq!(&seen[..], &messages[..seen.len()]);
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_panic(bytes in vec(any::<u8>(), 0..4000)) {
        let _ = Handed::read(Bytes::copy_from_slice(&bytes));
        let _ = Reply::read(Bytes::copy_from_slice(&bytes));
        let _ = read_all::<Handed>(&mut FrameReader::new(MAX), &mut BytesMut::from(&bytes[..]));
    }
}

#[test]
fn a_frame_lost_doubled_or_out_of_order_is_noticed() {
    let (mut writer, mut frames) = (FrameWriter::default(), Vec::new());
    for message in [Handed::Beat, Handed::Beat, Handed::End(Vec::new())] {
        let mut frame = BytesMut::new();
        writer.write(&message, &mut frame);
        frames.push(frame);
    }
    for order in [&[1][..], &[0, 0], &[0, 2], &[1, 0]] {
        let mut wire: BytesMut = order.iter().flat_map(|number| frames[*number].iter().copied()).collect();
        let outcome = read_all::<Handed>(&mut FrameReader::new(MAX), &mut wire);
        assert_eq!(outcome, Err(FrameInvalid::Checksum), "{order:?}");
    }
}

#[test]
fn a_frame_over_the_bound_is_refused_before_it_has_arrived() {
    let mut wire = BytesMut::from(&1001u32.to_be_bytes()[..]);
    let outcome = FrameReader::new(1000).read::<Handed>(&mut wire);
    assert_eq!(outcome, Err(FrameInvalid::TooLong { length: 1001, max: 1000 }));
}
