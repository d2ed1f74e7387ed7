//! What a node sends. An answer: `id: u64 | name: u64 | status: u16 | length: u32 | headers: u16, bytes | value`; the length is
//! that of the value, also where a HEAD leaves it out.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::frame::{self, ANSWER, BEAT, ELSEWHERE, GOODBYE, Rest};
use super::{ANSWER_HEADERS, FromNode, HEADERS_MAX, LineInvalid, RawAnswer, TooLarge, VALUE_MAX};

/// As many headers as an answer has at most, the gateway's own included, so that their map need not grow.
const HEADERS_ROOM: usize = 8;

/// Room for an answer's frame beside headers and value.
const NUMBERS_ROOM: usize = 32;

/// Headers of answers, put together once for many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedHeaders(Box<[u8]>);

/// An entry that is sent whole, from texts that can stand in headers as they are.
#[derive(Clone, Copy, Debug)]
pub struct EntryAnswer<'a> {
    /// `Content-Type`.
    pub content_type: &'a [u8],
    /// `Cache-Control`.
    pub cache_control: &'a [u8],
    /// `ETag`.
    pub etag: &'a [u8],
    /// All other headers.
    pub others: &'a SharedHeaders,
    /// The value.
    pub value: &'a [u8],
}

impl SharedHeaders {
    /// Those of `headers` that an answer can have.
    pub fn of(headers: &HeaderMap) -> Result<Self, TooLarge> {
        let mut bytes = BytesMut::new();
        frame::put_headers(&mut bytes, &ANSWER_HEADERS, headers.iter())?;
        Ok(Self(bytes[..].into()))
    }
}

/// Appends an answer, without the value if only the head is asked for. On an error nothing was appended.
pub fn write_answer(
    out: &mut BytesMut,
    id: u64,
    name: u64,
    answer: &Response<Bytes>,
    head_only: bool,
) -> Result<(), TooLarge> {
    write(out, (id, name), answer.status(), (answer.body(), head_only), |out| {
        frame::put_headers(out, &ANSWER_HEADERS, answer.headers().iter())
    })
}

/// [`write_answer`] of a 200 with an entry.
pub fn write_entry(
    out: &mut BytesMut,
    id: u64,
    name: u64,
    entry: &EntryAnswer<'_>,
    head_only: bool,
) -> Result<(), TooLarge> {
    let EntryAnswer { content_type, cache_control, etag, others, value } = *entry;
    let texts = [content_type, cache_control, etag];
    let lengths: usize = texts.iter().map(|text| text.len()).sum();
    out.reserve(NUMBERS_ROOM + lengths + others.0.len() + if head_only { 0 } else { value.len() });
    write(out, (id, name), StatusCode::OK, (value, head_only), |out| {
        for (number, text) in (0..).zip(texts) {
            frame::put_header(out, number, text)?;
        }
        out.put_slice(&others.0);
        Ok(())
    })
}

fn write(
    out: &mut BytesMut,
    (id, name): (u64, u64),
    status: StatusCode,
    (value, head_only): (&[u8], bool),
    headers: impl FnOnce(&mut BytesMut) -> Result<(), TooLarge>,
) -> Result<(), TooLarge> {
    let length = u32::try_from(value.len()).map_err(|_| TooLarge)?;
    if !head_only && value.len() > VALUE_MAX {
        return Err(TooLarge);
    }
    frame::write(out, ANSWER, |out| {
        out.put_u64(id);
        out.put_u64(name);
        out.put_u16(status.as_u16());
        out.put_u32(length);
        let at = out.len();
        out.put_u16(0);
        headers(out)?;
        let length = out.len() - at - 2;
        if length > HEADERS_MAX {
            return Err(TooLarge);
        }
        let length = u16::try_from(length).map_err(|_| TooLarge)?;
        out[at..at + 2].copy_from_slice(&length.to_be_bytes());
        if !head_only {
            out.put_slice(value);
        }
        Ok(())
    })
}

/// Appends a [`FromNode::Elsewhere`].
pub fn write_elsewhere(out: &mut BytesMut, id: u64, name: u64) {
    let written = frame::write(out, ELSEWHERE, |out| {
        out.put_u64(id);
        out.put_u64(name);
        Ok(())
    });
    debug_assert!(written.is_ok(), "two numbers fit into a frame");
}

impl<'a> FromNode<'a> {
    /// Reads a whole frame, as [`frame::first`] finds it.
    pub fn read(frame: &'a [u8]) -> Result<Self, LineInvalid> {
        let mut rest = Rest::of(frame)?;
        match rest.u8()? {
            ANSWER => Ok(Self::Answer { id: rest.u64()?, name: rest.u64()?, answer: RawAnswer(rest.0) }),
            ELSEWHERE => {
                let message = Self::Elsewhere { id: rest.u64()?, name: rest.u64()? };
                rest.end(message)
            }
            BEAT => rest.end(Self::Beat),
            GOODBYE => rest.end(Self::Goodbye),
            _ => Err(LineInvalid("an unknown kind")),
        }
    }

    /// Appends a [`FromNode::Beat`].
    pub fn write_beat(out: &mut BytesMut) {
        frame::write_plain(out, BEAT);
    }

    /// Appends a [`FromNode::Goodbye`].
    pub fn write_goodbye(out: &mut BytesMut) {
        frame::write_plain(out, GOODBYE);
    }
}

impl RawAnswer<'_> {
    /// The response, with copies of its parts: the buffer they lie in is not kept. The answer to a HEAD has a
    /// `Content-Length` where a GET would have one: also of an empty value, but of no 304.
    pub fn read(self, head_only: bool) -> Result<Response<Bytes>, LineInvalid> {
        // One copy for all parts.
        let all = Bytes::copy_from_slice(self.0);
        let mut rest = Rest(&all);
        let status = StatusCode::from_u16(rest.u16()?).map_err(|_| LineInvalid("no status"))?;
        let length = rest.u32()? as usize;
        let head = Rest(rest.bytes(HEADERS_MAX)?).headers(&ANSWER_HEADERS)?;
        let value = rest.0;
        if value.len() > VALUE_MAX || value.len() != if head_only { 0 } else { length } {
            return Err(LineInvalid("a value of another length than it says"));
        }
        let mut headers = HeaderMap::with_capacity(HEADERS_ROOM);
        for (name, value) in head.raw() {
            let value = HeaderValue::from_maybe_shared(all.slice_ref(value));
            headers.append(name, value.map_err(|_| LineInvalid("no header value"))?);
        }
        if head_only && (length > 0 || status == StatusCode::OK) {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        let mut response = Response::new(all.slice_ref(value));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}
