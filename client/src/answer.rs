//! What both clients do with an answer: read its body within a limit, and find the problem in an error.

use bytes::{Bytes, BytesMut};
use reqwest::Response;
use wire::Problem;

/// Why the body of an answer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// The peer sends more than any answer of the product may hold.
    #[error("the body is over {limit} bytes")]
    TooLong {
        /// The most this client reads.
        limit: usize,
    },
    /// Not the JSON that belongs to the route.
    #[error("the body is not the JSON of this route")]
    Json(#[from] serde_json::Error),
    /// A header that every answer of the route has is missing or unreadable.
    #[error("the header {0} is missing or wrong")]
    Header(&'static str),
    /// A status that the route does not have, without a problem document.
    #[error("status {0} without a problem document")]
    Status(u16),
}

/// Why a body was not read to its end.
pub(crate) enum BodyError {
    /// The connection broke, or the time is over.
    Broken(reqwest::Error),
    /// Over the limit.
    TooLong(Malformed),
}

/// The whole body, of at most `limit` bytes.
pub(crate) async fn read_body(mut response: Response, limit: usize) -> Result<Bytes, BodyError> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(BodyError::Broken)? {
        if body.len() + chunk.len() > limit {
            return Err(BodyError::TooLong(Malformed::TooLong { limit }));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The problem document of an error answer, whose status must be that of its code.
pub(crate) fn problem(status: http::StatusCode, body: &[u8]) -> Result<Problem, Malformed> {
    let problem: Option<Problem> = serde_json::from_slice(body).ok();
    problem.filter(|problem| problem.code.status() == status).ok_or(Malformed::Status(status.as_u16()))
}
