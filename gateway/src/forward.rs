//! Carries one request to the owner of its slot, by as many tries as are safe within its deadline.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use placement::{EntryKey, UserId};
use tokio::time::{Instant, sleep_until};
use wire::headers::{
    CACHE_STATUS, TRACEPARENT, TRACESTATE, X_CACHE_NODE, X_REQUEST_ID, X_REQUEST_TIMEOUT_MS, X_RING_EPOCH,
    X_SHARDCACHE_DETACHED, X_USER_ID,
};
use wire::{Problem, ProblemCode};

use crate::access_log::note_node_time;
use crate::answer_body::AnswerBody;
use crate::deadline;
use crate::gateway::Gateway;
use crate::health::outcome::{Outcome, is_faulty, outcome_of};
use crate::health::standing::Asked;
use crate::hedge::Hedged;
use crate::limits;
use crate::metrics::Hop;
use crate::prebuilt::Prebuilt;
use crate::retry::{Kind, Met, Next, Tried, next};
use crate::upstream::{Question, SendFailed, Upstream, UpstreamBody};

/// What goes on to a node: nothing else of the client's headers is believed or passed on.
static REQUEST_HEADERS: [HeaderName; 7] = [
    header::CONTENT_TYPE,
    header::CACHE_CONTROL,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::ACCEPT,
    TRACEPARENT,
    TRACESTATE,
];

/// What comes back from a node.
static RESPONSE_HEADERS: [HeaderName; 9] = [
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

/// As many headers as nearly every request and answer has at most, so that their maps need not grow.
const HEADERS_ROOM: usize = 8;

/// What no client sees: a node that does not take our token, or does not read for others.
pub(crate) const NO_ANSWERS: [StatusCode; 2] = [StatusCode::UNAUTHORIZED, StatusCode::MISDIRECTED_REQUEST];

/// What of a request's head goes on to a node. Copied: the connection reads the next request into the same memory as long as
/// nobody holds a piece of it, else it needs new memory for each.
pub(crate) struct Head {
    method: Method,
    /// Path and query, also where the client named a host in the target.
    target: Box<str>,
    headers: HeaderMap,
    until: Option<Instant>,
}

impl Head {
    /// `until`: as long as the client waits.
    pub(crate) fn of<B>(request: &Request<B>, until: Option<Instant>) -> Self {
        let mut headers = HeaderMap::new();
        let mut hop_by_hop = false;
        for (name, value) in request.headers() {
            let Some(known) = REQUEST_HEADERS.iter().find(|known| *known == name) else {
                hop_by_hop = hop_by_hop || name == header::CONNECTION;
                continue;
            };
            let copy = HeaderValue::from_bytes(value.as_bytes()).expect("it is a header value");
            headers.append(known, copy);
        }
        if hop_by_hop {
            without_those_of_this_hop(request.headers(), &mut headers);
        }
        if let Some(until) = until {
            headers.insert(X_REQUEST_TIMEOUT_MS, deadline::told(until, Instant::now()));
        }
        let target = request.uri().path_and_query().map_or("/", PathAndQuery::as_str).into();
        Self { method: request.method().clone(), target, headers, until }
    }
}

/// Takes out what `Connection` says is for this connection only (RFC 9110, section 7.6.1).
fn without_those_of_this_hop(received: &HeaderMap, kept: &mut HeaderMap) {
    let values = received.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    for name in values.flat_map(|value| value.split(',')) {
        kept.remove(name.trim());
    }
}

/// A request whose parts are checked and whose body is here, so that it can be sent more than once.
pub(crate) struct Forwarded {
    pub(crate) head: Head,
    pub(crate) user: UserId,
    /// The key where it is a read of one entry: such a read may go by a line.
    pub(crate) read_of: Option<EntryKey>,
    pub(crate) request_id: HeaderValue,
    pub(crate) body: Bytes,
    pub(crate) kind: Kind,
    /// Any node may do it: it comes from the origin, whoever reads it.
    pub(crate) by_any: bool,
}

impl Forwarded {
    /// A read of one entry, which has no body.
    pub(crate) fn read(head: Head, user: UserId, key: EntryKey, request_id: HeaderValue) -> Self {
        Self { head, user, read_of: Some(key), request_id, body: Bytes::new(), kind: Kind::Read, by_any: false }
    }

    fn question(&self, detached: bool) -> Option<Question<'_>> {
        self.read_of.as_ref().map(|key| Question {
            user: self.user.as_str(),
            key: key.as_str(),
            head_only: self.head.method == Method::HEAD,
            detached,
            request_id: self.request_id.as_bytes(),
            headers: &self.head.headers,
        })
    }
}

impl Gateway {
    /// The answer to the client.
    pub(crate) async fn forward(&self, request: &Forwarded, began: Instant) -> Response<AnswerBody> {
        if request.by_any {
            return self.forward_to_any(request, began).await;
        }
        let deadline = match request.kind {
            Kind::Read => began + limits::READ_DEADLINE,
            Kind::Write => {
                let own = began + limits::WRITE_DEADLINE;
                request.head.until.map_or(own, |until| own.min(until))
            }
        };
        let mut met = Met::default();
        let mut pause = limits::RETRY_PAUSE_MIN;
        let mut now = began;
        for _ in 0..limits::TRIES_MAX {
            let view = self.ring.view();
            if now >= deadline {
                break;
            }
            let owner = view.owner(view.slot_of_user(&request.user)).cloned();
            let (tried, answer) = self.try_owner(request, owner.as_ref(), view.epoch().0, deadline, now).await;
            met.misdirected += u32::from(tried == Tried::Answered(StatusCode::MISDIRECTED_REQUEST));
            met.broken += u32::from(tried == Tried::Failed(SendFailed::Broken));
            match (next(request.kind, tried, met), answer) {
                (Next::Again, _) if self.may_retry() => {}
                (Next::Again, _) => return problem(ProblemCode::OwnerUnavailable),
                (Next::Answer, Some(answer)) => return answer,
                (Next::Problem(code), _) => return problem(code),
                (Next::Detached, _) => {
                    // An owner that answers 421 can read for us like any other node.
                    let misdirected = tried == Tried::Answered(StatusCode::MISDIRECTED_REQUEST);
                    let silent = owner.as_ref().filter(|_| !misdirected);
                    let answer = Box::pin(self.detached(request, silent, deadline)).await;
                    // Nobody can read the origin now; an owner that was passed by on a doubt may still have the entry.
                    let passed_by = matches!(tried, Tried::NotAsked | Tried::PassedBy);
                    if passed_by && answer.status() == StatusCode::SERVICE_UNAVAILABLE {
                        return Box::pin(self.ask_passed_by(request, owner.as_ref(), deadline)).await.unwrap_or(answer);
                    }
                    return answer;
                }
                (Next::FreshRing | Next::Answer, _) => {
                    if !Box::pin(self.ring.refresh(&view)).await {
                        let until = Instant::now() + pause.mul_f64(rand::random_range(0.5..1.0));
                        if until >= deadline {
                            break;
                        }
                        Box::pin(sleep_until(until)).await;
                        pause = (pause * 2).min(limits::RETRY_PAUSE_MAX);
                    }
                }
                (Next::FreshRingOr(code), _) => {
                    if !Box::pin(self.ring.refresh(&view)).await {
                        return problem(code);
                    }
                }
            }
            now = Instant::now();
        }
        match request.kind {
            Kind::Read => Box::pin(self.detached(request, None, deadline)).await,
            Kind::Write => problem(ProblemCode::OwnerUnavailable),
        }
    }

    async fn try_owner(
        &self,
        request: &Forwarded,
        owner: Option<&Arc<Upstream>>,
        epoch: u64,
        deadline: Instant,
        now: Instant,
    ) -> (Tried, Option<Response<AnswerBody>>) {
        let Some(owner) = owner else { return (Tried::NotAsked, None) };
        match owner.standing().asks(request.kind, rand::random) {
            Asked::Yes => {}
            Asked::Silent => return (Tried::NotAsked, None),
            Asked::PassedBy => return (Tried::PassedBy, None),
        }
        let try_deadline = match request.kind {
            Kind::Read => deadline.min(now + limits::READ_TRY),
            Kind::Write => deadline,
        };
        let asked = match self.hedges_after(request) {
            None => self.ask(request, owner, epoch, false, try_deadline).await,
            Some(delay) => match Box::pin(self.ask_hedged(request, owner, epoch, delay, try_deadline)).await {
                Hedged::Owner(asked) => asked,
                Hedged::Other(answer) => return (Tried::Answered(answer.status()), Some(answer)),
            },
        };
        match asked {
            Ok(answer) if is_faulty(&answer) => (Tried::Faulty, None),
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

    /// Sends a request to a node once, and notes how that goes.
    pub(crate) async fn ask(
        &self,
        request: &Forwarded,
        node: &Arc<Upstream>,
        epoch: u64,
        detached: bool,
        deadline: Instant,
    ) -> Result<Response<AnswerBody>, SendFailed> {
        let underway = node.load().begin();
        let began = underway.began;
        let asked = self.ask_once(request, node, epoch, detached, deadline).await;
        let mut outcome =
            outcome_of(asked.as_ref().map_err(|failed| *failed), deadline.saturating_duration_since(began));
        if request.kind == Kind::Write && outcome == Outcome::TimedOut {
            // It may have been parked by a ring change, or have waited for the database: neither is the node's fault.
            outcome = Outcome::Unjudged;
        }
        underway.judge(outcome);
        if detached || request.read_of.is_some() && self.config.nodes.times_reads() {
            self.note_time(node, detached, outcome, began.elapsed());
        }
        asked
    }

    fn note_time(&self, node: &Upstream, detached: bool, outcome: Outcome, took: Duration) {
        match outcome {
            Outcome::Unjudged => {}
            _ if !detached => {
                node.load().note_read(took);
                self.latencies.note(took);
            }
            Outcome::Good => node.load().peak.note(took),
            // Failing is not being quick.
            Outcome::Failed | Outcome::TimedOut => node.load().peak.note(took.max(limits::READ_TRY)),
        }
    }

    /// The same once the node has a place for it.
    async fn ask_once(
        &self,
        request: &Forwarded,
        node: &Arc<Upstream>,
        epoch: u64,
        detached: bool,
        deadline: Instant,
    ) -> Result<Response<AnswerBody>, SendFailed> {
        let place = match &self.shedding {
            None => None,
            Some(shedding) => shedding.place(node, request.kind).await.map_err(|_| SendFailed::Busy)?,
        };
        let told = self.ask_in_place(request, node, epoch, detached, deadline).await;
        // What was refused or broke off says nothing about how long the work takes.
        let worked = match &told {
            Ok(answer) => !answer.status().is_server_error(),
            Err(failed) => *failed == SendFailed::TimedOut,
        };
        if let Some(place) = place.filter(|_| worked) {
            place.answered();
        }
        told
    }

    /// A read of one entry by a line if that can be, anything else by the pool.
    async fn ask_in_place(
        &self,
        request: &Forwarded,
        node: &Arc<Upstream>,
        epoch: u64,
        detached: bool,
        deadline: Instant,
    ) -> Result<Response<AnswerBody>, SendFailed> {
        let asked = self.access_log.as_ref().map(|_| Instant::now());
        if let Some(question) = request.question(detached)
            && let Some(told) = node.ask(&question, self.authorization.as_ref(), deadline).await
        {
            return told.map(|answer| note_node_time(answer.map(AnswerBody::Whole), asked));
        }
        let sent = self.upstream_request(request, node, epoch, detached);
        Box::pin(node.send(sent, deadline)).await.map(|answer| note_node_time(answer_of(answer), asked))
    }

    fn upstream_request(
        &self,
        request: &Forwarded,
        node: &Upstream,
        epoch: u64,
        detached: bool,
    ) -> Request<Full<Bytes>> {
        let mut sent = Request::new(Full::new(request.body.clone()));
        *sent.method_mut() = request.head.method.clone();
        *sent.uri_mut() = Uri::try_from(&*request.head.target).unwrap_or_default();
        let headers = sent.headers_mut();
        headers.clone_from(&request.head.headers);
        headers.reserve(HEADERS_ROOM);
        headers.insert(header::HOST, node.host().clone());
        if let Ok(user) = HeaderValue::try_from(request.user.as_str()) {
            headers.insert(X_USER_ID, user);
        }
        headers.insert(X_RING_EPOCH, HeaderValue::from(epoch));
        headers.insert(X_REQUEST_ID, request.request_id.clone());
        if let Some(until) = request.head.until {
            headers.insert(X_REQUEST_TIMEOUT_MS, deadline::told(until, Instant::now()));
        }
        if detached {
            headers.insert(X_SHARDCACHE_DETACHED, HeaderValue::from_static("1"));
        }
        if let Some(token) = &self.authorization {
            headers.insert(header::AUTHORIZATION, token.clone());
        }
        sent
    }
}

/// What most of those are answered for whom a busy node has no place.
static OVERLOADED: LazyLock<Prebuilt> = LazyLock::new(|| {
    Prebuilt::of(Problem::new(
        ProblemCode::Overloaded,
        "not executed: the node has as many requests as it can answer soon",
    ))
});

pub(crate) fn problem(code: ProblemCode) -> Response<AnswerBody> {
    let detail = match code {
        ProblemCode::OwnerUnavailable => {
            "not executed: the node that owns this user's entries does not answer, fails too often or refuses our token"
        }
        ProblemCode::Overloaded => return OVERLOADED.response(),
        _ => "the owner was asked to write and gave no answer; read the entry to learn what it is",
    };
    Problem::new(code, detail).into_response()
}

/// Hop-by-hop headers and whatever else a node may say stay behind.
fn answer_of(answer: Response<UpstreamBody>) -> Response<AnswerBody> {
    let (head, body) = answer.into_parts();
    let mut response = Response::new(AnswerBody::Streamed(body));
    *response.status_mut() = head.status;
    let headers = response.headers_mut();
    headers.reserve(HEADERS_ROOM);
    for name in &RESPONSE_HEADERS {
        if let Some(value) = head.headers.get(name) {
            headers.insert(name, value.clone());
        }
    }
    if head.headers.contains_key(header::CONNECTION) {
        without_those_of_this_hop(&head.headers, headers);
    }
    response
}
