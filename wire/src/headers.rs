//! Header names of our own, as constants.

use std::time::Duration;

use http::{HeaderName, HeaderValue};

/// The routing key of a data-plane request.
pub const X_USER_ID: HeaderName = HeaderName::from_static("x-user-id");
/// The ring epoch the sender routed by (request), or holds (answer).
pub const X_RING_EPOCH: HeaderName = HeaderName::from_static("x-ring-epoch");
/// Which node answered.
pub const X_CACHE_NODE: HeaderName = HeaderName::from_static("x-cache-node");
/// Names one request in logs and answers.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// `1` asks any node for a direct read of the origin (protocol G6).
pub const X_SHARDCACHE_DETACHED: HeaderName = HeaderName::from_static("x-shardcache-detached");
/// How long, from when it is read, an answer is of use to whoever sent the request, in milliseconds ([`timeout_ms`]).
pub const X_REQUEST_TIMEOUT_MS: HeaderName = HeaderName::from_static("x-request-timeout-ms");
/// Which tier answered, RFC 9211.
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
/// Trace context, W3C.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Trace context, W3C.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// What an entry without its own `Cache-Control` is served with.
pub const DEFAULT_CACHE_CONTROL: &str = "private, no-cache";
/// What an entry stored without a `Content-Type` is served with.
pub const DEFAULT_CONTENT_TYPE: &str = "application/octet-stream";

/// The time in an [`X_REQUEST_TIMEOUT_MS`]: a whole number from 1 on, in digits alone; `None`: it is none.
pub fn timeout_ms(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    let milliseconds: u32 = text.parse().ok()?;
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds.into()))
}
