//! The node's routes on one screen. The data plane is served before the router; the router has all the rest.

mod answer;
mod conditions;
mod control;
pub(crate) mod deadline;
mod entries;
mod fetch;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod handoffs;
mod health;
pub(crate) mod hit;
mod lines;
mod listing;
pub(crate) mod reads;
#[cfg(test)]
mod tests;
mod users;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use http::{HeaderValue, Request, Response, header};
use hyper::body::{Body as _, Incoming};
use service::listen::{AnswerSoon, Handler, PlainGet};
use service::request_metrics::Route;
use tokio::time::Instant;
use tower::ServiceExt;
use wire::ProblemCode;
use wire::entries::{ENTRIES_LIST, ENTRIES_MGET, ENTRIES_PREFIX};
use wire::headers::X_REQUEST_ID;

use crate::limits;
use crate::node::Node;

/// The service of one node.
pub(crate) struct App {
    node: Arc<Node>,
    router: Router,
}

impl App {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let router = Router::new()
            .route("/healthz", get(health::healthz))
            .route("/readyz", get(health::readyz))
            .route("/metrics", get(health::metrics))
            .route("/internal/changes/{change}/copy", post(control::copy))
            .route("/internal/changes/{change}/seal", post(control::seal))
            .route("/internal/changes/{change}/settle", post(control::settle))
            .route("/internal/refresh", post(control::refresh))
            .route("/internal/slots", get(control::slots))
            .route("/internal/load", get(control::load))
            .route(wire::users::NODE_TOP_PATH, get(users::top))
            .route("/internal/handoffs/{stream}", get(handoffs::receive))
            .route(wire::line::PATH, get(lines::open))
            .fallback(|| async { answer::problem::<Body>(ProblemCode::NotFound, "see the README for the routes") })
            .method_not_allowed_fallback(|| async {
                answer::problem::<Body>(ProblemCode::MethodNotAllowed, "this route has another method")
            })
            .layer(DefaultBodyLimit::max(limits::JSON_BODY_MAX as usize))
            .with_state(Arc::clone(&node));
        Self { node, router }
    }

    async fn route(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path();
        if path.starts_with(ENTRIES_PREFIX) || path == ENTRIES_LIST || path == ENTRIES_MGET {
            return self.data_plane(request).await;
        }
        if path.starts_with("/internal/") && !self.authorised(&request) {
            return unauthorised();
        }
        let Ok(response) = self.router.clone().oneshot(request.map(Body::new)).await;
        response
    }

    async fn data_plane(&self, request: Request<Incoming>) -> Response<Body> {
        let node = &self.node;
        let began = Instant::now();
        let request_id = service::request_id::of(request.headers());
        let route = Route::of(request.method(), request.uri().path());
        let until = deadline::until(request.headers(), began);
        let (user, received) = users::asking(node, &request);
        let mut response = match node.in_progress.try_acquire() {
            Err(_) => unread(request, reads::overloaded()),
            Ok(_permit) if !self.authorised(&request) => unread(request, unauthorised()),
            Ok(_permit) if has_body_for_nothing(&request, route) => {
                unread(request, answer::problem(ProblemCode::RequestInvalid, "this request has no body"))
            }
            Ok(_permit) => match route {
                Route::list => deadline::read_until(until, listing::list(node, &request)).await,
                Route::mget => deadline::read_until(until, listing::mget(node, request)).await,
                _ => entries::respond(node, request, until).await,
            },
        };
        if let Some(user) = user {
            let sent = if route == Route::head { 0 } else { response.body().size_hint().lower() };
            reads::account(node, user.as_str(), response.status(), received + sent);
        }
        reads::conclude(node, &mut response, route, began.elapsed());
        response.headers_mut().insert(X_REQUEST_ID, request_id);
        response
    }

    fn authorised<B>(&self, request: &Request<B>) -> bool {
        self.node.config.cluster_token.as_ref().is_none_or(|token| token.authorises(request.headers()))
    }
}

impl Handler for App {
    type Body = Body;

    const ANSWERS_AT_ONCE: bool = true;

    fn answer_at_once(&self, get: &PlainGet<'_>, answer: &mut Vec<u8>) -> bool {
        hit::answer(&self.node, get, answer).is_some()
    }

    fn answer_soon(&self, get: &PlainGet<'_>) -> Option<AnswerSoon> {
        fetch::begin(&self.node, get)
    }

    async fn respond(&self, request: Request<Incoming>, _peer: SocketAddr) -> Response<Body> {
        // Boxed: each connection has room for the future, and keeps it while it is idle.
        Box::pin(self.route(request)).await
    }
}

/// As at the gateway: only a PUT and a multi-get have a body.
fn has_body_for_nothing(request: &Request<Incoming>, route: Route) -> bool {
    matches!(route, Route::get | Route::head | Route::delete | Route::list) && !request.body().is_end_stream()
}

/// Whether the node should be sent traffic, for health routes.
pub(crate) fn is_draining(node: &Node) -> bool {
    node.status.draining.load(Ordering::Acquire)
}

/// An answer given before the body was read. The connection ends with it, and not by a reset: the gateway would have to
/// take a write that was refused for one of unknown outcome.
fn unread(request: Request<Incoming>, mut response: Response<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    if !body.is_end_stream() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        service::body::refuse(&head.headers, body);
    }
    response
}

fn unauthorised() -> Response<Body> {
    answer::problem(ProblemCode::Unauthorized, "the cluster's bearer token is missing or wrong")
}
