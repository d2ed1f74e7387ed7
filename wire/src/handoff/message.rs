//! The bodies of frames. Texts and values: `length: u32 | bytes`.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use placement::{EntryKey, UserId};

use super::frame::{FrameInvalid, Message};
use super::{Handed, HandedContent, HandedEntry, Reply, SentContent, SentEntry};
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
            Self::Entry(entry) => SentEntry::from(entry).write(body),
            Self::Invalidate(user, key) => {
                body.put_u8(INVALIDATE);
                put_name(body, user.as_str().as_bytes(), key.as_str().as_bytes());
            }
            Self::Beat => body.put_u8(BEAT),
            Self::End(slots) => put_json(body, END, slots),
        }
    }

    fn read(body: Bytes) -> Result<Self, FrameInvalid> {
        let mut body = Body { whole: body, at: 0 };
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
        let mut body = Body { whole: body, at: 0 };
        let message = match body.byte()? {
            CREDIT => Self::Credit { frames: body.number()?, bytes: body.number()? },
            COMPLETE => Self::Complete,
            REFUSED => Self::Refused(body.text()?.to_owned()),
            _ => return Err(FrameInvalid::Message("an unknown kind")),
        };
        body.end(message)
    }
}

impl SentEntry<'_> {
    /// Appends the body of the message that is a [`Handed::Entry`] where it arrives.
    pub fn write(&self, body: &mut BytesMut) {
        body.put_u8(if self.content.is_some() { ENTRY } else { ABSENT });
        put_name(body, self.user, self.key);
        body.put_u32(self.left_ms);
        let Some(content) = self.content else { return };
        body.put_i64(content.version.0);
        put_bytes(body, content.content_type);
        match content.cache_control {
            None => body.put_u8(NO_CACHE_CONTROL),
            Some(text) => {
                body.put_u8(CACHE_CONTROL);
                put_bytes(body, text);
            }
        }
        put_bytes(body, content.value);
    }
}

impl<'a> From<&'a HandedEntry> for SentEntry<'a> {
    fn from(entry: &'a HandedEntry) -> Self {
        let content = entry.content.as_ref().map(|content| SentContent {
            version: content.version,
            content_type: content.content_type.as_bytes(),
            cache_control: content.cache_control.as_deref().map(str::as_bytes),
            value: &content.value,
        });
        let (user, key) = (entry.user.as_str().as_bytes(), entry.key.as_str().as_bytes());
        Self { user, key, left_ms: entry.left_ms, content }
    }
}

fn entry(body: &mut Body, kind: u8) -> Result<HandedEntry, FrameInvalid> {
    let (user, key) = body.name()?;
    let left_ms = body.number()?;
    if kind == ABSENT {
        return Ok(HandedEntry { user, key, left_ms, content: None });
    }
    let version = Version(body.long()?);
    let content_type = body.text()?.to_owned();
    let cache_control = match body.byte()? {
        NO_CACHE_CONTROL => None,
        CACHE_CONTROL => Some(body.text()?.to_owned()),
        _ => return Err(FrameInvalid::Message("a cache control that is neither there nor not")),
    };
    let value = body.bytes()?;
    let value = body.whole.slice(value);
    Ok(HandedEntry { user, key, left_ms, content: Some(HandedContent { version, content_type, cache_control, value }) })
}

fn put_name(body: &mut BytesMut, user: &[u8], key: &[u8]) {
    put_bytes(body, user);
    put_bytes(body, key);
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

/// A body, read up to `at`.
struct Body {
    whole: Bytes,
    at: usize,
}

impl Body {
    fn take(&mut self, length: usize) -> Result<Range<usize>, FrameInvalid> {
        if self.whole.len() - self.at < length {
            return Err(FrameInvalid::Message("shorter than it says"));
        }
        let start = self.at;
        self.at += length;
        Ok(start..self.at)
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], FrameInvalid> {
        let taken = self.take(LENGTH)?;
        Ok(*self.whole[taken].first_chunk().expect("so many were taken"))
    }

    fn byte(&mut self) -> Result<u8, FrameInvalid> {
        self.array().map(u8::from_be_bytes)
    }

    fn number(&mut self) -> Result<u32, FrameInvalid> {
        self.array().map(u32::from_be_bytes)
    }

    fn long(&mut self) -> Result<i64, FrameInvalid> {
        self.array().map(i64::from_be_bytes)
    }

    fn bytes(&mut self) -> Result<Range<usize>, FrameInvalid> {
        let length = self.number()?;
        self.take(length as usize)
    }

    fn text(&mut self) -> Result<&str, FrameInvalid> {
        let text = self.bytes()?;
        std::str::from_utf8(&self.whole[text]).map_err(|_| FrameInvalid::Message("a text that is no UTF-8"))
    }

    fn name(&mut self) -> Result<(UserId, EntryKey), FrameInvalid> {
        let user = self.bytes()?;
        let user = UserId::parse(&self.whole[user]).map_err(|_| FrameInvalid::Message("no user id"))?;
        let key = EntryKey::parse(self.text()?).map_err(|_| FrameInvalid::Message("no key"))?;
        Ok((user, key))
    }

    fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, FrameInvalid> {
        let rest = self.take(self.whole.len() - self.at)?;
        serde_json::from_slice(&self.whole[rest]).map_err(|_| FrameInvalid::Message("JSON that cannot be read"))
    }

    fn end<T>(self, message: T) -> Result<T, FrameInvalid> {
        if self.at == self.whole.len() { Ok(message) } else { Err(FrameInvalid::Message("longer than its message")) }
    }
}

#[cfg(test)]
mod tests;
