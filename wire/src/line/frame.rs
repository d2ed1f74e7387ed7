//! Frames: `length: u32 | kind: u8 | …`, big-endian; the length is that of what follows it.
//!
//! No checksum: the connection's own is as good as for any other request, and a frame out of step names the wrong entry.

use bytes::{BufMut, BytesMut};
use http::{HeaderName, HeaderValue};

use super::{HEADERS_MAX, LineInvalid, REQUEST_ID_MAX, TooLarge, VALUE_MAX};

pub(super) const LENGTH: usize = size_of::<u32>();

/// The longest frame to a node: the names of an entry, headers, and numbers.
pub const TO_NODE_MAX: usize =
    64 + placement::user_id::USER_ID_MAX_BYTES + placement::entry_key::KEY_MAX_BYTES + REQUEST_ID_MAX + HEADERS_MAX;
/// The longest frame from a node.
pub const FROM_NODE_MAX: usize = 64 + HEADERS_MAX + VALUE_MAX;

pub(super) const READ: u8 = 1;
pub(super) const BEAT: u8 = 2;
pub(super) const ANSWER: u8 = 3;
pub(super) const ELSEWHERE: u8 = 4;
pub(super) const GOODBYE: u8 = 5;

/// How many bytes the first frame in `buffer` takes, its length included; `None`: it is not all there yet.
pub fn first(buffer: &[u8], longest: usize) -> Result<Option<usize>, LineInvalid> {
    let Some(length) = buffer.first_chunk::<LENGTH>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > longest {
        return Err(LineInvalid("longer than a frame may be"));
    }
    Ok((buffer.len() >= LENGTH + length).then_some(LENGTH + length))
}

/// Appends a frame that says one thing and no more.
pub(super) fn write_plain(out: &mut BytesMut, kind: u8) {
    out.put_u32(1);
    out.put_u8(kind);
}

/// Appends a frame with its length; on an error `out` is as it was.
pub(super) fn write(
    out: &mut BytesMut,
    kind: u8,
    body: impl FnOnce(&mut BytesMut) -> Result<(), TooLarge>,
) -> Result<(), TooLarge> {
    let start = out.len();
    out.put_u32(0);
    out.put_u8(kind);
    if let Err(too_large) = body(out) {
        out.truncate(start);
        return Err(too_large);
    }
    let length = u32::try_from(out.len() - start - LENGTH).expect("every part of a frame is bounded");
    out[start..start + LENGTH].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// `length: u16 | bytes`.
pub(super) fn put(out: &mut BytesMut, bytes: &[u8], most: usize) -> Result<(), TooLarge> {
    if bytes.len() > most {
        return Err(TooLarge);
    }
    out.put_u16(u16::try_from(bytes.len()).map_err(|_| TooLarge)?);
    out.put_slice(bytes);
    Ok(())
}

/// `number: u8 | length: u16 | bytes`.
pub(super) fn put_header(out: &mut BytesMut, number: u8, value: &[u8]) -> Result<(), TooLarge> {
    out.put_u8(number);
    put(out, value, HEADERS_MAX)
}

/// Those of `headers` that have a number, at most [`HEADERS_MAX`] bytes in all.
pub(super) fn put_headers<'h>(
    out: &mut BytesMut,
    names: &[HeaderName],
    headers: impl Iterator<Item = (&'h HeaderName, &'h HeaderValue)>,
) -> Result<(), TooLarge> {
    let start = out.len();
    for (name, value) in headers {
        let Some(number) = names.iter().position(|known| known == name) else { continue };
        put_header(out, number as u8, value.as_bytes())?;
        if out.len() - start > HEADERS_MAX {
            return Err(TooLarge);
        }
    }
    Ok(())
}

/// What is left of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest<'a>(pub(super) &'a [u8]);

impl<'a> Rest<'a> {
    /// What follows the length of a whole frame.
    pub(super) fn of(frame: &'a [u8]) -> Result<Self, LineInvalid> {
        frame.get(LENGTH..).map(Self).ok_or(LineInvalid("no length"))
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], LineInvalid> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(LineInvalid("shorter than it says"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], LineInvalid> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(LineInvalid("shorter than it says"))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, LineInvalid> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, LineInvalid> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, LineInvalid> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, LineInvalid> {
        self.array().map(u64::from_be_bytes)
    }

    /// What [`put`] wrote.
    pub(super) fn bytes(&mut self, most: usize) -> Result<&'a [u8], LineInvalid> {
        let length = usize::from(self.u16()?);
        if length > most { Err(LineInvalid("a part that is too long")) } else { self.take(length) }
    }

    pub(super) fn text(&mut self, most: usize) -> Result<&'a str, LineInvalid> {
        std::str::from_utf8(self.bytes(most)?).map_err(|_| LineInvalid("a text that is no UTF-8"))
    }

    /// The next of what [`put_headers`] wrote.
    pub(super) fn header(
        &mut self,
        names: &'static [HeaderName],
    ) -> Result<(&'static HeaderName, &'a [u8]), LineInvalid> {
        let name = names.get(usize::from(self.u8()?)).ok_or(LineInvalid("a header without a name"))?;
        Ok((name, self.bytes(HEADERS_MAX)?))
    }

    /// All of the rest, if it is what [`put_headers`] wrote.
    pub(super) fn headers(self, names: &'static [HeaderName]) -> Result<super::RawHeaders<'a>, LineInvalid> {
        if self.0.len() > HEADERS_MAX {
            return Err(LineInvalid("too many headers"));
        }
        let mut rest = self;
        while !rest.0.is_empty() {
            rest.header(names)?;
        }
        Ok(super::RawHeaders { bytes: self.0, names })
    }

    /// Whether all of it was read.
    pub(super) fn end<T>(self, message: T) -> Result<T, LineInvalid> {
        if self.0.is_empty() { Ok(message) } else { Err(LineInvalid("longer than its message")) }
    }
}
