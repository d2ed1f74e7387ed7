//! `/v1/entries/{key}`: GET, HEAD, PUT, DELETE.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use hyper::body::Incoming;
use origin::WriteKind;
use placement::UserId;
use service::body::{BodyError, read_limited};
use tokio::time::Instant;
use wire::ProblemCode;
use wire::entries::{ENTRIES_PREFIX, decode_key};
use wire::headers::{CACHE_STATUS, DEFAULT_CONTENT_TYPE, X_SHARDCACHE_DETACHED, X_USER_ID};

use super::conditions::{BadCondition, write_precondition};
use super::deadline::read_until;
use super::{answer, reads};
use crate::accounting::Work;
use crate::entry_name::EntryName;
use crate::limits;
use crate::node::Node;
use crate::write_path::WriteRequest;

type Refusal = Box<Response<Body>>;

/// Answers one request of the route; everything about it is checked before its body is asked for.
pub(super) async fn respond(node: &Arc<Node>, request: Request<Incoming>, until: Option<Instant>) -> Response<Body> {
    let answered = match *request.method() {
        Method::GET | Method::HEAD => read(node, &request, until).await,
        Method::PUT => put(node, request, until).await,
        Method::DELETE => delete(node, &request, until).await,
        _ => {
            let mut response = answer::problem(ProblemCode::MethodNotAllowed, "an entry has GET, HEAD, PUT and DELETE");
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, PUT, DELETE"));
            return response;
        }
    };
    answered.unwrap_or_else(|refusal| *refusal)
}

async fn read(
    node: &Arc<Node>,
    request: &Request<Incoming>,
    until: Option<Instant>,
) -> Result<Response<Body>, Refusal> {
    let (name, headers) = (name_of(node, request)?, request.headers());
    Ok(if is_detached(headers) {
        read_until(until, reads::detached(node, &name, headers)).await
    } else {
        read_until(until, reads::owned(node, &name, headers)).await
    })
}

async fn put(node: &Arc<Node>, request: Request<Incoming>, until: Option<Instant>) -> Result<Response<Body>, Refusal> {
    let name = name_of(node, &request)?;
    let precondition = write_precondition(request.headers()).map_err(bad_condition)?;
    let content_type =
        stored_header(request.headers(), &header::CONTENT_TYPE)?.unwrap_or_else(|| DEFAULT_CONTENT_TYPE.into());
    let cache_control = stored_header(request.headers(), &header::CACHE_CONTROL)?;
    let limit = node.config.max_value_bytes;
    let value = read_limited(request.into_body(), limit, limits::BODY_DEADLINE).await.map_err(body_failed)?;
    let kind = WriteKind::Put { value, content_type, cache_control };
    Ok(write(node, WriteRequest { name, kind, precondition, until }).await)
}

async fn delete(
    node: &Arc<Node>,
    request: &Request<Incoming>,
    until: Option<Instant>,
) -> Result<Response<Body>, Refusal> {
    let name = name_of(node, request)?;
    let precondition = write_precondition(request.headers()).map_err(bad_condition)?;
    Ok(write(node, WriteRequest { name, kind: WriteKind::Delete, precondition, until }).await)
}

async fn write(node: &Arc<Node>, request: WriteRequest) -> Response<Body> {
    node.accounting.work(request.name.user.as_str(), Work::Write);
    let mut response = match node.write(request).await {
        Ok(answer) => answer::written(&answer),
        Err(refused) => answer::write_refused(&refused),
    };
    response.headers_mut().insert(CACHE_STATUS, HeaderValue::from_static("shardcache-l1; fwd=method"));
    response
}

fn name_of(node: &Node, request: &Request<Incoming>) -> Result<EntryName, Refusal> {
    let user = user_of(request.headers())?;
    let encoded = request.uri().path().strip_prefix(ENTRIES_PREFIX).unwrap_or_default();
    let key = decode_key(encoded)
        .map_err(|invalid| Box::new(answer::problem(ProblemCode::KeyInvalid, invalid.to_string())))?;
    Ok(EntryName::under(node.slots.of_user(user.as_str()), user, key))
}

/// The user of a request to a node: gateways send exactly one header.
pub(super) fn user_of(headers: &HeaderMap) -> Result<UserId, Refusal> {
    let mut values = headers.get_all(X_USER_ID).iter();
    let refused = |code, detail: &str| Box::new(answer::problem(code, detail));
    let first = values.next().ok_or_else(|| refused(ProblemCode::UserIdMissing, "send one X-User-ID header"))?;
    if values.next().is_some() {
        return Err(refused(ProblemCode::UserIdInvalid, "X-User-ID was sent more than once"));
    }
    UserId::parse(first.as_bytes()).map_err(|invalid| refused(ProblemCode::UserIdInvalid, &invalid.to_string()))
}

pub(super) fn is_detached(headers: &HeaderMap) -> bool {
    headers.get(X_SHARDCACHE_DETACHED).is_some_and(|value| value == "1")
}

/// A header that is stored with the entry and given back; several lines are one list (RFC 9110, section 5.3), which a
/// `Content-Type` is not.
pub(super) fn stored_header(headers: &HeaderMap, name: &header::HeaderName) -> Result<Option<String>, Refusal> {
    let lines: Option<Vec<&str>> = headers.get_all(name).iter().map(|value| value.to_str().ok()).collect();
    let joined = lines.filter(|lines| lines.len() <= 1 || name != header::CONTENT_TYPE).map(|lines| {
        let sent = !lines.is_empty();
        sent.then(|| lines.join(", "))
    });
    let fits = |text: &Option<String>| text.as_ref().is_none_or(|text| text.len() <= limits::STORED_HEADER_MAX);
    joined.filter(fits).ok_or_else(|| {
        let detail = format!("{name} must be one, of visible ASCII and at most {} bytes", limits::STORED_HEADER_MAX);
        Box::new(answer::problem(ProblemCode::RequestInvalid, detail))
    })
}

fn bad_condition(bad: BadCondition) -> Refusal {
    Box::new(answer::problem(ProblemCode::RequestInvalid, bad.to_string()))
}

/// A body that did not come whole; the connection is not used again.
pub(super) fn body_failed(error: BodyError) -> Refusal {
    let mut response = match error {
        BodyError::TooLarge => {
            answer::problem(ProblemCode::ValueTooLarge, "the body is over the limit of this cluster")
        }
        BodyError::Timeout => answer::problem(ProblemCode::RequestTimeout, "the body did not arrive in time"),
        BodyError::Broken => answer::problem(ProblemCode::RequestInvalid, "the body did not arrive whole"),
    };
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    Box::new(response)
}
