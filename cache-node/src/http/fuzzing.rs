//! The readers of request heads, as `tests/fuzz` reaches them.

use http::{HeaderMap, HeaderName, StatusCode};
use origin::{ListRequest, Precondition};
use placement::UserId;
use wire::entries::Version;

use super::conditions::{self, ReadCondition};
use super::{entries, listing};

/// A request that gets a 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRequest;

/// The user of a request to a node.
pub fn user_of(headers: &HeaderMap) -> Result<UserId, BadRequest> {
    entries::user_of(headers).map_err(|_| BadRequest)
}

/// What is stored of a header with an entry.
pub fn stored_header(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, BadRequest> {
    entries::stored_header(headers, name).map_err(|_| BadRequest)
}

/// The page that a query string asks for.
pub fn list_request(query: &str) -> Result<ListRequest, BadRequest> {
    listing::list_request(query).map_err(|_| BadRequest)
}

/// What must hold for a write.
pub fn write_precondition(headers: &HeaderMap) -> Result<Precondition, BadRequest> {
    conditions::write_precondition(headers).map_err(|_| BadRequest)
}

/// The status that a read of an entry of this version comes to, were there no "not found".
pub fn read_condition(headers: &HeaderMap, version: Option<Version>) -> Result<StatusCode, BadRequest> {
    let judged = conditions::read_condition(headers, version).map_err(|_| BadRequest)?;
    Ok(match judged {
        ReadCondition::Send => StatusCode::OK,
        ReadCondition::NotModified => StatusCode::NOT_MODIFIED,
        ReadCondition::Failed => StatusCode::PRECONDITION_FAILED,
    })
}
