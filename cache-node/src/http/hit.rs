//! A plain `GET` of an entry: answered from the request's bytes into the answer's, at once if L1 holds the entry.
//!
//! Whatever is out of the ordinary goes the way of `entries`, which gives the same answer.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use httparse::Header;
use origin::StoredEntry;
use placement::{EntryKey, UserId};
use service::listen::{AnswerSoon, PlainGet};
use service::request_metrics::Route;
use service::{http_date, request_id};
use wire::entries::ENTRIES_PREFIX;
use wire::headers::{
    CACHE_STATUS, DEFAULT_CACHE_CONTROL, X_CACHE_NODE, X_REQUEST_ID, X_RING_EPOCH, X_SHARDCACHE_DETACHED, X_USER_ID,
};

use super::answer::{self, L1_HIT};
use super::reads;
use crate::clock::Moment;
use crate::entry_name::{AskedName, EntryName};
use crate::l1::{Held, is_header};
use crate::limits;
use crate::metrics::{Tier, TierLabels};
use crate::node::Node;
use crate::read_path::Read;

/// Appends the answer; `None`: there is none at once, and nothing was appended.
pub(super) fn answer(node: &Node, get: &PlainGet<'_>, answer: &mut Vec<u8>) -> Option<()> {
    let (name, request_id) = plain(node, get)?;
    let (held, began) = node.read_at_once(&name)?;
    let seen = node.status.seen();
    let lines = seen.hit_lines.get_or_init(|| lines(node, L1_HIT, seen.epoch.0));
    append(&Found::held(&held), lines, request_id, answer);
    node.metrics.reads.inc(&TierLabels { tier: Tier::l1 });
    node.metrics.requests.observe(Route::get, StatusCode::OK, Moment::now().since(began));
    Some(())
}

/// Begins to read what L1 does not have; `None`: not a plain request.
pub(super) fn begin(node: &Arc<Node>, get: &PlainGet<'_>) -> Option<AnswerSoon> {
    let (name, request_id) = plain(node, get)?;
    let name = EntryName::new(UserId::parse(name.user.as_bytes()).ok()?, EntryKey::parse(name.key).ok()?);
    let request_id = request_id.map(Box::<[u8]>::from);
    let (node, began) = (Arc::clone(node), Moment::now());
    Some(Box::pin(async move {
        let request_id = request_id.as_deref();
        let refused = match node.in_progress.try_acquire() {
            Err(_) => reads::overloaded(),
            Ok(_permit) => match node.read(&name).await {
                Ok(read) => match read.content.as_deref().and_then(Found::stored) {
                    Some(found) => {
                        super::listing::count(&node, &read);
                        return fetched(&node, &found, &read, request_id, began);
                    }
                    None => reads::answer_to(&node, &HeaderMap::new(), Ok(read)),
                },
                refused => reads::answer_to(&node, &HeaderMap::new(), refused),
            },
        };
        in_full(&node, refused, request_id, began)
    }))
}

/// Name and request id of a request that asks for nothing but the entry, and may.
fn plain<'a>(node: &Node, get: &PlainGet<'a>) -> Option<(AskedName<'a>, Option<&'a [u8]>)> {
    let encoded_key = get.target.strip_prefix(ENTRIES_PREFIX)?;
    let asked = Asked::of(get.headers)?;
    if let Some(token) = &node.config.cluster_token
        && !asked.authorization.is_some_and(|sent| token.is_in(sent))
    {
        return None;
    }
    Some((AskedName::plain(asked.user, encoded_key)?, asked.request_id))
}

/// The answer with an entry that was not in L1.
fn fetched(node: &Node, found: &Found<'_>, read: &Read, request_id: Option<&[u8]>, began: Moment) -> Vec<u8> {
    let status = answer::cache_status(read);
    let lines = lines(node, status.to_str().unwrap_or_default(), node.status.epoch().0);
    let mut answer = Vec::new();
    append(found, &lines, request_id, &mut answer);
    node.metrics.requests.observe(Route::get, StatusCode::OK, Moment::now().since(began));
    answer
}

/// Any other answer.
fn in_full(node: &Node, mut response: Response<Bytes>, request_id: Option<&[u8]>, began: Moment) -> Vec<u8> {
    reads::conclude(node, &mut response, Route::get, Moment::now().since(began));
    let mut answer = format!("HTTP/1.1 {}\r\n", response.status()).into_bytes();
    for (name, value) in response.headers() {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            answer.extend_from_slice(part);
        }
    }
    answer.extend_from_slice(format!("{X_REQUEST_ID}: ").as_bytes());
    end(request_id, response.body(), &mut answer);
    answer
}

/// An entry that can stand in an answer as it is.
struct Found<'a> {
    content_type: &'a [u8],
    cache_control: Option<&'a [u8]>,
    etag: Cow<'a, [u8]>,
    value: &'a [u8],
}

impl<'a> Found<'a> {
    fn held(held: &'a Held) -> Self {
        let (content_type, cache_control) = (held.content_type(), held.cache_control());
        Self { content_type, cache_control, etag: Cow::Borrowed(held.etag()), value: held.value_bytes() }
    }

    /// `None`: one of its texts is nothing that a header may hold.
    fn stored(entry: &'a StoredEntry) -> Option<Self> {
        let header = |text: &'a str| is_header(text).then_some(text.as_bytes());
        Some(Self {
            content_type: header(&entry.content_type)?,
            cache_control: entry.cache_control.as_deref().map(|text| header(text).ok_or(())).transpose().ok()?,
            etag: Cow::Owned(entry.version.etag().into_bytes()),
            value: &entry.value,
        })
    }
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

fn append(found: &Found<'_>, lines: &[u8], request_id: Option<&[u8]>, answer: &mut Vec<u8>) {
    answer.reserve(limits::HIT_HEAD + found.value.len());
    let mut text = |text: &[u8]| answer.extend_from_slice(text);
    text(b"HTTP/1.1 200 OK\r\ncontent-type: ");
    text(found.content_type);
    text(b"\r\ncache-control: ");
    text(found.cache_control.unwrap_or(DEFAULT_CACHE_CONTROL.as_bytes()));
    text(b"\r\netag: ");
    text(&found.etag);
    text(lines);
    end(request_id, found.value, answer);
}

/// From the request id's value on.
fn end(request_id: Option<&[u8]>, body: &[u8], answer: &mut Vec<u8>) {
    request_id::append_of_one(request_id, answer);
    answer.extend_from_slice(b"\r\ncontent-length: ");
    answer.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
    answer.extend_from_slice(b"\r\ndate: ");
    http_date::append(answer);
    answer.extend_from_slice(b"\r\n\r\n");
    answer.extend_from_slice(body);
}

/// From the end of the entity tag to the beginning of the request id.
fn lines(node: &Node, cache_status: &str, epoch: u64) -> Box<[u8]> {
    let begin = format!("\r\n{CACHE_STATUS}: {cache_status}\r\n{X_RING_EPOCH}: {epoch}\r\n{X_CACHE_NODE}: ");
    let end = format!("\r\n{X_REQUEST_ID}: ");
    [begin.as_bytes(), node.name_header.as_bytes(), end.as_bytes()].concat().into_boxed_slice()
}
