//! `/internal/handoffs/{stream}`: an old owner opens a stream to us.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use http::{HeaderValue, Request, Response, StatusCode, header};
use wire::ProblemCode;
use wire::handoff::UPGRADE;

use super::answer;
use crate::limits;
use crate::node::Node;

/// 101, and the connection is the stream's; 409 for another version, 503 for too many.
pub(super) async fn receive(
    State(node): State<Arc<Node>>,
    Path(stream): Path<String>,
    mut request: Request<Body>,
) -> Response<Body> {
    let upgrade = HeaderValue::from_static(UPGRADE);
    if request.headers().get(header::UPGRADE) != Some(&upgrade) {
        let why = format!("this node takes streams by `Upgrade: {UPGRADE}` only");
        return answer::problem(ProblemCode::ChangeConflict, why);
    }
    if stream.is_empty() || stream.len() > limits::HANDOFF_ID_MAX {
        return answer::problem(ProblemCode::RequestInvalid, "a stream has an id of 1 to 64 bytes");
    }
    let Ok(permit) = Arc::clone(&node.handoff.received).try_acquire_owned() else {
        return answer::problem(ProblemCode::Overloaded, "too many streams are being received");
    };
    let on_upgrade = hyper::upgrade::on(&mut request);
    let taking = crate::handoff::receive(Arc::clone(&node), Arc::from(stream), on_upgrade);
    node.handoff.tasks.spawn(async move {
        taking.await;
        drop(permit);
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(header::UPGRADE, upgrade);
    response
}
