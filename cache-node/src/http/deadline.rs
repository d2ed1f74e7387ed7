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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;

    use super::*;
    use crate::http::reads;
    use crate::interleavings::{fixture, name, put, value};
    use crate::read_path::begin_load_for_test;
    use crate::write_path::{WriteRefused, WriteRequest};

    fn soon() -> Option<Instant> {
        let headers = HeaderMap::from_iter([(X_REQUEST_TIMEOUT_MS, HeaderValue::from_static("30"))]);
        until(&headers, Instant::now())
    }

    #[tokio::test]
    async fn a_read_that_comes_to_nothing_in_time_is_answered_503_and_its_load_goes_on_for_others() {
        let fixture = fixture().await;
        let node = &fixture.node;
        let load = begin_load_for_test(node, &name("k"));
        let (key, headers) = (name("k"), HeaderMap::new());
        let late: Response<bytes::Bytes> = read_until(soon(), reads::owned(node, &key, &headers)).await;
        assert_eq!(late.status(), ProblemCode::OwnerUnavailable.status());
        drop(load);
        let in_time: Response<bytes::Bytes> = read_until(None, reads::owned(node, &key, &headers)).await;
        assert_eq!(in_time.status(), ProblemCode::EntryNotFound.status());
    }

    #[tokio::test]
    async fn a_write_waits_for_its_turn_no_longer_than_it_is_of_use_and_is_not_carried_out_after_that() {
        let fixture = fixture().await;
        let node = &fixture.node;
        let another = node.register_for_test(&name("k"));
        let refused = node.write(WriteRequest { until: soon(), ..put("k", "late") }).await;
        assert!(matches!(refused, Err(WriteRefused::Parked(_))), "{refused:?}");
        drop(another);
        node.write(WriteRequest { until: Some(Instant::now() + Duration::from_secs(60)), ..put("k2", "v") })
            .await
            .expect("written");
        assert_eq!(value(node, "k").await.0, None);
    }

    #[tokio::test]
    async fn a_write_that_is_registered_is_carried_out_though_nobody_waits() {
        let fixture = fixture().await;
        let node = &fixture.node;
        // Its time is over, and there is nothing that it has to wait for.
        node.write(WriteRequest { until: Some(Instant::now()), ..put("k", "v") }).await.expect("written");
        assert_eq!(value(node, "k").await.0.as_deref(), Some("v"));
    }
}
