//! Carries one request to the owner of its slot, by as many tries as are safe within its deadline.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use placement::{Slot, UserId};
use tokio::time::{Instant, sleep_until};
use wire::headers::{
    CACHE_STATUS, TRACEPARENT, TRACESTATE, X_CACHE_NODE, X_REQUEST_ID, X_RING_EPOCH, X_SHARDCACHE_DETACHED, X_USER_ID,
};
use wire::{Problem, ProblemCode};

use crate::gateway::Gateway;
use crate::limits;
use crate::metrics::Hop;
use crate::retry::{Kind, Met, Next, Tried, next};
use crate::upstream::{SendFailed, Upstream, UpstreamBody};

/// What goes on to a node: nothing else of the client's headers is believed or passed on.
const REQUEST_HEADERS: [HeaderName; 7] = [
    header::CONTENT_TYPE,
    header::CACHE_CONTROL,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::ACCEPT,
    TRACEPARENT,
    TRACESTATE,
];

/// What comes back from a node.
const RESPONSE_HEADERS: [HeaderName; 9] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CACHE_CONTROL,
    header::ETAG,
    header::RETRY_AFTER,
    header::ALLOW,
    CACHE_STATUS,
    X_CACHE_NODE,
    X_RING_EPOCH,
];

/// What no client sees: a node that does not take our token, or does not read for others.
const NO_ANSWERS: [StatusCode; 2] = [StatusCode::UNAUTHORIZED, StatusCode::MISDIRECTED_REQUEST];

/// A request whose parts are checked and whose body is here, so that it can be sent more than once.
pub(crate) struct Forwarded {
    pub(crate) method: Method,
    /// As the client encoded it.
    pub(crate) path_and_query: PathAndQuery,
    pub(crate) user: UserId,
    pub(crate) headers: HeaderMap,
    pub(crate) request_id: HeaderValue,
    pub(crate) body: Bytes,
    pub(crate) kind: Kind,
}

/// The headers of the client's request that go on.
pub(crate) fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for name in &REQUEST_HEADERS {
        for value in headers.get_all(name) {
            kept.append(name, value.clone());
        }
    }
    kept
}

impl Gateway {
    /// The answer to the client.
    pub(crate) async fn forward(&self, request: &Forwarded) -> Response<Body> {
        let began = Instant::now();
        let deadline = began
            + match request.kind {
                Kind::Read => limits::READ_DEADLINE,
                Kind::Write => limits::WRITE_DEADLINE,
            };
        let slot = Slot::of_user(&request.user);
        let mut met = Met::default();
        let mut pause = limits::RETRY_PAUSE_MIN;
        for _ in 0..limits::TRIES_MAX {
            let view = self.ring.view();
            let owner = view.owner(slot).cloned();
            let (tried, answer) = self.try_owner(request, owner.as_ref(), view.epoch().0, deadline).await;
            met.misdirected += u32::from(tried == Tried::Answered(StatusCode::MISDIRECTED_REQUEST));
            met.broken += u32::from(tried == Tried::Failed(SendFailed::Broken));
            match (next(request.kind, tried, met), answer) {
                (Next::Again, _) => {}
                (Next::Answer, Some(answer)) => return answer_of(answer),
                (Next::Problem(code), _) => return problem(code),
                (Next::Detached, _) => {
                    // An owner that answers 421 can read for us like any other node.
                    let misdirected = tried == Tried::Answered(StatusCode::MISDIRECTED_REQUEST);
                    let silent = owner.as_ref().filter(|_| !misdirected);
                    let answer = self.detached(request, silent, deadline).await;
                    // Nobody can read the origin now; an owner that was passed by on a doubt may still have the entry.
                    if tried == Tried::NotAsked && answer.status() == StatusCode::SERVICE_UNAVAILABLE {
                        return self.ask_doubted(request, owner.as_ref(), deadline).await.unwrap_or(answer);
                    }
                    return answer;
                }
                (Next::FreshRing | Next::Answer, _) => {
                    if !self.ring.refresh(&view).await {
                        let until = Instant::now() + pause.mul_f64(rand::random_range(0.5..1.0));
                        if until >= deadline {
                            break;
                        }
                        sleep_until(until).await;
                        pause = (pause * 2).min(limits::RETRY_PAUSE_MAX);
                    }
                }
                (Next::FreshRingOr(code), _) => {
                    if !self.ring.refresh(&view).await {
                        return problem(code);
                    }
                }
            }
            if Instant::now() >= deadline {
                break;
            }
        }
        match request.kind {
            Kind::Read => self.detached(request, None, deadline).await,
            Kind::Write => problem(ProblemCode::OwnerUnavailable),
        }
    }

    async fn ask_doubted(
        &self,
        request: &Forwarded,
        owner: Option<&Arc<Upstream>>,
        deadline: Instant,
    ) -> Option<Response<Body>> {
        let owner = owner?;
        let epoch = self.ring.view().epoch().0;
        let try_deadline = deadline.min(Instant::now() + limits::READ_TRY);
        let answer = owner.send(self.upstream_request(request, owner, epoch, false), try_deadline).await.ok()?;
        answer.status().is_success().then(|| answer_of(answer))
    }

    async fn try_owner(
        &self,
        request: &Forwarded,
        owner: Option<&Arc<Upstream>>,
        epoch: u64,
        deadline: Instant,
    ) -> (Tried, Option<Response<UpstreamBody>>) {
        let Some(owner) = owner.filter(|owner| !owner.is_in_doubt()) else { return (Tried::NotAsked, None) };
        let try_deadline = match request.kind {
            Kind::Read => deadline.min(Instant::now() + limits::READ_TRY),
            Kind::Write => deadline,
        };
        match owner.send(self.upstream_request(request, owner, epoch, false), try_deadline).await {
            Ok(answer) => {
                if answer.status() == StatusCode::MISDIRECTED_REQUEST {
                    self.metrics.count(Hop::misdirected);
                }
                owner.note_token(answer.status() != StatusCode::UNAUTHORIZED);
                (Tried::Answered(answer.status()), Some(answer))
            }
            Err(failed) => {
                self.metrics.count(match failed {
                    SendFailed::Unreachable => Hop::unreachable,
                    SendFailed::Busy => Hop::busy,
                    SendFailed::Broken => Hop::broken,
                    SendFailed::TimedOut => Hop::timed_out,
                });
                (Tried::Failed(failed), None)
            }
        }
    }

    /// Gw3: any node reads the origin for us.
    async fn detached(&self, request: &Forwarded, not: Option<&Arc<Upstream>>, deadline: Instant) -> Response<Body> {
        self.metrics.count(Hop::detached);
        let view = self.ring.view();
        for node in view.others(not).into_iter().take(limits::DETACHED_TRIES) {
            let sent = self.upstream_request(request, &node, view.epoch().0, true);
            let try_deadline = deadline.min(Instant::now() + limits::READ_TRY);
            match node.send(sent, try_deadline).await {
                Ok(answer) if !NO_ANSWERS.contains(&answer.status()) => return answer_of(answer),
                _ => {}
            }
        }
        problem(ProblemCode::OwnerUnavailable)
    }

    fn upstream_request(
        &self,
        request: &Forwarded,
        node: &Upstream,
        epoch: u64,
        detached: bool,
    ) -> Request<Full<Bytes>> {
        let mut sent = Request::new(Full::new(request.body.clone()));
        *sent.method_mut() = request.method.clone();
        *sent.uri_mut() = Uri::from(request.path_and_query.clone());
        let headers = sent.headers_mut();
        *headers = request.headers.clone();
        if let Ok(host) = HeaderValue::try_from(node.address()) {
            headers.insert(header::HOST, host);
        }
        if let Ok(user) = HeaderValue::try_from(request.user.as_str()) {
            headers.insert(X_USER_ID, user);
        }
        headers.insert(X_RING_EPOCH, HeaderValue::from(epoch));
        headers.insert(X_REQUEST_ID, request.request_id.clone());
        if detached {
            headers.insert(X_SHARDCACHE_DETACHED, HeaderValue::from_static("1"));
        }
        if let Some(token) = &self.config.cluster_token {
            headers.insert(header::AUTHORIZATION, token.header_value());
        }
        sent
    }
}

fn problem(code: ProblemCode) -> Response<Body> {
    let detail = match code {
        ProblemCode::OwnerUnavailable => {
            "not executed: the node that owns this user's entries does not answer, or refuses our token"
        }
        ProblemCode::Overloaded => "not executed: all connections to the owner are busy",
        _ => "the owner was asked to write and gave no answer; read the entry to learn what it is",
    };
    Problem::new(code, detail).into_response()
}

/// Hop-by-hop headers and whatever else a node may say stay behind.
fn answer_of(answer: Response<UpstreamBody>) -> Response<Body> {
    let (head, body) = answer.into_parts();
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = head.status;
    for name in &RESPONSE_HEADERS {
        if let Some(value) = head.headers.get(name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}
