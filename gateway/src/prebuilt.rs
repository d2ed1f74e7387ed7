//! An error answer that is put together once and given often: to those who come when there is too much to do.

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use wire::Problem;

use crate::answer_body::AnswerBody;

/// The answer to a request that goes no further; boxed, for few requests have one and all have room for it.
pub(crate) type Refusal = Box<Response<AnswerBody>>;

/// The answer to a problem whose text is always the same.
#[derive(Debug)]
pub(crate) struct Prebuilt {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Prebuilt {
    pub(crate) fn of(problem: Problem) -> Self {
        let (head, body) = problem.into_response::<Bytes>().into_parts();
        Self { status: head.status, headers: head.headers, body }
    }

    pub(crate) fn response(&self) -> Response<AnswerBody> {
        let mut response = Response::new(AnswerBody::Whole(self.body.clone()));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }
}
