//! Streams of handoff frames (`wire::handoff::frame`).

use arbitrary::{Result, Unstructured};
use bytes::BytesMut;
use wire::handoff::frame::{FrameInvalid, FrameReader, FrameWriter, Message};
use wire::handoff::{Handed, Reply};

use crate::names;

/// Longer bodies are refused.
const BODY_MAX: usize = 8 << 10;

/// Reads the bytes as a stream, and sends, cuts and damages streams of messages made from them.
pub fn frames(data: &[u8]) {
    raw::<Handed>(data);
    raw::<Reply>(data);
    // Bytes that run out end the making of an input, not the check.
    let _ = made(&mut Unstructured::new(data));
}

/// What a reader makes of bytes that come in pieces: the messages, and why no more can be read.
fn read<M: Message>(bytes: &[u8], piece: usize) -> (Vec<M>, Option<FrameInvalid>) {
    let (mut reader, mut buffer, mut seen) = (FrameReader::new(BODY_MAX), BytesMut::new(), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            match reader.read(&mut buffer) {
                Ok(Some((message, _))) => seen.push(message),
                Ok(None) => break,
                Err(invalid) => return (seen, Some(invalid)),
            }
        }
    }
    (seen, None)
}

fn raw<M: Message + PartialEq + std::fmt::Debug>(data: &[u8]) {
    let Some((&piece, stream)) = data.split_first() else { return };
    let whole = read::<M>(stream, usize::MAX);
    assert_eq!(whole, read::<M>(stream, usize::from(piece)), "pieces of {piece} bytes");
    let length = stream.first_chunk().map_or(0, |length| u32::from_be_bytes(*length) as usize);
    let too_long = length > BODY_MAX;
    assert_eq!(matches!(whole.1, Some(FrameInvalid::TooLong { .. })) && whole.0.is_empty(), too_long);
}

fn made(bytes: &mut Unstructured<'_>) -> Result<()> {
    let (piece, change, at) = (bytes.arbitrary::<u8>()?, bytes.int_in_range(1..=255)?, bytes.arbitrary::<u16>()?);
    let replies = names::several(bytes, names::reply)?;
    judge(&replies, usize::from(piece), change, usize::from(at));
    let messages = names::several(bytes, names::handed)?;
    judge(&messages, usize::from(piece), change, usize::from(at));
    Ok(())
}

fn judge<M: Message + PartialEq + std::fmt::Debug>(messages: &[M], piece: usize, change: u8, at: usize) {
    let (mut writer, mut frames) = (FrameWriter::default(), Vec::new());
    for message in messages {
        let mut frame = BytesMut::new();
        assert_eq!(writer.write(message, &mut frame), frame.len());
        frames.push(frame);
    }
    let mut stream = frames.concat();
    if frames.is_empty() || frames.iter().any(|frame| frame.len() > BODY_MAX) {
        return;
    }
    let (seen, error) = read::<M>(&stream, piece);
    assert_eq!((&seen[..], error), (messages, None));

    // Cut: what is whole is read, the rest is waited for.
    let at = at % stream.len();
    let (seen, error) = read::<M>(&stream[..at], piece);
    assert!(error.is_none() && seen[..] == messages[..seen.len()] && seen.len() < messages.len());

    // Lost: the next frame is noticed.
    let lost = at % frames.len();
    let mut without = frames.clone();
    without.remove(lost);
    let (seen, error) = read::<M>(&without.concat(), piece);
    let noticed = if lost + 1 == frames.len() { None } else { Some(FrameInvalid::Checksum) };
    assert_eq!((&seen[..], error), (&messages[..lost], noticed));

    // Damaged: refused, or a length that waits for bytes that never come.
    stream[at] ^= change;
    let (seen, _) = read::<M>(&stream, piece);
    assert!(seen.len() < messages.len() && seen[..] == messages[..seen.len()], "byte {at} ^ {change}");
}
