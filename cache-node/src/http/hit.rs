//! A plain read of an entry that L1 holds: answered at once, from the request's bytes into the answer's, be it HTTP or a line.
//!
//! What L1 does not hold is `fetch`'s. Whatever is out of the ordinary goes the way of `reads`, which gives the same answer.

use std::borrow::Cow;

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use httparse::Header;
use origin::StoredEntry;
use service::listen::PlainGet;
use service::request_metrics::Route;
use service::{http_date, request_id};
use wire::entries::ENTRIES_PREFIX;
use wire::headers::{
    CACHE_STATUS, DEFAULT_CACHE_CONTROL, X_CACHE_NODE, X_REQUEST_ID, X_REQUEST_TIMEOUT_MS, X_RING_EPOCH,
    X_SHARDCACHE_DETACHED, X_USER_ID,
};
use wire::line::{EntryAnswer, SharedHeaders, write_entry};

use super::answer::L1_HIT;
use crate::clock::Moment;
use crate::entry_name::AskedName;
use crate::l1::{Held, is_header};
use crate::limits;
use crate::metrics::{Tier, TierLabels};
use crate::node::Node;

/// Appends the answer; `None`: there is none at once, and nothing was appended.
pub(super) fn answer(node: &Node, get: &PlainGet<'_>, answer: &mut Vec<u8>) -> Option<()> {
    let (name, request_id) = plain(node, get)?;
    let (held, began) = node.read_at_once(&name)?;
    let seen = node.status.seen();
    let lines = seen.hit_lines.get_or_init(|| lines(node, L1_HIT, seen.epoch.0));
    append(&Found::held(&held), lines, request_id, answer);
    count(node, Route::get, began);
    node.accounting.hit(name.user, held.value_bytes().len(), began);
    Some(())
}

/// Name and request id of a request that asks for nothing but the entry, and may.
pub(super) fn plain<'a>(node: &Node, get: &PlainGet<'a>) -> Option<(AskedName<'a>, Option<&'a [u8]>)> {
    let encoded_key = get.target.strip_prefix(ENTRIES_PREFIX)?;
    let asked = Asked::of(get.headers)?;
    if let Some(token) = &node.config.cluster_token
        && !asked.authorization.is_some_and(|sent| token.is_in(sent))
    {
        return None;
    }
    let name = AskedName::plain(asked.user, encoded_key)?;
    Some((name.under(node.slots.served_under(name.slot, name.user)), asked.request_id))
}

/// An entry that can stand in an answer as it is.
pub(super) struct Found<'a> {
    content_type: &'a [u8],
    cache_control: &'a [u8],
    etag: Cow<'a, [u8]>,
    value: &'a [u8],
}

impl<'a> Found<'a> {
    fn held(held: &'a Held) -> Self {
        Self {
            content_type: held.content_type(),
            cache_control: held.cache_control().unwrap_or(DEFAULT_CACHE_CONTROL.as_bytes()),
            etag: Cow::Borrowed(held.etag()),
            value: held.value_bytes(),
        }
    }

    pub(super) fn value_bytes(&self) -> u64 {
        self.value.len() as u64
    }

    /// `None`: one of its texts is nothing that a header may hold.
    pub(super) fn stored(entry: &'a StoredEntry) -> Option<Self> {
        let cache_control = entry.cache_control.as_deref().unwrap_or(DEFAULT_CACHE_CONTROL);
        (is_header(&entry.content_type) && is_header(cache_control)).then(|| Self {
            content_type: entry.content_type.as_bytes(),
            cache_control: cache_control.as_bytes(),
            etag: Cow::Owned(entry.version.etag().into_bytes()),
            value: &entry.value,
        })
    }
}

/// A question of a line, without conditions.
#[derive(Clone, Copy)]
pub(crate) struct PlainQuestion<'a> {
    pub(crate) id: u64,
    pub(crate) name: AskedName<'a>,
    /// What the line calls the entry.
    pub(crate) about: u64,
    pub(crate) head_only: bool,
}

/// Appends the answer's frame; `None`: there is no answer at once, and nothing was appended.
pub(crate) fn answer_on_line(node: &Node, question: &PlainQuestion<'_>, out: &mut BytesMut) -> Option<()> {
    let PlainQuestion { id, name, about, head_only } = question;
    let (held, began) = node.read_at_once(name)?;
    let (seen, found) = (node.status.seen(), Found::held(&held));
    let entry = EntryAnswer {
        content_type: found.content_type,
        cache_control: found.cache_control,
        etag: &found.etag,
        others: seen.hit_headers.get_or_init(|| headers(node, seen.epoch.0)),
        value: found.value,
    };
    write_entry(out, *id, *about, &entry, *head_only).ok()?;
    count(node, if *head_only { Route::head } else { Route::get }, began);
    node.accounting.hit(name.user, if *head_only { 0 } else { found.value.len() }, began);
    Some(())
}

fn count(node: &Node, route: Route, began: Moment) {
    node.metrics.reads.inc(&TierLabels { tier: Tier::l1 });
    node.metrics.requests.observe(route, StatusCode::OK, Moment::now().since(began));
}

/// What asks for more than the entry.
static NOT_PLAIN: [HeaderName; 4] =
    [header::IF_NONE_MATCH, header::IF_MATCH, X_SHARDCACHE_DETACHED, X_REQUEST_TIMEOUT_MS];

/// What such a request says, found in one pass over its headers.
struct Asked<'a> {
    user: &'a [u8],
    request_id: Option<&'a [u8]>,
    authorization: Option<&'a [u8]>,
}

impl<'a> Asked<'a> {
    /// `None`: a header is missing, doubled, or asks for more than the entry.
    fn of(headers: &[Header<'a>]) -> Option<Self> {
        let (mut user, mut request_id, mut authorization) = (None, None, None);
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            let of_one_only = if is(X_USER_ID.as_str()) {
                &mut user
            } else if is(X_REQUEST_ID.as_str()) {
                &mut request_id
            } else if is(header::AUTHORIZATION.as_str()) {
                &mut authorization
            } else if NOT_PLAIN.iter().any(|not| is(not.as_str())) {
                return None;
            } else {
                continue;
            };
            if of_one_only.replace(header.value).is_some() {
                return None;
            }
        }
        Some(Self { user: user?, request_id, authorization })
    }
}

/// `lines`: [`lines`].
pub(super) fn append(found: &Found<'_>, lines: &[u8], request_id: Option<&[u8]>, answer: &mut Vec<u8>) {
    answer.reserve(limits::HIT_HEAD + found.value.len());
    let mut text = |text: &[u8]| answer.extend_from_slice(text);
    text(b"HTTP/1.1 200 OK\r\ncontent-type: ");
    text(found.content_type);
    text(b"\r\ncache-control: ");
    text(found.cache_control);
    text(b"\r\netag: ");
    text(&found.etag);
    text(lines);
    end(request_id, found.value, answer);
}

/// From the request id's value on.
pub(super) fn end(request_id: Option<&[u8]>, body: &[u8], answer: &mut Vec<u8>) {
    request_id::append_of_one(request_id, answer);
    answer.extend_from_slice(b"\r\ncontent-length: ");
    answer.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
    answer.extend_from_slice(b"\r\ndate: ");
    http_date::append(answer);
    answer.extend_from_slice(b"\r\n\r\n");
    answer.extend_from_slice(body);
}

/// From the end of the entity tag to the beginning of the request id.
pub(super) fn lines(node: &Node, cache_status: &str, epoch: u64) -> Box<[u8]> {
    let begin = format!("\r\n{CACHE_STATUS}: {cache_status}\r\n{X_RING_EPOCH}: {epoch}\r\n{X_CACHE_NODE}: ");
    let end = format!("\r\n{X_REQUEST_ID}: ");
    [begin.as_bytes(), node.name_header.as_bytes(), end.as_bytes()].concat().into_boxed_slice()
}

/// What all answers on lines have beside the entry's own headers.
fn headers(node: &Node, epoch: u64) -> SharedHeaders {
    let headers = HeaderMap::from_iter([
        (CACHE_STATUS, HeaderValue::from_static(L1_HIT)),
        (X_CACHE_NODE, node.name_header.clone()),
        (X_RING_EPOCH, HeaderValue::from(epoch)),
    ]);
    SharedHeaders::of(&headers).expect("a node's name is far shorter than a frame's headers may be")
}
