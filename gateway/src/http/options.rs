//! `OPTIONS` of any route: what the route has, as the refusal of the method says it. Nothing of CORS: no other origin is let in.

use bytes::Bytes;
use http::{Response, StatusCode, header};

/// The answer to `OPTIONS` made of the one to a method that the route does not have; any other stays.
pub(super) fn of_refused<B: From<Bytes>>(refused: Response<B>) -> Response<B> {
    let (mut head, _) = match refused.status() {
        StatusCode::METHOD_NOT_ALLOWED => refused.into_parts(),
        _ => return refused,
    };
    head.status = StatusCode::NO_CONTENT;
    for of_the_refusal in [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CACHE_CONTROL] {
        head.headers.remove(of_the_refusal);
    }
    Response::from_parts(head, B::from(Bytes::new()))
}
