//! What a gateway sends: `id: u64 | flags: u8 | user | key | request id | headers`.

use bytes::{BufMut, BytesMut};
use http::{HeaderName, HeaderValue};
use placement::entry_key::KEY_MAX_BYTES;
use placement::user_id::USER_ID_MAX_BYTES;

use super::frame::{self, BEAT, READ, Rest};
use super::{LineInvalid, READ_HEADERS, REQUEST_ID_MAX, Read, ToNode, TooLarge};

const HEAD_ONLY: u8 = 1;
const DETACHED: u8 = 2;

/// Appends a question; of `headers` those that it can have. On an error nothing was appended.
pub fn write_read<'h>(
    out: &mut BytesMut,
    read: &Read<'_>,
    headers: impl Iterator<Item = (&'h HeaderName, &'h HeaderValue)>,
) -> Result<(), TooLarge> {
    frame::write(out, READ, |out| {
        out.put_u64(read.id);
        out.put_u8((u8::from(read.head_only) * HEAD_ONLY) | (u8::from(read.detached) * DETACHED));
        frame::put(out, read.user.as_bytes(), USER_ID_MAX_BYTES)?;
        frame::put(out, read.key.as_bytes(), KEY_MAX_BYTES)?;
        frame::put(out, read.request_id, REQUEST_ID_MAX)?;
        frame::put_headers(out, &READ_HEADERS, headers)
    })
}

impl<'a> ToNode<'a> {
    /// Reads a whole frame, as [`frame::first`] finds it.
    pub fn read(frame: &'a [u8]) -> Result<Self, LineInvalid> {
        let mut rest = Rest::of(frame)?;
        match rest.u8()? {
            READ => {
                let id = rest.u64()?;
                let flags = rest.u8()?;
                if flags & !(HEAD_ONLY | DETACHED) != 0 {
                    return Err(LineInvalid("an unknown flag"));
                }
                let read = Read {
                    id,
                    head_only: flags & HEAD_ONLY != 0,
                    detached: flags & DETACHED != 0,
                    user: rest.text(USER_ID_MAX_BYTES)?,
                    key: rest.text(KEY_MAX_BYTES)?,
                    request_id: rest.bytes(REQUEST_ID_MAX)?,
                };
                Ok(Self::Read(read, rest.headers(&READ_HEADERS)?))
            }
            BEAT => rest.end(Self::Beat),
            _ => Err(LineInvalid("an unknown kind")),
        }
    }

    /// Appends a [`ToNode::Beat`].
    pub fn write_beat(out: &mut BytesMut) {
        frame::write_plain(out, BEAT);
    }
}
