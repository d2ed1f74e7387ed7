//! How long an answer is of use to the gateway that asks: `X-Request-Timeout-Ms`.
//!
//! A read is dropped when that time is over, as when its gateway goes away. A write is dropped only as long as it waits to be
//! registered (protocol X1): that is `write_path`'s to see to.

use http::{HeaderMap, Response};
use tokio::time::{Instant, timeout_at};
use wire::ProblemCode;
use wire::headers::{X_REQUEST_TIMEOUT_MS, timeout_ms};

use super::answer;

/// Until when the answer is of use; `None`: nothing is said, or nothing that can be read. Gateways answer for what clients send.
pub(crate) fn until(headers: &HeaderMap, now: Instant) -> Option<Instant> {
    headers.get(X_REQUEST_TIMEOUT_MS).and_then(timeout_ms).map(|wait| now + wait)
}

/// What a read answers, or that it does not in time.
pub(crate) async fn read_until<B: From<bytes::Bytes>>(
    until: Option<Instant>,
    read: impl Future<Output = Response<B>>,
) -> Response<B> {
    let Some(until) = until else { return read.await };
    let too_late = |_| answer::problem(ProblemCode::OwnerUnavailable, "there is no answer within X-Request-Timeout-Ms");
    timeout_at(until, read).await.unwrap_or_else(too_late)
}
