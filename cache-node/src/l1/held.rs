//! One entry as L1 holds it: name, texts and value in one allocation of their exact size.
//!
//! Copied on the way in, for what comes from a connection is often a piece of a much larger buffer, and would keep all of it.

use std::num::NonZeroU8;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use origin::StoredEntry;
use placement::slot_hold::Reign;
use placement::{EntryKey, Slot, UserId};
use wire::entries::Version;
use wire::handoff::{SentContent, SentEntry};
use wire::headers::DEFAULT_CONTENT_TYPE;

use super::Content;
use crate::clock::Moment;
use crate::entry_name::{AskedName, EntryName};
use crate::limits;

/// An entry, or the knowledge that there is none, under its name.
pub(crate) struct Held {
    /// The reign it was stored under; it is of use only while that is the slot's reign (protocol T7).
    pub(super) tag: Reign,
    pub(super) stored_at: Moment,
    pub(super) expires_at: Moment,
    /// Hits since it was stored: the order in which entries are handed to another node.
    hits: AtomicU32,
    /// User, key, entity tag, content type, cache control, value.
    bytes: Bytes,
    user: u16,
    key: u16,
    texts: Option<Texts>,
}

/// What there is beside the value, if there is an entry.
#[derive(Clone, Copy)]
struct Texts {
    version: Version,
    /// Never 0, which keeps an `Option` of this as small.
    etag: NonZeroU8,
    /// [`NO_TEXT`]: the default.
    content_type: u16,
    /// [`NO_TEXT`]: none was stored.
    cache_control: u16,
    /// Whether both texts can stand in an answer as they are.
    plain: bool,
}

const NO_TEXT: u16 = u16::MAX;

impl Held {
    /// `None`: a text is longer than any that can be written (PUT bounds them), so that the entry is not held.
    pub(super) fn new(
        name: &EntryName,
        tag: Reign,
        content: &Content,
        stored_at: Moment,
        expires_at: Moment,
    ) -> Option<Self> {
        let (user, key) = (name.user.as_str(), name.key.as_str());
        let mut parts = vec![user.as_bytes(), key.as_bytes()];
        let etag = content.as_ref().map(|entry| entry.version.etag());
        let texts = match content.as_deref().zip(etag.as_ref()) {
            None => None,
            Some((entry, etag)) => {
                let cache_control = entry.cache_control.as_deref();
                let content_type = Some(entry.content_type.as_str()).filter(|text| *text != DEFAULT_CONTENT_TYPE);
                let texts = Texts {
                    version: entry.version,
                    etag: NonZeroU8::try_from(u8::try_from(etag.len()).ok()?).ok()?,
                    content_type: content_type.map_or(Some(NO_TEXT), text_length)?,
                    cache_control: cache_control.map_or(Some(NO_TEXT), text_length)?,
                    plain: content_type.is_none_or(is_header) && cache_control.is_none_or(is_header),
                };
                let entity_tag = etag.as_bytes();
                let content_type = content_type.unwrap_or_default().as_bytes();
                let cache_control = cache_control.unwrap_or_default().as_bytes();
                parts.extend([entity_tag, content_type, cache_control, &entry.value]);
                Some(texts)
            }
        };
        let (user, key) = (text_length(user)?, text_length(key)?);
        let bytes = Bytes::from(parts.concat());
        Some(Self { tag, stored_at, expires_at, hits: AtomicU32::new(0), bytes, user, key, texts })
    }

    /// Whether it is of that name, and not over.
    pub(super) fn is_good(&self, name: &AskedName<'_>, now: Moment) -> bool {
        let user = name.user.as_bytes();
        now < self.expires_at
            && usize::from(self.user) == user.len()
            && usize::from(self.key) == name.key.len()
            && self.bytes.starts_with(user)
            && self.bytes[user.len()..].starts_with(name.key.as_bytes())
    }

    pub(super) fn count_hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn hits(&self) -> u32 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Bytes of name, texts and value.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of key, user and value.
    pub(crate) fn payload(&self) -> usize {
        usize::from(self.user) + usize::from(self.key) + self.value_range().len()
    }

    pub(crate) fn user(&self) -> &str {
        self.text(0..usize::from(self.user))
    }

    /// Under this slot.
    pub(crate) fn name(&self, slot: Slot) -> EntryName {
        let (user, key) = (usize::from(self.user), usize::from(self.key));
        let user_id = UserId::parse(&self.bytes[..user]).expect("it was a user id when it was put in");
        let key = EntryKey::parse(self.text(user..user + key)).expect("it was a key when it was put in");
        EntryName::under(slot, user_id, key)
    }

    pub(crate) fn content(&self) -> Content {
        self.texts.map(|texts| {
            let cache_control = self.cache_control_range(texts);
            Arc::new(StoredEntry {
                value: self.bytes.slice(self.value_range()),
                content_type: self
                    .content_type_range(texts)
                    .map_or(DEFAULT_CONTENT_TYPE, |range| self.text(range))
                    .to_owned(),
                cache_control: cache_control.map(|range| self.text(range).to_owned()),
                version: texts.version,
            })
        })
    }

    /// As it goes to another node; `None`: its time is over.
    pub(crate) fn sent(&self, now: Moment) -> Option<SentEntry<'_>> {
        let left_ms = u32::try_from(self.expires_at.since(now).as_millis()).unwrap_or(u32::MAX);
        let (user, key) = (usize::from(self.user), usize::from(self.key));
        let content = self.texts.map(|texts| SentContent {
            version: texts.version,
            content_type: self.content_type(),
            cache_control: self.cache_control(),
            value: self.value_bytes(),
        });
        let (user, key) = (&self.bytes[..user], &self.bytes[user..user + key]);
        (left_ms > 0).then_some(SentEntry { user, key, left_ms, content })
    }

    /// Whether there is an entry of the name that can be sent as it is, and not too large to be copied.
    pub(crate) fn is_plain(&self) -> bool {
        self.texts.is_some_and(|texts| texts.plain) && self.size() <= limits::HIT_COPIED_MAX
    }

    pub(crate) fn value_bytes(&self) -> &[u8] {
        &self.bytes[self.value_range()]
    }

    /// The entity tag; nothing if there is no entry.
    pub(crate) fn etag(&self) -> &[u8] {
        self.texts.map_or(&[], |texts| &self.bytes[self.etag_range(texts)])
    }

    /// The content type; the default one also if there is no entry.
    pub(crate) fn content_type(&self) -> &[u8] {
        let stored = self.texts.and_then(|texts| self.content_type_range(texts));
        stored.map_or(DEFAULT_CONTENT_TYPE.as_bytes(), |range| &self.bytes[range])
    }

    /// The cache control that was stored.
    pub(crate) fn cache_control(&self) -> Option<&[u8]> {
        Some(&self.bytes[self.cache_control_range(self.texts?)?])
    }

    fn text(&self, range: Range<usize>) -> &str {
        std::str::from_utf8(&self.bytes[range]).expect("it was a text when it was put in")
    }

    fn etag_range(&self, texts: Texts) -> Range<usize> {
        let start = usize::from(self.user) + usize::from(self.key);
        start..start + usize::from(texts.etag.get())
    }

    fn content_type_range(&self, texts: Texts) -> Option<Range<usize>> {
        range_after(self.etag_range(texts).end, texts.content_type)
    }

    fn cache_control_range(&self, texts: Texts) -> Option<Range<usize>> {
        let before = self.etag_range(texts).end;
        range_after(self.content_type_range(texts).map_or(before, |range| range.end), texts.cache_control)
    }

    fn value_range(&self) -> Range<usize> {
        let start = self.texts.map_or(self.bytes.len(), |texts| {
            let lengths = [texts.content_type, texts.cache_control].map(|text| if text == NO_TEXT { 0 } else { text });
            self.etag_range(texts).end + lengths.map(usize::from).iter().sum::<usize>()
        });
        start..self.bytes.len()
    }
}

/// Whether a text can be the value of a header.
pub(crate) fn is_header(text: &str) -> bool {
    text.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

fn range_after(start: usize, length: u16) -> Option<Range<usize>> {
    (length != NO_TEXT).then(|| start..start + usize::from(length))
}

fn text_length(text: &str) -> Option<u16> {
    u16::try_from(text.len()).ok().filter(|length| *length != NO_TEXT)
}
