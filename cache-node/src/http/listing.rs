//! `GET /v1/entries` (a page of a user's keys) and `POST /v1/entries:mget` (many entries at once).

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderValue, Method, Request, Response, header};
use hyper::body::Incoming;
use origin::ListRequest;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use placement::EntryKey;
use placement::freshness::Bypass;
use service::body::read_limited;
use wire::ProblemCode;
use wire::entries::{
    ENTRIES_LIST, EntryPage, LIST_DEFAULT_LIMIT, LIST_MAX_LIMIT, MGET_MAX_KEYS, MgetEntry, MgetRequest, MgetResponse,
};
use wire::headers::CACHE_STATUS;

use super::answer;
use super::entries::{body_failed, is_detached, user_of};
use crate::accounting::Work;
use crate::entry_name::EntryName;
use crate::limits;
use crate::metrics::{BypassLabels, Tier, TierLabels};
use crate::node::Node;
use crate::read_path::{Read, Source};

type Refusal = Box<Response<Body>>;

/// One page, always from the origin; any node may answer.
pub(super) async fn list(node: &Arc<Node>, request: &Request<Incoming>) -> Response<Body> {
    if request.method() != Method::GET {
        return wrong_method("GET");
    }
    list_page(node, request).await.unwrap_or_else(|refusal| *refusal)
}

async fn list_page(node: &Arc<Node>, request: &Request<Incoming>) -> Result<Response<Body>, Refusal> {
    let user = user_of(request.headers())?;
    let page = list_request(request.uri().query().unwrap_or_default())?;
    // One more than asked for tells whether there is a next page.
    let wanted = ListRequest { limit: page.limit + 1, ..page.clone() };
    node.metrics.origin_reads.inc();
    node.accounting.work(user.as_str(), Work::OriginRead);
    let found = node.origin.list_entries(&user, &wanted).await;
    let mut entries = found.map_err(|error| Box::new(answer::origin_failed(&error)))?;
    let more = entries.len() > page.limit as usize;
    entries.truncate(page.limit as usize);
    let next = entries.last().filter(|_| more).map(|last| {
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        format!("{ENTRIES_LIST}?prefix={}&limit={}&after={}", encode(&page.prefix), page.limit, encode(&last.key))
    });
    let mut response = json(&EntryPage { entries, next });
    response.headers_mut().insert(CACHE_STATUS, HeaderValue::from_static("shardcache-l1; fwd=bypass; detail=list"));
    Ok(response)
}

pub(super) fn list_request(query: &str) -> Result<ListRequest, Refusal> {
    let mut request = ListRequest { prefix: String::new(), after: None, limit: LIST_DEFAULT_LIMIT };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decode_str(&value.replace('+', " ")).decode_utf8().map(|text| text.into_owned());
        let value = value.map_err(|_| invalid("a query parameter is not percent-encoded UTF-8"))?;
        if value.contains('\0') {
            return Err(invalid("a query parameter holds a NUL"));
        }
        match name {
            "prefix" => request.prefix = value,
            "after" => request.after = Some(value),
            "limit" => {
                request.limit = value
                    .parse()
                    .ok()
                    .filter(|limit| (1..=LIST_MAX_LIMIT).contains(limit))
                    .ok_or_else(|| invalid(&format!("limit is 1 to {LIST_MAX_LIMIT}")))?;
            }
            _ => return Err(invalid("the query parameters are prefix, limit and after")),
        }
    }
    Ok(request)
}

/// Many entries of one user, each by the read path.
pub(super) async fn mget(node: &Arc<Node>, request: Request<Incoming>) -> Response<Body> {
    if request.method() != Method::POST {
        return wrong_method("POST");
    }
    mget_entries(node, request).await.unwrap_or_else(|refusal| *refusal)
}

async fn mget_entries(node: &Arc<Node>, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
    let user = user_of(request.headers())?;
    let detached = is_detached(request.headers());
    let body = read_limited(request.into_body(), limits::JSON_BODY_MAX, limits::BODY_DEADLINE);
    let body = body.await.map_err(body_failed)?;
    let asked: MgetRequest =
        serde_json::from_slice(&body).map_err(|_| invalid("the body is {\"keys\":[\"…\"]} as JSON"))?;
    if asked.keys.len() > MGET_MAX_KEYS {
        return Err(invalid(&format!("at most {MGET_MAX_KEYS} keys")));
    }
    let keys: Result<Vec<_>, _> = asked.keys.iter().map(|key| EntryKey::parse(key)).collect();
    let keys = keys.map_err(|error| Box::new(answer::problem(ProblemCode::KeyInvalid, error.to_string())))?;
    let slot = node.slots.of_user(user.as_str());
    let names: Vec<_> = keys.into_iter().map(|key| EntryName::under(slot, user.clone(), key)).collect();
    let reads =
        if detached { node.read_all_direct(&names, Bypass::Detached).await } else { node.read_all(&names).await };
    let reads = reads.map_err(|refused| Box::new(answer::read_refused(refused)))?;
    let all_hit = reads.iter().all(|read| read.source == Source::L1);
    let entries = names
        .iter()
        .zip(&reads)
        .map(|(name, read)| {
            count(node, name, read);
            let entry = read.content.as_ref()?;
            Some(MgetEntry::new(&name.key, &entry.value, &entry.content_type, entry.version))
        })
        .collect();
    let mut response = json(&MgetResponse { entries });
    let status = if all_hit { "shardcache-l1; hit" } else { "shardcache-l1; fwd=miss; detail=some" };
    response.headers_mut().insert(CACHE_STATUS, HeaderValue::from_static(status));
    Ok(response)
}

/// Counts a read by the tier that answered it, and what it took for its user.
pub(super) fn count(node: &Node, name: &EntryName, read: &Read) {
    let (tier, work) = match read.source {
        Source::L1 => (Tier::l1, None),
        Source::Bypass(_) => (Tier::bypass, Some(Work::OriginRead)),
        _ if read.collapsed => (Tier::collapsed, Some(Work::Joined)),
        Source::L2 => (Tier::l2, Some(Work::L2Read)),
        Source::Origin { .. } => (Tier::origin, Some(Work::OriginRead)),
    };
    if let Some(work) = work {
        node.accounting.work(name.user.as_str(), work);
    }
    node.metrics.reads.inc(&TierLabels { tier });
    if let Source::Bypass(bypass) = read.source {
        node.metrics.bypasses.get_or_create(&BypassLabels { reason: bypass.into() }).inc();
    }
}

fn json(body: &impl serde::Serialize) -> Response<Body> {
    // These types have string keys and finite numbers only: encoding cannot fail.
    let mut response = Response::new(Body::from(serde_json::to_vec(body).unwrap_or_default()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response
}

fn invalid(detail: &str) -> Refusal {
    Box::new(answer::problem(ProblemCode::RequestInvalid, detail))
}

fn wrong_method(allowed: &'static str) -> Response<Body> {
    let mut response = answer::problem(ProblemCode::MethodNotAllowed, format!("this route has {allowed}"));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}
