//! The gateway's routes on one screen. The data plane is served before the router; the router has all the rest.

mod health;
mod openapi;
mod options;
pub(crate) mod pages;
mod ring;
mod status_page;
mod turn_away;

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use placement::UserId;
use service::body::{BodyError, read_limited, refuse};
use service::listen::Handler;
use service::request_metrics::Route;
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;
use tower::ServiceExt;
use wire::entries::{ENTRIES_LIST, ENTRIES_MGET, ENTRIES_PREFIX};
use wire::headers::{X_REQUEST_ID, X_RING_EPOCH};
use wire::{Problem, ProblemCode};

use crate::access_log::Entry;
use crate::admit::Admitted;
use crate::answer_body::AnswerBody;
use crate::client_address::ClientAddress;
use crate::deadline;
use crate::forward::{Forwarded, Head};
use crate::gateway::Gateway;
use crate::identity::challenge;
use crate::limits;
use crate::pass::Pass;
use crate::retry::Kind;
use pages::Door;

/// The service of one gateway.
pub(crate) struct App {
    gateway: Arc<Gateway>,
    pages: Pages,
}

/// Everything but the data plane, at one door.
pub(crate) struct Pages {
    gateway: Arc<Gateway>,
    door: Door,
    router: Router,
}

impl Pages {
    pub(crate) fn new(gateway: Arc<Gateway>, door: Door) -> Self {
        let router = Router::new()
            .route("/", get(status_page::page))
            .route("/healthz", get(health::healthz))
            .route("/readyz", get(health::readyz))
            .route("/metrics", get(health::metrics))
            .route("/openapi.json", get(openapi::document))
            .route("/v1/ring", get(ring::ring))
            .route("/v1/ring/locate", get(ring::locate))
            .route("/v1/users/top", get(crate::users::top))
            .fallback(|| async { problem::<Body>(ProblemCode::NotFound, "see the README for the routes") })
            .method_not_allowed_fallback(|| async { problem::<Body>(ProblemCode::MethodNotAllowed, "see Allow") })
            .with_state(Arc::clone(&gateway));
        Self { gateway, door, router }
    }

    /// No route of the router takes a body: what a client sends all the same must not cost it the answer.
    async fn answer(&self, request: Request<Incoming>, peer: IpAddr) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        let closing = leave_unread(&head.headers, body);
        let asks_for_options = head.method == Method::OPTIONS;
        let challenge = challenge(&head.headers);
        let mut response = match pages::may_see(&self.gateway, &head, peer, self.door) {
            Ok(client) => {
                head.extensions.insert(Client { address: client, door: self.door });
                let Ok(response) = self.router.clone().oneshot(Request::from_parts(head, Body::empty())).await;
                if asks_for_options { options::of_refused(response) } else { response }
            }
            Err(problem) => problem.into_response(),
        };
        ask_who(&mut response, challenge);
        response.headers_mut().extend(closing);
        response
    }
}

impl App {
    pub(crate) fn new(gateway: Arc<Gateway>) -> Self {
        Self { pages: Pages::new(Arc::clone(&gateway), Door::Public), gateway }
    }

    /// What is done before anything is waited for: of a read by line nothing of the request is kept as it came.
    fn begin(&self, request: Request<Incoming>, peer: IpAddr, request_id: &HeaderValue) -> Answering<'_> {
        let path = request.uri().path();
        if !path.starts_with(ENTRIES_PREFIX) && path != ENTRIES_LIST && path != ENTRIES_MGET {
            return Box::pin(async move { self.pages.answer(request, peer).await.map(AnswerBody::Page) });
        }
        let began = Instant::now();
        let route = Route::of(request.method(), path);
        let client = self.gateway.config.clients.client_of(peer, request.headers());
        let mut entry = self.gateway.access_log.as_ref().map(|log| {
            let client = client.as_ref().map_or(peer.to_canonical(), |client| client.address);
            log.begin(client, request.method(), route, request_id)
        });
        let checked = match self.gateway.in_progress.try_acquire() {
            Err(_) => Err(Problem::new(ProblemCode::Overloaded, "too many requests are in progress here")),
            Ok(permit) => {
                let admitted =
                    client.and_then(|client| Ok((self.gateway.admit(&request, route, client)?, client.address)));
                admitted.map(|(admitted, address)| (permit, admitted, address))
            }
        };
        if let (Some(entry), Ok((_, admitted, _))) = (&mut entry, &checked) {
            entry.of_user(&admitted.user);
        }
        let request_id = request_id.clone();
        match checked {
            Err(problem) => {
                let asks_for_options = request.method() == Method::OPTIONS;
                let mut response = refused(request, problem);
                if asks_for_options {
                    response = options::of_refused(response);
                }
                let response = self.conclude(response, route, began, entry);
                Box::pin(std::future::ready(response))
            }
            Ok((permit, admitted, address)) => {
                match self.gateway.pass(request.headers(), route, &admitted.user, address, began) {
                    Ok(pass) => self.answer(request, admitted, Going { route, permit, pass, request_id, began, entry }),
                    Err(refusal) => Box::pin(async move {
                        let response = turn_away::turned_away(request, *refusal).await;
                        self.conclude(response, route, began, entry)
                    }),
                }
            }
        }
    }

    /// What a request that is let through is answered.
    fn answer<'a>(&'a self, request: Request<Incoming>, admitted: Admitted, going: Going<'a>) -> Answering<'a> {
        let Going { route, permit, pass, request_id, began, entry } = going;
        match admitted {
            Admitted { user, key: Some(key) } if matches!(route, Route::get | Route::head) => {
                let read = Forwarded::read(Head::of(&request, pass.until), user, key, request_id);
                Box::pin(async move {
                    let _permit = permit;
                    let mut response = self.gateway.forward_with(&pass, &read, began).await;
                    self.gateway.tell(&pass, response.headers_mut());
                    self.conclude(response, route, began, entry)
                })
            }
            Admitted { user, .. } => Box::pin(async move {
                let _permit = permit;
                let mut response = self.with_body(request, route, user, &pass, request_id).await;
                self.gateway.tell(&pass, response.headers_mut());
                self.conclude(response, route, began, entry)
            }),
        }
    }

    /// Counts an answer of the data plane, and gives it what they all have.
    fn conclude(
        &self,
        mut response: Response<AnswerBody>,
        route: Route,
        began: Instant,
        entry: Option<Entry>,
    ) -> Response<AnswerBody> {
        let gateway = &self.gateway;
        // A node's answer has the epoch that the node holds; one of our own has ours.
        response.headers_mut().entry(X_RING_EPOCH).or_insert_with(|| HeaderValue::from(gateway.ring.view().epoch().0));
        gateway.metrics.requests.observe(route, response.status(), began.elapsed());
        match entry {
            Some(entry) => entry.answered(response),
            None => response,
        }
    }

    /// What may have a body; all else that can be wrong was found before it is asked for.
    async fn with_body(
        &self,
        request: Request<Incoming>,
        route: Route,
        user: UserId,
        pass: &Pass,
        request_id: HeaderValue,
    ) -> Response<AnswerBody> {
        let head = Head::of(&request, pass.until);
        let body = request.into_body();
        let limit = if route == Route::mget { limits::MGET_BODY_MAX } else { self.gateway.config.max_value_bytes };
        let body = match route {
            Route::put | Route::mget => {
                let patience = deadline::left(pass.until, Instant::now(), limits::BODY_DEADLINE);
                read_limited(body, limit, patience).await
            }
            _ => Ok(Bytes::new()),
        };
        let body = match body {
            Ok(body) => body,
            Err(error) => return body_failed(error),
        };
        let kind = if matches!(route, Route::put | Route::delete) { Kind::Write } else { Kind::Read };
        let forwarded = Forwarded { head, user, read_of: None, request_id, body, kind, by_any: route == Route::list };
        // The body was waited for in a time of its own.
        self.gateway.forward_with(pass, &forwarded, Instant::now()).await
    }
}

/// What goes with one request of the data plane from its admission to its answer.
struct Going<'a> {
    route: Route,
    permit: SemaphorePermit<'a>,
    pass: Pass,
    request_id: HeaderValue,
    began: Instant,
    entry: Option<Entry>,
}

impl Handler for App {
    type Body = AnswerBody;

    const SPEAKS_HTTP2: bool = true;

    fn respond(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response<AnswerBody>> + Send {
        let request_id = service::request_id::of(request.headers());
        let answering = self.begin(request, peer.ip(), &request_id);
        async move {
            let mut response = answering.await;
            response.headers_mut().insert(X_REQUEST_ID, request_id);
            response
        }
    }
}

/// At a door without a data plane.
impl Handler for Pages {
    type Body = Body;

    async fn respond(&self, request: Request<Incoming>, peer: SocketAddr) -> Response<Body> {
        let request_id = service::request_id::of(request.headers());
        let mut response = self.answer(request, peer.ip()).await;
        response.headers_mut().insert(X_REQUEST_ID, request_id);
        response
    }
}

/// What is left to do of a request. Boxed: the server moves its future about for each request, all of its size. What is not on
/// the way of a read by line is boxed once more in `forward`, so that this is small.
type Answering<'a> = Pin<Box<dyn Future<Output = Response<AnswerBody>> + Send + 'a>>;

/// Where a request of the router comes from: an extension of it.
#[derive(Clone, Copy)]
struct Client {
    address: ClientAddress,
    door: Door,
}

/// An error answer to a request whose body, if any, stays unread; the connection ends with it in that case.
fn refused(request: Request<Incoming>, problem: Problem) -> Response<AnswerBody> {
    let code = problem.code;
    let detail = problem.detail.clone();
    let mut response: Response<AnswerBody> = problem.into_response();
    if code == ProblemCode::MethodNotAllowed
        && let Some(allow) = detail.strip_prefix("this route has ").and_then(|allow| HeaderValue::try_from(allow).ok())
    {
        response.headers_mut().insert(header::ALLOW, allow);
    }
    let (head, body) = request.into_parts();
    ask_who(&mut response, challenge(&head.headers));
    response.headers_mut().extend(leave_unread(&head.headers, body));
    response
}

/// What a 401 must say.
fn ask_who<B>(response: &mut Response<B>, challenge: HeaderValue) {
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
}

/// Leaves a body unread; what the answer must then say, for the connection ends with it.
fn leave_unread(request_headers: &HeaderMap, body: Incoming) -> Option<(HeaderName, HeaderValue)> {
    let unread = !body.is_end_stream();
    refuse(request_headers, body);
    unread.then_some((header::CONNECTION, HeaderValue::from_static("close")))
}

fn body_failed(error: BodyError) -> Response<AnswerBody> {
    let mut response = match error {
        BodyError::TooLarge => problem(ProblemCode::ValueTooLarge, "the body is over the limit of this cluster"),
        BodyError::Timeout => problem(ProblemCode::RequestTimeout, "the body did not arrive in time"),
        BodyError::Broken => problem(ProblemCode::RequestInvalid, "the body did not arrive whole"),
    };
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn problem<B: From<Bytes>>(code: ProblemCode, detail: &str) -> Response<B> {
    Problem::new(code, detail).into_response()
}
