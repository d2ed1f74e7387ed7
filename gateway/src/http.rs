//! The gateway's routes on one screen. The data plane is served before the router; the router has all the rest.

mod health;
mod openapi;
mod ring;
mod status_page;

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use hyper::body::{Body as _, Incoming};
use placement::UserId;
use service::body::{BodyError, read_limited, refuse};
use service::listen::Handler;
use service::request_metrics::Route;
use tokio::time::Instant;
use tower::ServiceExt;
use wire::entries::{ENTRIES_LIST, ENTRIES_MGET, ENTRIES_PREFIX};
use wire::headers::{X_REQUEST_ID, X_RING_EPOCH};
use wire::{Problem, ProblemCode};

use crate::admit::Admitted;
use crate::answer_body::AnswerBody;
use crate::forward::{Forwarded, Head};
use crate::gateway::Gateway;
use crate::limits;
use crate::retry::Kind;

/// The service of one gateway.
pub(crate) struct App {
    gateway: Arc<Gateway>,
    router: Router,
}

impl App {
    pub(crate) fn new(gateway: Arc<Gateway>) -> Self {
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
        Self { gateway, router }
    }

    /// No route of the router takes a body: what a client sends all the same must not cost it the answer.
    async fn without_body(&self, request: Request<Incoming>, client: Client) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        head.extensions.insert(client);
        let closing = leave_unread(&head.headers, body);
        let Ok(mut response) = self.router.clone().oneshot(Request::from_parts(head, Body::empty())).await;
        response.headers_mut().extend(closing);
        response
    }

    /// What is done before anything is waited for: of a read by line nothing of the request is kept as it came.
    fn begin(&self, request: Request<Incoming>, client: Client, request_id: &HeaderValue) -> Answering<'_> {
        let path = request.uri().path();
        if !path.starts_with(ENTRIES_PREFIX) && path != ENTRIES_LIST && path != ENTRIES_MGET {
            return Box::pin(async move { self.without_body(request, client).await.map(AnswerBody::Page) });
        }
        let began = Instant::now();
        let route = Route::of(request.method(), path);
        let checked = match self.gateway.in_progress.try_acquire() {
            Err(_) => Err(Problem::new(ProblemCode::Overloaded, "too many requests are in progress here")),
            Ok(permit) => self.gateway.admit(&request, route, client.0).map(|admitted| (permit, admitted)),
        };
        let request_id = request_id.clone();
        match checked {
            Err(problem) => {
                let response = self.conclude(refused(request, problem), route, began);
                Box::pin(std::future::ready(response))
            }
            Ok((permit, Admitted { user, key: Some(key) })) if matches!(route, Route::get | Route::head) => {
                let read = Forwarded::read(Head::of(&request), user, key, request_id);
                Box::pin(async move {
                    let _permit = permit;
                    let response = self.gateway.forward(&read, began).await;
                    self.conclude(response, route, began)
                })
            }
            Ok((permit, Admitted { user, .. })) => Box::pin(async move {
                let _permit = permit;
                let response = self.with_body(request, route, user, request_id).await;
                self.conclude(response, route, began)
            }),
        }
    }

    /// Counts an answer of the data plane, and gives it what they all have.
    fn conclude(&self, mut response: Response<AnswerBody>, route: Route, began: Instant) -> Response<AnswerBody> {
        let gateway = &self.gateway;
        // A node's answer has the epoch that the node holds; one of our own has ours.
        response.headers_mut().entry(X_RING_EPOCH).or_insert_with(|| HeaderValue::from(gateway.ring.view().epoch().0));
        gateway.metrics.requests.observe(route, response.status(), began.elapsed());
        response
    }

    /// What may have a body; all else that can be wrong was found before it is asked for.
    async fn with_body(
        &self,
        request: Request<Incoming>,
        route: Route,
        user: UserId,
        request_id: HeaderValue,
    ) -> Response<AnswerBody> {
        let head = Head::of(&request);
        let body = request.into_body();
        let limit = if route == Route::mget { limits::MGET_BODY_MAX } else { self.gateway.config.max_value_bytes };
        let body = match route {
            Route::put | Route::mget => read_limited(body, limit, limits::BODY_DEADLINE).await,
            _ => Ok(Bytes::new()),
        };
        let body = match body {
            Ok(body) => body,
            Err(error) => return body_failed(error),
        };
        let kind = if matches!(route, Route::put | Route::delete) { Kind::Write } else { Kind::Read };
        let forwarded = Forwarded { head, user, read_of: None, request_id, body, kind };
        // The body was waited for in a time of its own.
        self.gateway.forward(&forwarded, Instant::now()).await
    }
}

impl Handler for App {
    type Body = AnswerBody;

    fn respond(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response<AnswerBody>> + Send {
        let request_id = service::request_id::of(request.headers());
        let answering = self.begin(request, Client(peer.ip()), &request_id);
        async move {
            let mut response = answering.await;
            response.headers_mut().insert(X_REQUEST_ID, request_id);
            response
        }
    }
}

/// What is left to do of a request. Boxed: the server moves its future about for each request, all of its size. What is not on
/// the way of a read by line is boxed once more in `forward`, so that this is small.
type Answering<'a> = Pin<Box<dyn Future<Output = Response<AnswerBody>> + Send + 'a>>;

/// The address of the client; the router's requests have it as an extension.
#[derive(Clone, Copy)]
struct Client(IpAddr);

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
    response.headers_mut().extend(leave_unread(&head.headers, body));
    response
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
