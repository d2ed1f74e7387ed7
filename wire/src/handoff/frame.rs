//! Frames: `length: u32 | body | checksum: u64`, big-endian. The checksum is XXH3-64 of the body, seeded with the frame's
//! number on its connection and direction, so that a frame changed, lost, doubled or out of order is noticed.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const LENGTH: usize = size_of::<u32>();
const CHECKSUM: usize = size_of::<u64>();

/// What a frame costs beside its body, in bytes.
pub const OVERHEAD: usize = LENGTH + CHECKSUM;

/// Why a stream of frames cannot be read any further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameInvalid {
    /// A frame longer than the reader takes.
    #[error("a frame of {length} bytes, more than the {max} that are taken")]
    TooLong {
        /// Its length.
        length: usize,
        /// The bound.
        max: usize,
    },
    /// Changed on its way, or not the next one.
    #[error("a frame whose checksum does not fit")]
    Checksum,
    /// Whole, but no message.
    #[error("a frame that is no message: {0}")]
    Message(&'static str),
}

/// Something a frame can hold.
pub trait Message: Sized {
    /// Appends the body.
    fn write(&self, body: &mut BytesMut);
    /// Reads the whole body.
    fn read(body: Bytes) -> Result<Self, FrameInvalid>;
}

/// Writes frames of one direction of one connection.
#[derive(Debug, Default)]
pub struct FrameWriter {
    number: u64,
}

impl FrameWriter {
    /// Appends a frame; answers its length on the wire.
    pub fn write(&mut self, message: &impl Message, out: &mut BytesMut) -> usize {
        self.write_body(out, |body| message.write(body))
    }

    /// [`FrameWriter::write`] of the body that `append` appends.
    pub fn write_body(&mut self, out: &mut BytesMut, append: impl FnOnce(&mut BytesMut)) -> usize {
        let start = out.len();
        out.put_u32(0);
        append(out);
        let body = out.len() - start - LENGTH;
        let length = u32::try_from(body).expect("values are far below 4 GiB");
        out[start..start + LENGTH].copy_from_slice(&length.to_be_bytes());
        out.put_u64(xxh3_64_with_seed(&out[start + LENGTH..], self.number));
        self.number += 1;
        out.len() - start
    }
}

/// Reads frames of one direction of one connection. After an error nothing more may be read.
#[derive(Debug)]
pub struct FrameReader {
    number: u64,
    max_body: usize,
}

impl FrameReader {
    /// A reader that refuses bodies over `max_body` bytes.
    pub fn new(max_body: usize) -> Self {
        Self { number: 0, max_body }
    }

    /// Takes the next message and its length on the wire out of `buffer`; `None`: it is not all there yet.
    pub fn read<M: Message>(&mut self, buffer: &mut BytesMut) -> Result<Option<(M, usize)>, FrameInvalid> {
        let Some(length) = buffer.first_chunk::<LENGTH>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > self.max_body {
            return Err(FrameInvalid::TooLong { length, max: self.max_body });
        }
        if buffer.len() < length + OVERHEAD {
            return Ok(None);
        }
        buffer.advance(LENGTH);
        let body = buffer.split_to(length).freeze();
        if buffer.get_u64() != xxh3_64_with_seed(&body, self.number) {
            return Err(FrameInvalid::Checksum);
        }
        self.number += 1;
        M::read(body).map(|message| Some((message, length + OVERHEAD)))
    }
}
