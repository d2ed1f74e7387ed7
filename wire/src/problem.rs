//! The only table of error codes: status, title, and whether the request was executed.
//!
//! Answers are RFC 9457 `application/problem+json`.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde::{Deserialize, Serialize};

/// The media type of an error answer.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// What a `Retry-After` of ours says, in seconds.
pub const RETRY_AFTER_SECONDS: u64 = 1;

/// Every error the product answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemCode {
    /// No `X-User-ID`, or an empty one.
    UserIdMissing,
    /// `X-User-ID` twice, too long, or with bytes that are not visible ASCII.
    UserIdInvalid,
    /// The key in the path is no key.
    KeyInvalid,
    /// A query parameter, header or JSON body that cannot be understood.
    RequestInvalid,
    /// The body is over `SHARDCACHE_MAX_VALUE_BYTES`.
    ValueTooLarge,
    /// The body did not arrive in time.
    RequestTimeout,
    /// The user has no entry of that key.
    EntryNotFound,
    /// `If-Match` or `If-None-Match` does not hold.
    PreconditionFailed,
    /// Too many requests from this client.
    RateLimited,
    /// Too many requests in progress here.
    Overloaded,
    /// The owner of the slot cannot be reached or does not take writes now; not executed.
    OwnerUnavailable,
    /// The database cannot be reached; not executed.
    OriginUnavailable,
    /// The write may or may not have happened.
    WriteOutcomeUnknown,
    /// No or a wrong bearer token.
    Unauthorized,
    /// The token or the client address does not allow it, or the token is of another user.
    Forbidden,
    /// No such route.
    NotFound,
    /// The route has no such method.
    MethodNotAllowed,
    /// Between gateway and node only: the node does not own the slot; not executed.
    WrongOwner,
    /// Between migrator and node only: the node is sealed for another change, or is fenced.
    ChangeConflict,
}

/// What a client may do after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same request would fail again.
    Never,
    /// Not executed: sending it again, later, is safe.
    Later,
    /// Perhaps executed: sending it again may do it twice.
    Unsafe,
}

impl ProblemCode {
    /// The HTTP status of the code.
    pub fn status(self) -> StatusCode {
        match self {
            Self::UserIdMissing | Self::UserIdInvalid | Self::KeyInvalid | Self::RequestInvalid => {
                StatusCode::BAD_REQUEST
            }
            Self::ValueTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::EntryNotFound | Self::NotFound => StatusCode::NOT_FOUND,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::Overloaded | Self::OwnerUnavailable | Self::OriginUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::WriteOutcomeUnknown => StatusCode::GATEWAY_TIMEOUT,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::WrongOwner => StatusCode::MISDIRECTED_REQUEST,
            Self::ChangeConflict => StatusCode::CONFLICT,
        }
    }

    /// The code as it stands in the `code` member, in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::UserIdMissing => "user_id_missing",
            Self::UserIdInvalid => "user_id_invalid",
            Self::KeyInvalid => "key_invalid",
            Self::RequestInvalid => "request_invalid",
            Self::ValueTooLarge => "value_too_large",
            Self::RequestTimeout => "request_timeout",
            Self::EntryNotFound => "entry_not_found",
            Self::PreconditionFailed => "precondition_failed",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::OwnerUnavailable => "owner_unavailable",
            Self::OriginUnavailable => "origin_unavailable",
            Self::WriteOutcomeUnknown => "write_outcome_unknown",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::WrongOwner => "wrong_owner",
            Self::ChangeConflict => "change_conflict",
        }
    }

    /// A short human title, the same for every occurrence.
    pub fn title(self) -> &'static str {
        match self {
            Self::UserIdMissing => "The X-User-ID header is missing",
            Self::UserIdInvalid => "The X-User-ID header is not a user id",
            Self::KeyInvalid => "The path does not hold a valid key",
            Self::RequestInvalid => "The request cannot be understood",
            Self::ValueTooLarge => "The value is too large",
            Self::RequestTimeout => "The request did not arrive in time",
            Self::EntryNotFound => "There is no such entry",
            Self::PreconditionFailed => "The precondition does not hold",
            Self::RateLimited => "Too many requests",
            Self::Overloaded => "Too many requests are in progress",
            Self::OwnerUnavailable => "The owner of this user's entries cannot take the request now",
            Self::OriginUnavailable => "The database cannot be reached",
            Self::WriteOutcomeUnknown => "The write may or may not have happened",
            Self::Unauthorized => "A valid bearer token is required",
            Self::Forbidden => "This is not allowed",
            Self::NotFound => "There is no such route",
            Self::MethodNotAllowed => "The route does not have this method",
            Self::WrongOwner => "This node does not own the slot",
            Self::ChangeConflict => "The node cannot take part in this ring change",
        }
    }

    /// What a client may do.
    pub fn retry(self) -> Retry {
        match self {
            Self::UserIdMissing
            | Self::UserIdInvalid
            | Self::KeyInvalid
            | Self::RequestInvalid
            | Self::ValueTooLarge
            | Self::EntryNotFound
            | Self::PreconditionFailed
            | Self::Unauthorized
            | Self::Forbidden
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::ChangeConflict => Retry::Never,
            Self::RequestTimeout
            | Self::RateLimited
            | Self::Overloaded
            | Self::OwnerUnavailable
            | Self::OriginUnavailable
            | Self::WrongOwner => Retry::Later,
            Self::WriteOutcomeUnknown => Retry::Unsafe,
        }
    }
}

/// One error answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// `urn:shardcache:problem:<code>`.
    #[serde(rename = "type")]
    pub type_uri: String,
    /// [`ProblemCode::title`].
    pub title: String,
    /// The HTTP status again.
    pub status: u16,
    /// What happened this time; never holds a value, key, user id, host or SQL.
    pub detail: String,
    /// The code to program against.
    pub code: ProblemCode,
}

impl Problem {
    /// An error with its detail.
    pub fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self {
            type_uri: format!("urn:shardcache:problem:{}", code.name()),
            title: code.title().to_owned(),
            status: code.status().as_u16(),
            detail: detail.into(),
            code,
        }
    }

    /// The answer: JSON body, `Cache-Control: no-store`, and `Retry-After` where [`Retry::Later`] applies to a 429 or 503.
    pub fn into_response<B: From<Bytes>>(self) -> Response<B> {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = Response::new(B::from(Bytes::from(body)));
        let status = self.code.status();
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_in_json_is_its_name() {
        for code in [ProblemCode::UserIdMissing, ProblemCode::WriteOutcomeUnknown, ProblemCode::WrongOwner] {
            assert_eq!(serde_json::to_string(&code).expect("json"), format!("\"{}\"", code.name()));
        }
    }
}
