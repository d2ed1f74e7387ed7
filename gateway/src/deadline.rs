//! How long a client is willing to wait: `X-Request-Timeout-Ms`, and what of it a node is told.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use tokio::time::Instant;
use wire::headers::X_REQUEST_TIMEOUT_MS;
use wire::{Problem, ProblemCode};

use crate::limits;

/// Until when the client waits; `None`: it does not say.
pub(crate) fn until(headers: &HeaderMap, began: Instant) -> Result<Option<Instant>, Problem> {
    let mut values = headers.get_all(X_REQUEST_TIMEOUT_MS).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let wait = wire::headers::timeout_ms(value).filter(|wait| *wait <= limits::CLIENT_TIMEOUT_MAX);
    match (wait, values.next()) {
        (Some(wait), None) => Ok(Some(began + wait)),
        _ => Err(Problem::new(ProblemCode::RequestInvalid, "X-Request-Timeout-Ms is one whole number from 1 to 60000")),
    }
}

/// What a node is told: how long an answer is of use, with a margin for its way back.
pub(crate) fn told(until: Instant, now: Instant) -> HeaderValue {
    let left = until.saturating_duration_since(now);
    let margin = limits::TIMEOUT_MARGIN.min(left / 4);
    HeaderValue::from(u64::try_from((left - margin).as_millis()).unwrap_or(u64::MAX).max(1))
}

/// The time that is left, at most `most`.
pub(crate) fn left(until: Option<Instant>, now: Instant, most: Duration) -> Duration {
    until.map_or(most, |until| until.saturating_duration_since(now).min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (X_REQUEST_TIMEOUT_MS, HeaderValue::from_static(value))).fold(
            HeaderMap::new(),
            |mut headers, (name, value)| {
                headers.append(name, value);
                headers
            },
        )
    }

    #[test]
    fn one_number_from_1_to_60000_is_a_time_and_nothing_else_is() {
        let began = Instant::now();
        let wait = |values: &[&'static str]| {
            let until = until(&headers(values), began).map_err(|problem| problem.code);
            until.map(|until| until.map(|until| (until - began).as_millis()))
        };
        assert_eq!(wait(&[]), Ok(None));
        assert_eq!(wait(&["1"]), Ok(Some(1)));
        assert_eq!(wait(&["60000"]), Ok(Some(60_000)));
        for values in
            [&[""][..], &["0"], &["60001"], &["-1"], &["+1"], &["1.5"], &["1s"], &["99999999999999999999"], &["5", "5"]]
        {
            assert_eq!(wait(values), Err(ProblemCode::RequestInvalid), "{values:?}");
        }
    }

    #[test]
    fn a_node_is_told_a_little_less_than_what_is_left_and_never_nothing() {
        let now = Instant::now();
        for (left, expected) in [(0, "1"), (1, "1"), (8, "6"), (80, "60"), (1000, "980"), (60_000, "59980")] {
            assert_eq!(told(now + Duration::from_millis(left), now), expected, "{left}");
        }
        assert_eq!(left(None, now, Duration::from_secs(1)), Duration::from_secs(1));
        assert_eq!(left(Some(now), now, Duration::from_secs(1)), Duration::ZERO);
    }
}
