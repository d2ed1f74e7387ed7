//! `/internal/line`: a gateway opens a line to us.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use http::{HeaderValue, Request, Response, StatusCode, header};
use wire::ProblemCode;
use wire::line::UPGRADE;

use super::answer;
use crate::node::Node;

/// 101, and the connection is the line's; 400 for another version, 503 for too many and for a node that stops.
pub(super) async fn open(State(node): State<Arc<Node>>, mut request: Request<Body>) -> Response<Body> {
    let upgrade = HeaderValue::from_static(UPGRADE);
    if request.headers().get(header::UPGRADE) != Some(&upgrade) {
        let why = format!("this node takes lines by `Upgrade: {UPGRADE}` only");
        return answer::problem(ProblemCode::RequestInvalid, why);
    }
    let on_upgrade = hyper::upgrade::on(&mut request);
    if !crate::line::begin(&node, on_upgrade) {
        return answer::problem(ProblemCode::Overloaded, "this node takes no more lines");
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(header::UPGRADE, upgrade);
    response
}
