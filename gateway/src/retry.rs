//! What follows from how a try went: answer, go again, go detached, or give up (protocol Gw1–Gw3). Pure.

use http::StatusCode;
use wire::ProblemCode;

use crate::limits;
use crate::upstream::SendFailed;

/// Whether a request changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// May be sent as often as one likes.
    Read,
    /// May be sent again only when known not executed.
    Write,
}

/// How the owner answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// It answered with this status.
    Answered(StatusCode),
    /// It did not.
    Failed(SendFailed),
    /// It answered with an error that no node gives: something else has answered in its place.
    Faulty,
    /// It was not asked: the ring names no owner, or the owner is silent.
    NotAsked,
    /// It was not asked though it answers: it is ejected, or gets only a share of its reads.
    PassedBy,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Give the answer to the client.
    Answer,
    /// Go again to the same owner, on another connection.
    Again,
    /// Get a fresh ring and go again.
    FreshRing,
    /// Get a fresh ring; go again only if it is another, else this problem.
    FreshRingOr(ProblemCode),
    /// Read through any other node.
    Detached,
    /// Give up.
    Problem(ProblemCode),
}

/// What a request has met so far, the try in question included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    /// Answers of 421.
    pub(crate) misdirected: u32,
    /// Connections that broke.
    pub(crate) broken: u32,
}

/// What to do after a try.
pub(crate) fn next(kind: Kind, tried: Tried, met: Met) -> Next {
    match (tried, kind) {
        (Tried::Answered(StatusCode::MISDIRECTED_REQUEST), Kind::Read)
            if met.misdirected >= limits::READ_MISDIRECTED_MAX =>
        {
            Next::Detached
        }
        (Tried::Answered(StatusCode::MISDIRECTED_REQUEST), _) => Next::FreshRing,
        // The node does not take our token, a fault of the set-up: others may, and read for us.
        (Tried::Answered(StatusCode::UNAUTHORIZED), Kind::Read) => Next::Detached,
        (Tried::Answered(StatusCode::UNAUTHORIZED), Kind::Write) => Next::Problem(ProblemCode::OwnerUnavailable),
        (Tried::Answered(_), _) => Next::Answer,
        (Tried::Failed(SendFailed::Busy), _) => Next::Problem(ProblemCode::Overloaded),
        (Tried::Faulty | Tried::Failed(SendFailed::Broken | SendFailed::TimedOut), Kind::Write) => {
            Next::Problem(ProblemCode::WriteOutcomeUnknown)
        }
        (Tried::Failed(SendFailed::Unreachable) | Tried::NotAsked, Kind::Write) => {
            Next::FreshRingOr(ProblemCode::OwnerUnavailable)
        }
        // The node is there: a fresh ring would name it too.
        (Tried::PassedBy, Kind::Write) => Next::Problem(ProblemCode::OwnerUnavailable),
        (Tried::Failed(SendFailed::Broken), Kind::Read) if met.broken < limits::READ_BROKEN_MAX => Next::Again,
        (Tried::Failed(_) | Tried::Faulty | Tried::NotAsked | Tried::PassedBy, Kind::Read) => Next::Detached,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_refuses_our_token_costs_writes_and_no_reads() {
        let refused = Tried::Answered(StatusCode::UNAUTHORIZED);
        assert_eq!(next(Kind::Read, refused, Met::default()), Next::Detached);
        assert_eq!(next(Kind::Write, refused, Met::default()), Next::Problem(ProblemCode::OwnerUnavailable));
    }

    #[test]
    fn a_node_that_is_passed_by_costs_writes_at_once_and_no_reads() {
        assert_eq!(next(Kind::Read, Tried::PassedBy, Met::default()), Next::Detached);
        let refused = next(Kind::Write, Tried::PassedBy, Met::default());
        assert_eq!(refused, Next::Problem(ProblemCode::OwnerUnavailable));
    }

    #[test]
    fn an_error_that_is_not_a_nodes_is_never_shown() {
        assert_eq!(next(Kind::Read, Tried::Faulty, Met::default()), Next::Detached);
        let unknown = next(Kind::Write, Tried::Faulty, Met::default());
        assert_eq!(unknown, Next::Problem(ProblemCode::WriteOutcomeUnknown));
    }

    #[test]
    fn a_write_is_sent_again_only_when_known_not_executed() {
        let failed = |failed| next(Kind::Write, Tried::Failed(failed), Met::default());
        assert_eq!(failed(SendFailed::Broken), Next::Problem(ProblemCode::WriteOutcomeUnknown));
        assert_eq!(failed(SendFailed::TimedOut), Next::Problem(ProblemCode::WriteOutcomeUnknown));
        assert_eq!(failed(SendFailed::Unreachable), Next::FreshRingOr(ProblemCode::OwnerUnavailable));
        let misdirected = Tried::Answered(StatusCode::MISDIRECTED_REQUEST);
        assert_eq!(next(Kind::Write, misdirected, Met { misdirected: 100, broken: 0 }), Next::FreshRing);
    }

    #[test]
    fn a_read_goes_detached_when_its_owner_does_not_answer_or_the_ring_is_in_motion() {
        for failed in [SendFailed::TimedOut, SendFailed::Unreachable] {
            assert_eq!(next(Kind::Read, Tried::Failed(failed), Met::default()), Next::Detached);
        }
        let broken = |broken| next(Kind::Read, Tried::Failed(SendFailed::Broken), Met { misdirected: 0, broken });
        assert_eq!((broken(1), broken(2)), (Next::Again, Next::Detached));
        let misdirected = Tried::Answered(StatusCode::MISDIRECTED_REQUEST);
        let after = |misdirected| Met { misdirected, broken: 0 };
        assert_eq!(next(Kind::Read, misdirected, after(1)), Next::FreshRing);
        assert_eq!(next(Kind::Read, misdirected, after(limits::READ_MISDIRECTED_MAX)), Next::Detached);
    }

    #[test]
    fn any_other_answer_is_the_clients() {
        for status in [200, 201, 204, 304, 404, 412, 413, 503, 504] {
            let status = StatusCode::from_u16(status).expect("status");
            assert_eq!(next(Kind::Write, Tried::Answered(status), Met::default()), Next::Answer);
            assert_eq!(next(Kind::Read, Tried::Answered(status), Met::default()), Next::Answer);
        }
    }
}
