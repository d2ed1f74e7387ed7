//! `GET /internal/users/top`, and for whom a request of the data plane is counted.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use http::{Request, Response};
use hyper::body::{Body as _, Incoming};
use placement::UserId;
use wire::ProblemCode;
use wire::users::{UsersReport, top_limit};

use super::{answer, entries};
use crate::clock::Moment;
use crate::limits;
use crate::node::Node;

/// The users that cost this node most.
pub(super) async fn top(
    State(node): State<Arc<Node>>,
    RawQuery(query): RawQuery,
) -> Result<Json<UsersReport>, Response<Body>> {
    let limit = top_limit(query.as_deref())
        .map_err(|invalid| answer::problem(ProblemCode::RequestInvalid, invalid.to_string()))?;
    let incarnation = node.status.incarnation();
    Ok(Json(node.accounting.top(node.config.node_id.clone(), incarnation, limit, Moment::now())))
}

/// Whose request it is, if anybody's, and the bytes of its body: as many as it says, but no more than are read of any.
pub(super) fn asking(node: &Node, request: &Request<Incoming>) -> (Option<UserId>, u64) {
    let read_at_most = node.config.max_value_bytes.max(limits::JSON_BODY_MAX);
    (entries::user_of(request.headers()).ok(), request.body().size_hint().lower().min(read_at_most))
}
