//! What the end of one try says about the node it went to. Pure.

use std::time::Duration;

use http::{Response, StatusCode, header};
use wire::problem::PROBLEM_JSON;

use crate::limits;
use crate::upstream::SendFailed;

/// What a try says about its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The node did its work.
    Good,
    /// It could not be reached, broke off, or answered with an error that is its own.
    Failed,
    /// It had time enough and did not answer.
    TimedOut,
    /// Nothing: the fault is shared by all nodes, or ours, or the client's.
    Unjudged,
}

/// Judges a try that had so much time.
///
/// A node says with a problem document why it cannot: the origin is away (so it is for all), too much is in progress (a limit,
/// not a fault), the slot is sealed or moving (a ring change). Errors without one come from something else in its place.
pub(crate) fn outcome_of<B>(tried: Result<&Response<B>, SendFailed>, had: Duration) -> Outcome {
    match tried {
        Ok(answer) => match answer.status() {
            StatusCode::MISDIRECTED_REQUEST | StatusCode::UNAUTHORIZED => Outcome::Unjudged,
            _ if is_faulty(answer) => Outcome::Failed,
            status if status.is_server_error() => Outcome::Unjudged,
            _ => Outcome::Good,
        },
        Err(SendFailed::Unreachable | SendFailed::Broken) => Outcome::Failed,
        Err(SendFailed::TimedOut) if had >= limits::FAIR_TRY => Outcome::TimedOut,
        Err(SendFailed::TimedOut | SendFailed::Busy) => Outcome::Unjudged,
    }
}

/// Whether no node of ours gives such an answer: an error without a problem document. Nobody knows what it stands for.
pub(crate) fn is_faulty<B>(answer: &Response<B>) -> bool {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    answer.status().is_server_error() && kind.is_none_or(|kind| kind != PROBLEM_JSON)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn answered(status: u16, kind: &'static str) -> Outcome {
        let mut answer = Response::new(());
        *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        outcome_of(Ok(&answer), Duration::ZERO)
    }

    #[test]
    fn only_errors_that_are_the_nodes_own_count_against_it() {
        for status in [200, 204, 304, 404, 412, 413] {
            assert_eq!(answered(status, "text/plain"), Outcome::Good);
        }
        for status in [500, 502, 503, 504] {
            assert_eq!(answered(status, "text/html"), Outcome::Failed);
            assert_eq!(answered(status, PROBLEM_JSON), Outcome::Unjudged, "it says why it cannot");
        }
        assert_eq!((answered(421, ""), answered(401, "")), (Outcome::Unjudged, Outcome::Unjudged));
    }

    #[test]
    fn a_try_that_had_too_little_time_says_nothing() {
        let failed = |failed, had| outcome_of::<()>(Err(failed), had);
        assert_eq!(failed(SendFailed::TimedOut, limits::READ_TRY), Outcome::TimedOut);
        assert_eq!(failed(SendFailed::TimedOut, Duration::from_millis(100)), Outcome::Unjudged);
        assert_eq!(failed(SendFailed::Busy, limits::READ_TRY), Outcome::Unjudged);
        for broken in [SendFailed::Broken, SendFailed::Unreachable] {
            assert_eq!(failed(broken, Duration::ZERO), Outcome::Failed);
        }
    }
}
