//! The bodies of frames. Texts and values: `length: u32 | bytes`.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use placement::{EntryKey, UserId};

use super::frame::{FrameInvalid, Message};
use super::{Handed, HandedContent, HandedEntry, Reply};
use crate::entries::Version;

const HELLO: u8 = 1;
const ENTRY: u8 = 2;
const ABSENT: u8 = 3;
const INVALIDATE: u8 = 4;
const BEAT: u8 = 5;
const END: u8 = 6;
const CREDIT: u8 = 1;
const COMPLETE: u8 = 2;
const REFUSED: u8 = 3;

const NO_CACHE_CONTROL: u8 = 0;
const CACHE_CONTROL: u8 = 1;

impl Message for Handed {
    fn write(&self, body: &mut BytesMut) {
        match self {
            Self::Hello(hello) => put_json(body, HELLO, hello),
            Self::Entry(entry) => put_entry(body, entry),
            Self::Invalidate(user, key) => {
                body.put_u8(INVALIDATE);
                put_name(body, user, key);
            }
            Self::Beat => body.put_u8(BEAT),
            Self::End(slots) => put_json(body, END, slots),
        }
    }

    fn read(body: Bytes) -> Result<Self, FrameInvalid> {
        let mut body = Body(body);
        let message = match body.byte()? {
            HELLO => Self::Hello(body.json()?),
            kind @ (ENTRY | ABSENT) => Self::Entry(entry(&mut body, kind)?),
            INVALIDATE => {
                let (user, key) = body.name()?;
                Self::Invalidate(user, key)
            }
            BEAT => Self::Beat,
            END => Self::End(body.json()?),
            _ => return Err(FrameInvalid::Message("an unknown kind")),
        };
        body.end(message)
    }
}

impl Message for Reply {
    fn write(&self, body: &mut BytesMut) {
        match self {
            Self::Credit { frames, bytes } => {
                body.put_u8(CREDIT);
                body.put_u32(*frames);
                body.put_u32(*bytes);
            }
            Self::Complete => body.put_u8(COMPLETE),
            Self::Refused(reason) => {
                body.put_u8(REFUSED);
                put_bytes(body, reason.as_bytes());
            }
        }
    }

    fn read(body: Bytes) -> Result<Self, FrameInvalid> {
        let mut body = Body(body);
        let message = match body.byte()? {
            CREDIT => Self::Credit { frames: body.number()?, bytes: body.number()? },
            COMPLETE => Self::Complete,
            REFUSED => Self::Refused(body.text()?),
            _ => return Err(FrameInvalid::Message("an unknown kind")),
        };
        body.end(message)
    }
}

fn put_entry(body: &mut BytesMut, entry: &HandedEntry) {
    body.put_u8(if entry.content.is_some() { ENTRY } else { ABSENT });
    put_name(body, &entry.user, &entry.key);
    body.put_u32(entry.left_ms);
    let Some(content) = &entry.content else { return };
    body.put_i64(content.version.0);
    put_bytes(body, content.content_type.as_bytes());
    match &content.cache_control {
        None => body.put_u8(NO_CACHE_CONTROL),
        Some(text) => {
            body.put_u8(CACHE_CONTROL);
            put_bytes(body, text.as_bytes());
        }
    }
    put_bytes(body, &content.value);
}

fn entry(body: &mut Body, kind: u8) -> Result<HandedEntry, FrameInvalid> {
    let (user, key) = body.name()?;
    let left_ms = body.number()?;
    if kind == ABSENT {
        return Ok(HandedEntry { user, key, left_ms, content: None });
    }
    let version = Version(body.long()?);
    let content_type = body.text()?;
    let cache_control = match body.byte()? {
        NO_CACHE_CONTROL => None,
        CACHE_CONTROL => Some(body.text()?),
        _ => return Err(FrameInvalid::Message("a cache control that is neither there nor not")),
    };
    // A copy of its own: a slice would keep the whole read buffer alive for as long as the entry is cached.
    let value = Bytes::copy_from_slice(&body.bytes()?);
    Ok(HandedEntry { user, key, left_ms, content: Some(HandedContent { version, content_type, cache_control, value }) })
}

fn put_name(body: &mut BytesMut, user: &UserId, key: &EntryKey) {
    put_bytes(body, user.as_str().as_bytes());
    put_bytes(body, key.as_str().as_bytes());
}

fn put_bytes(body: &mut BytesMut, bytes: &[u8]) {
    body.put_u32(u32::try_from(bytes.len()).expect("values are far below 4 GiB"));
    body.put_slice(bytes);
}

fn put_json(body: &mut BytesMut, kind: u8, document: &impl serde::Serialize) {
    body.put_u8(kind);
    let document = serde_json::to_vec(document).expect("plain structs with string keys serialise");
    body.put_slice(&document);
}

/// What is left of a body.
struct Body(Bytes);

impl Body {
    fn take(&mut self, length: usize) -> Result<Bytes, FrameInvalid> {
        if self.0.len() < length {
            return Err(FrameInvalid::Message("shorter than it says"));
        }
        Ok(self.0.split_to(length))
    }

    fn byte(&mut self) -> Result<u8, FrameInvalid> {
        Ok(self.take(1)?.get_u8())
    }

    fn number(&mut self) -> Result<u32, FrameInvalid> {
        Ok(self.take(4)?.get_u32())
    }

    fn long(&mut self) -> Result<i64, FrameInvalid> {
        Ok(self.take(8)?.get_i64())
    }

    fn bytes(&mut self) -> Result<Bytes, FrameInvalid> {
        let length = self.number()?;
        self.take(length as usize)
    }

    fn text(&mut self) -> Result<String, FrameInvalid> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| FrameInvalid::Message("a text that is no UTF-8"))
    }

    fn name(&mut self) -> Result<(UserId, EntryKey), FrameInvalid> {
        let user = UserId::parse(&self.bytes()?).map_err(|_| FrameInvalid::Message("no user id"))?;
        let key = EntryKey::parse(&self.text()?).map_err(|_| FrameInvalid::Message("no key"))?;
        Ok((user, key))
    }

    fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, FrameInvalid> {
        let rest = std::mem::take(&mut self.0);
        serde_json::from_slice(&rest).map_err(|_| FrameInvalid::Message("JSON that cannot be read"))
    }

    fn end<T>(self, message: T) -> Result<T, FrameInvalid> {
        if self.0.is_empty() { Ok(message) } else { Err(FrameInvalid::Message("longer than its message")) }
    }
}

#[cfg(test)]
mod tests;
