//! A plain read of an entry that L1 holds: answered at once, from the request's bytes into the answer's, be it HTTP or a line.
//!
//! Whatever is out of the ordinary, absence and errors included, goes the way of `reads`, which gives the same answer.

use bytes::BytesMut;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use httparse::Header;
use service::listen::PlainGet;
use service::request_metrics::Route;
use service::{http_date, request_id};
use wire::entries::ENTRIES_PREFIX;
use wire::headers::{
    CACHE_STATUS, DEFAULT_CACHE_CONTROL, X_CACHE_NODE, X_REQUEST_ID, X_RING_EPOCH, X_SHARDCACHE_DETACHED, X_USER_ID,
};
use wire::line::{EntryAnswer, SharedHeaders, write_entry};

use super::answer::L1_HIT;
use crate::clock::Moment;
use crate::entry_name::AskedName;
use crate::l1::Held;
use crate::limits;
use crate::metrics::{Tier, TierLabels};
use crate::node::Node;

/// Appends the answer; `None`: there is none at once, and nothing was appended.
pub(super) fn answer(node: &Node, get: &PlainGet<'_>, answer: &mut Vec<u8>) -> Option<()> {
    let encoded_key = get.target.strip_prefix(ENTRIES_PREFIX)?;
    let asked = Asked::of(get.headers)?;
    if let Some(token) = &node.config.cluster_token
        && !asked.authorization.is_some_and(|sent| token.is_in(sent))
    {
        return None;
    }
    let name = AskedName::plain(asked.user, encoded_key)?;
    let (held, began) = node.read_at_once(&name)?;
    append(&held, node, asked.request_id, answer);
    count(node, Route::get, began);
    Some(())
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
    let seen = node.status.seen();
    let entry = EntryAnswer {
        content_type: held.content_type(),
        cache_control: cache_control(&held),
        etag: held.etag(),
        others: seen.hit_headers.get_or_init(|| headers(node, seen.epoch.0)),
        value: held.value_bytes(),
    };
    write_entry(out, *id, *about, &entry, *head_only).ok()?;
    count(node, if *head_only { Route::head } else { Route::get }, began);
    Some(())
}

fn count(node: &Node, route: Route, began: Moment) {
    node.metrics.reads.inc(&TierLabels { tier: Tier::l1 });
    node.metrics.requests.observe(route, StatusCode::OK, Moment::now().since(began));
}

fn cache_control(held: &Held) -> &[u8] {
    held.cache_control().unwrap_or(DEFAULT_CACHE_CONTROL.as_bytes())
}

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
            } else if [header::IF_NONE_MATCH, header::IF_MATCH, X_SHARDCACHE_DETACHED]
                .iter()
                .any(|not| is(not.as_str()))
            {
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

fn append(held: &Held, node: &Node, request_id: Option<&[u8]>, answer: &mut Vec<u8>) {
    let value = held.value_bytes();
    answer.reserve(limits::HIT_HEAD + value.len());
    let mut text = |text: &[u8]| answer.extend_from_slice(text);
    text(b"HTTP/1.1 200 OK\r\ncontent-type: ");
    text(held.content_type());
    text(b"\r\ncache-control: ");
    text(cache_control(held));
    text(b"\r\netag: ");
    text(held.etag());
    let seen = node.status.seen();
    text(seen.hit_lines.get_or_init(|| lines(node, seen.epoch.0)));
    request_id::append_of_one(request_id, answer);
    answer.extend_from_slice(b"\r\ncontent-length: ");
    answer.extend_from_slice(itoa::Buffer::new().format(value.len()).as_bytes());
    answer.extend_from_slice(b"\r\ndate: ");
    http_date::append(answer);
    answer.extend_from_slice(b"\r\n\r\n");
    answer.extend_from_slice(value);
}

/// From the end of one header's value to the beginning of another's.
fn lines(node: &Node, epoch: u64) -> Box<[u8]> {
    let mut lines = format!("\r\n{CACHE_STATUS}: {L1_HIT}\r\n{X_RING_EPOCH}: {epoch}\r\n{X_CACHE_NODE}: ").into_bytes();
    lines.extend_from_slice(node.name_header.as_bytes());
    lines.extend_from_slice(format!("\r\n{X_REQUEST_ID}: ").as_bytes());
    lines.into_boxed_slice()
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
