//! Turning a request away for as little work as there can be, without costing its client the connection.

use http::{HeaderValue, Request, Response, header};
use hyper::body::{Body, Incoming};
use service::body::read_limited;

use super::leave_unread;
use crate::answer_body::AnswerBody;
use crate::limits;

/// The answer. A small body is here with its head: it is thrown away, and the connection can be used again, which costs both
/// sides less than another one. Any other body stays unread, and the connection ends.
pub(super) async fn turned_away(
    request: Request<Incoming>,
    mut response: Response<AnswerBody>,
) -> Response<AnswerBody> {
    let (head, body) = request.into_parts();
    let small = body.size_hint().upper().is_some_and(|bytes| bytes <= limits::UNWANTED_BODY_MAX);
    if !small || head.headers.contains_key(header::EXPECT) {
        response.headers_mut().extend(leave_unread(&head.headers, body));
    } else if read_limited(body, limits::UNWANTED_BODY_MAX, limits::UNWANTED_BODY_WAIT).await.is_err() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
