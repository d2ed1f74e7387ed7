//! Puts data-plane answers together: entity tag, tier, node, epoch. Of any body that bytes can become: a request of its own is
//! answered with one that may stream, a read on a line with the bytes.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use origin::{OriginError, StoredEntry, WriteAnswer};
use placement::freshness::Bypass;
use wire::entries::Version;
use wire::headers::{CACHE_STATUS, DEFAULT_CACHE_CONTROL, DEFAULT_CONTENT_TYPE, X_CACHE_NODE, X_RING_EPOCH};
use wire::{Problem, ProblemCode};

use crate::node::Node;
use crate::read_path::{Read, ReadRefused, Source};
use crate::write_path::WriteRefused;

/// `Cache-Status` of an answer from L1.
pub(super) const L1_HIT: &str = "shardcache-l1; hit";
/// The same of an answer that a request has fetched from L2 for itself.
const L2_HIT: &str = "shardcache-l1; fwd=miss, shardcache-l2; hit";

/// An error answer.
pub(super) fn problem<B: From<Bytes>>(code: ProblemCode, detail: impl Into<String>) -> Response<B> {
    Problem::new(code, detail).into_response()
}

/// The entry itself; for HEAD the server sends the head alone.
pub(super) fn entry<B: From<Bytes>>(entry: &StoredEntry) -> Response<B> {
    let mut response = Response::new(B::from(entry.value.clone()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, stored_header(&entry.content_type, DEFAULT_CONTENT_TYPE));
    let cache_control = entry.cache_control.as_deref().unwrap_or(DEFAULT_CACHE_CONTROL);
    headers.insert(header::CACHE_CONTROL, stored_header(cache_control, DEFAULT_CACHE_CONTROL));
    if entry.value.is_empty() {
        // Nobody else says so of an answer to HEAD.
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    tag(&mut response, entry.version);
    response
}

/// 304 with the same tag and cache control.
pub(super) fn not_modified<B: From<Bytes>>(entry: &StoredEntry) -> Response<B> {
    let mut response = Response::new(B::from(Bytes::new()));
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    let cache_control = entry.cache_control.as_deref().unwrap_or(DEFAULT_CACHE_CONTROL);
    response.headers_mut().insert(header::CACHE_CONTROL, stored_header(cache_control, DEFAULT_CACHE_CONTROL));
    tag(&mut response, entry.version);
    response
}

/// The answer to a write that was decided.
pub(super) fn written(answer: &WriteAnswer) -> Response<Body> {
    let mut response = match answer {
        WriteAnswer::Created(_) => empty(StatusCode::CREATED),
        WriteAnswer::Replaced(_) | WriteAnswer::Deleted(_) => empty(StatusCode::NO_CONTENT),
        WriteAnswer::Absent => problem(ProblemCode::EntryNotFound, "there was no such entry to delete"),
        WriteAnswer::PreconditionFailed(None) => problem(ProblemCode::PreconditionFailed, "there is no such entry"),
        WriteAnswer::PreconditionFailed(Some(_)) => {
            problem(ProblemCode::PreconditionFailed, "the entry has the version in ETag")
        }
        WriteAnswer::Fenced => problem(ProblemCode::OwnerUnavailable, "the slot has moved"),
    };
    match answer {
        WriteAnswer::Created(version)
        | WriteAnswer::Replaced(version)
        | WriteAnswer::PreconditionFailed(Some(version)) => tag(&mut response, *version),
        _ => {}
    }
    response
}

pub(super) fn read_refused<B: From<Bytes>>(refused: ReadRefused) -> Response<B> {
    match refused {
        ReadRefused::NotOwner(_) => problem(ProblemCode::WrongOwner, "the slot is owned by another node"),
        ReadRefused::Origin(error) => origin_failed(&error),
    }
}

pub(super) fn write_refused(refused: &WriteRefused) -> Response<Body> {
    match refused {
        WriteRefused::NotOwner(_) => problem(ProblemCode::WrongOwner, "the slot is owned by another node"),
        WriteRefused::Parked(why) => problem(ProblemCode::OwnerUnavailable, format!("not executed: {why}")),
        WriteRefused::QueueFull => problem(ProblemCode::Overloaded, "too many writes wait for this key"),
        WriteRefused::Origin(error) => origin_failed(error),
        WriteRefused::Unknown => {
            problem(ProblemCode::WriteOutcomeUnknown, "the database gave no answer; read the entry to learn what it is")
        }
    }
}

/// No driver text, host or SQL goes out: the log has it.
pub(super) fn origin_failed<B: From<Bytes>>(error: &OriginError) -> Response<B> {
    tracing::debug!(%error, "origin failed");
    problem(ProblemCode::OriginUnavailable, "the database did not answer; not executed")
}

/// `Cache-Status` of a read, and what it says about `stored` and `collapsed`.
pub(super) fn cache_status(read: &Read) -> HeaderValue {
    let joined = if read.collapsed { "; collapsed" } else { "" };
    let found = if read.content.is_some() { "hit" } else { "fwd=miss" };
    let text = match read.source {
        Source::L1 => return HeaderValue::from_static(L1_HIT),
        Source::L2 if !read.collapsed => return HeaderValue::from_static(L2_HIT),
        Source::L2 => format!("shardcache-l1; fwd=miss{joined}, shardcache-l2; hit"),
        Source::Origin { l2_asked: false, .. } => {
            format!("shardcache-l1; fwd=miss; stored{joined}, shardcache-origin; {found}")
        }
        Source::Origin { l2_asked: true, l2_stored } => {
            let stored = if l2_stored { "; stored" } else { "" };
            format!("shardcache-l1; fwd=miss{joined}, shardcache-l2; fwd=miss{stored}, shardcache-origin; {found}")
        }
        Source::Bypass(bypass) => {
            format!("shardcache-l1; fwd=bypass; detail={}, shardcache-origin; {found}", reason(bypass))
        }
    };
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("shardcache-l1; fwd=miss"))
}

fn reason(bypass: Bypass) -> &'static str {
    match bypass {
        Bypass::Detached => "detached",
        Bypass::Lease => "lease",
        Bypass::Sealed => "sealed",
        Bypass::WriterActive => "writer-active",
        Bypass::Unsettled => "unsettled",
    }
}

/// The headers that every data-plane answer of the node has.
pub(super) fn finish<B>(response: &mut Response<B>, node: &Node) {
    let headers = response.headers_mut();
    if !headers.contains_key(CACHE_STATUS) {
        headers.insert(CACHE_STATUS, HeaderValue::from_static("shardcache-l1; fwd=bypass"));
    }
    headers.insert(X_CACHE_NODE, node.name_header.clone());
    headers.insert(X_RING_EPOCH, HeaderValue::from(node.status.epoch().0));
}

pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn tag<B>(response: &mut Response<B>, version: Version) {
    response.headers_mut().insert(header::ETAG, stored_header(&version.etag(), "\"0\""));
}

/// Stored texts were checked on their way in; should a row hold another, it must not become a panic.
fn stored_header(text: &str, otherwise: &'static str) -> HeaderValue {
    let otherwise = HeaderValue::from_static(otherwise);
    if otherwise == text { otherwise } else { HeaderValue::try_from(text).unwrap_or(otherwise) }
}
