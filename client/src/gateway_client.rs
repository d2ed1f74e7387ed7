//! The data plane of a gateway: put, get, delete, multi-get and list, with versions and preconditions.
//!
//! No request is ever sent twice by this client: whether that is safe is the caller's to know, see
//! [`ClientError::may_have_happened`].

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use placement::{EntryKey, UserId};
use reqwest::{RequestBuilder, redirect};
use wire::Problem;
use wire::entries::{self, EntryPage, MgetRequest, MgetResponse, Version};
use wire::headers::{CACHE_STATUS, X_USER_ID};
use wire::problem::Retry;

pub use crate::answer::Malformed;
use crate::answer::{BodyError, problem, read_body};
use crate::tier::Tier;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest answer: a multi-get of 256 values of 1 MiB in base64, and its JSON.
const ANSWER_MAX_BYTES: usize = 384 << 20;

/// A client of one gateway. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: String,
}

/// A stored entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The bytes.
    pub value: Bytes,
    /// Their media type.
    pub content_type: String,
    /// The version, for preconditions.
    pub version: Version,
    /// Which tier answered, when the answer says so.
    pub tier: Option<Tier>,
}

/// When a write is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Always.
    None,
    /// Only when there is no such entry.
    Absent,
    /// Only when the entry still has this version.
    Unchanged(Version),
}

/// A write that has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The version it made.
    pub version: Version,
    /// Whether there was no such entry before.
    pub created: bool,
}

/// Which part of a user's keys to list.
#[derive(Clone, Debug, Default)]
pub struct ListQuery<'a> {
    /// Only keys that begin so.
    pub prefix: Option<&'a str>,
    /// Only keys after this one.
    pub after: Option<&'a str>,
    /// At most so many; the gateway's own bound holds too.
    pub limit: Option<u32>,
}

/// Why a request was not answered as hoped.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection, or no whole answer in time.
    #[error("the gateway cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    /// The gateway answered with a problem.
    #[error("{} ({})", .0.detail, .0.code.name())]
    Refused(Problem),
    /// The answer is none of a gateway of this release.
    #[error("the gateway's answer cannot be understood")]
    Malformed(#[source] Malformed),
    /// The keys `.` and `..` cannot stand in a URL: every URL library resolves them. Use a multi-get to read them.
    #[error("this key cannot be addressed by a URL")]
    KeyNotAddressable,
    /// The HTTP client cannot be made.
    #[error("cannot make an HTTP client")]
    Unavailable(#[source] reqwest::Error),
}

impl ClientError {
    /// Whether a write that ended so may have happened, or may still happen.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Unreachable(error) => !error.is_connect() && !error.is_builder(),
            Self::Refused(problem) => problem.code.retry() == Retry::Unsafe,
            Self::Malformed(_) => true,
            Self::KeyNotAddressable | Self::Unavailable(_) => false,
        }
    }
}

impl Client {
    /// A client of the gateway at `base`, such as `http://127.0.0.1:8080`; each request takes at most `timeout`.
    pub fn new(base: &str, timeout: Duration) -> Result<Self, ClientError> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_TIMEOUT.min(timeout))
            .timeout(timeout)
            .build()
            .map_err(ClientError::Unavailable)?;
        Ok(Self { http, base: base.trim_end_matches('/').to_owned() })
    }

    /// Stores a value.
    pub async fn put(
        &self,
        user: &UserId,
        key: &EntryKey,
        value: Bytes,
        content_type: &str,
        condition: Precondition,
    ) -> Result<Written, ClientError> {
        let request = self.entry(Method::PUT, user, key)?.header(CONTENT_TYPE, content_type).body(value);
        let (status, headers, _) = succeed(conditional(request, condition)).await?;
        Ok(Written { version: version(&headers)?, created: status == StatusCode::CREATED })
    }

    /// Reads an entry; `None` when the user has none of that key.
    pub async fn get(&self, user: &UserId, key: &EntryKey) -> Result<Option<Entry>, ClientError> {
        let Some((_, headers, value)) = found(succeed(self.entry(Method::GET, user, key)?).await)? else {
            return Ok(None);
        };
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        Ok(Some(Entry {
            value,
            content_type: text(CONTENT_TYPE).unwrap_or_default().to_owned(),
            version: version(&headers)?,
            tier: text(CACHE_STATUS).and_then(Tier::of_cache_status),
        }))
    }

    /// Deletes an entry; `false` when there was none.
    pub async fn delete(&self, user: &UserId, key: &EntryKey, condition: Precondition) -> Result<bool, ClientError> {
        let request = conditional(self.entry(Method::DELETE, user, key)?, condition);
        Ok(found(succeed(request).await)?.is_some())
    }

    /// Reads up to [`entries::MGET_MAX_KEYS`] entries, in the order of `keys`.
    pub async fn mget(&self, user: &UserId, keys: &[EntryKey]) -> Result<MgetResponse, ClientError> {
        let body = MgetRequest { keys: keys.iter().map(|key| key.as_str().to_owned()).collect() };
        json(self.request(Method::POST, user, entries::ENTRIES_MGET).json(&body)).await
    }

    /// One page of a user's keys, read from the origin.
    pub async fn list(&self, user: &UserId, query: &ListQuery<'_>) -> Result<EntryPage, ClientError> {
        let mut pairs: Vec<(&str, String)> = Vec::new();
        pairs.extend(query.prefix.map(|prefix| ("prefix", prefix.to_owned())));
        pairs.extend(query.after.map(|after| ("after", after.to_owned())));
        pairs.extend(query.limit.map(|limit| ("limit", limit.to_string())));
        json(self.request(Method::GET, user, entries::ENTRIES_LIST).query(&pairs)).await
    }

    fn entry(&self, method: Method, user: &UserId, key: &EntryKey) -> Result<RequestBuilder, ClientError> {
        if matches!(key.as_str(), "." | "..") {
            return Err(ClientError::KeyNotAddressable);
        }
        let encoded = utf8_percent_encode(key.as_str(), NON_ALPHANUMERIC);
        Ok(self.request(method, user, &format!("{}{encoded}", entries::ENTRIES_PREFIX)))
    }

    fn request(&self, method: Method, user: &UserId, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).header(X_USER_ID, user.as_str())
    }
}

fn conditional(request: RequestBuilder, condition: Precondition) -> RequestBuilder {
    match condition {
        Precondition::None => request,
        Precondition::Absent => request.header(IF_NONE_MATCH, "*"),
        Precondition::Unchanged(version) => request.header(IF_MATCH, version.etag()),
    }
}

type Success = (StatusCode, HeaderMap, Bytes);

/// A successful answer, with its body.
async fn succeed(request: RequestBuilder) -> Result<Success, ClientError> {
    let mut response = request.send().await.map_err(ClientError::Unreachable)?;
    let status = response.status();
    let headers = std::mem::take(response.headers_mut());
    let body = read_body(response, ANSWER_MAX_BYTES).await.map_err(|error| match error {
        BodyError::Broken(source) => ClientError::Unreachable(source),
        BodyError::TooLong(malformed) => ClientError::Malformed(malformed),
    })?;
    if status.is_success() {
        return Ok((status, headers, body));
    }
    Err(problem(status, &body).map_or_else(ClientError::Malformed, ClientError::Refused))
}

/// `entry_not_found` as `None`.
fn found(result: Result<Success, ClientError>) -> Result<Option<Success>, ClientError> {
    match result {
        Err(ClientError::Refused(problem)) if problem.code == wire::ProblemCode::EntryNotFound => Ok(None),
        other => other.map(Some),
    }
}

async fn json<T: serde::de::DeserializeOwned>(request: RequestBuilder) -> Result<T, ClientError> {
    let (_, _, body) = succeed(request).await?;
    serde_json::from_slice(&body).map_err(|error| ClientError::Malformed(Malformed::Json(error)))
}

fn version(headers: &HeaderMap) -> Result<Version, ClientError> {
    let tag = headers.get(ETAG).and_then(|tag| tag.to_str().ok());
    let number = tag.and_then(|tag| tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok());
    number.map(Version).ok_or(ClientError::Malformed(Malformed::Header("ETag")))
}

#[cfg(test)]
mod tests;
