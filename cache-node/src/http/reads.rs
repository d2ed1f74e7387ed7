//! A read of one entry, alike whichever way it came: as a request of its own, or on a line.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use placement::freshness::Bypass;
use service::request_metrics::Route;
use wire::ProblemCode;
use wire::headers::CACHE_STATUS;

use super::answer;
use super::conditions::{ReadCondition, read_condition};
use crate::entry_name::EntryName;
use crate::node::Node;
use crate::read_path::{Read, ReadRefused};

/// The answer if L1 has the entry, without any wait; else [`owned`] has to say.
pub(crate) fn at_once<B: From<Bytes>>(node: &Node, name: &EntryName, headers: &HeaderMap) -> Option<Response<B>> {
    let (held, _) = node.read_at_once(&name.asked())?;
    Some(answer_to(node, name, headers, Ok(Read::of_hit(&held))))
}

/// The answer of a node that owns the slot.
pub(crate) async fn owned<B: From<Bytes>>(node: &Arc<Node>, name: &EntryName, headers: &HeaderMap) -> Response<B> {
    let read = node.read(name).await;
    answer_to(node, name, headers, read)
}

/// The answer of the origin, whoever owns the slot (protocol G6).
pub(crate) async fn detached<B: From<Bytes>>(node: &Node, name: &EntryName, headers: &HeaderMap) -> Response<B> {
    let read = node.read_direct(name, Bypass::Detached).await;
    answer_to(node, name, headers, read)
}

/// What a read came to, as an answer.
pub(super) fn answer_to<B: From<Bytes>>(
    node: &Node,
    name: &EntryName,
    headers: &HeaderMap,
    read: Result<Read, ReadRefused>,
) -> Response<B> {
    let read = match read {
        Ok(read) => read,
        Err(refused) => return answer::read_refused(refused),
    };
    super::listing::count(node, name, &read);
    let version = read.content.as_ref().map(|entry| entry.version);
    let judged = match read_condition(headers, version) {
        Ok(judged) => judged,
        Err(bad) => return answer::problem(ProblemCode::RequestInvalid, bad.to_string()),
    };
    let mut response = match (&read.content, judged) {
        (_, ReadCondition::Failed) => answer::problem(ProblemCode::PreconditionFailed, "If-Match does not hold"),
        (None, _) => answer::problem(ProblemCode::EntryNotFound, "the user has no entry of that key"),
        (Some(entry), ReadCondition::NotModified) => answer::not_modified(entry),
        (Some(entry), ReadCondition::Send) => answer::entry(entry),
    };
    response.headers_mut().insert(CACHE_STATUS, answer::cache_status(&read));
    response
}

/// The answer to one more than may be in progress.
pub(crate) fn overloaded<B: From<Bytes>>() -> Response<B> {
    answer::problem(ProblemCode::Overloaded, "too many requests are in progress at this node")
}

/// Counts an answered request for its user, with the bytes of its body and its answer's; but not one that was not let in, nor one
/// that goes to another node.
pub(crate) fn account(node: &Node, user: &str, status: StatusCode, bytes: u64) {
    if status != ProblemCode::WrongOwner.status() && status != ProblemCode::Unauthorized.status() {
        node.accounting.request(user, bytes);
    }
}

/// Gives an answer of the data plane what they all have, and counts it.
pub(crate) fn conclude<B>(node: &Node, response: &mut Response<B>, route: Route, took: Duration) {
    answer::finish(response, node);
    if response.status() == ProblemCode::WrongOwner.status() {
        node.metrics.wrong_owner.inc();
    }
    node.metrics.requests.observe(route, response.status(), took);
}
