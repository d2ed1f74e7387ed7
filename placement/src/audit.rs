//! The decision of the auditor: whether an answer from a cache and a later read of the origin may be held against each
//! other, and what they say (protocol U2).
//!
//! Pure: the caller takes the view after the origin was read, inside one critical section. Watches over I3 and I4.

use crate::freshness::{LoadStart, View};

/// What an audit came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The caches hold what the origin has.
    Consistent,
    /// The caches hold something else, and no write explains it.
    Inconsistent,
    /// A write of the key, or somebody else's right to write it, may lie between answer and origin read: no verdict.
    Overlapped,
    /// The slot is no longer ours: no verdict.
    NotOurs,
}

/// Judges an answer. `noted` are guard and reign from the critical section that gave it, `view` is taken after the origin
/// was read, `same` says whether all that the caches hold is what the origin has.
///
/// Without a verdict nothing is known. With one no write of the key has committed between the two reads:
/// - a write of this process raises the guard when it registers, before its statement is sent (W1), and again at its end;
/// - one of unknown outcome is a writer until it cannot commit any more (W6);
/// - another process can write only after a flip, which takes a seal, or when our lease is over (C5, L3, L4); either ends
///   the reign before we serve again, and a lease that holds now has not let anyone in before.
pub fn verdict(noted: LoadStart, view: View, same: bool) -> Verdict {
    if !view.mine {
        return Verdict::NotOurs;
    }
    if !view.lease_valid || view.sealed || view.writer_active || view.now != noted {
        return Verdict::Overlapped;
    }
    if same { Verdict::Consistent } else { Verdict::Inconsistent }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freshness::Guard;
    use crate::slot_hold::Reign;

    fn raised(times: usize) -> Guard {
        let mut guard = Guard::default();
        (0..times).for_each(|_| guard.raise());
        guard
    }

    fn view() -> View {
        View {
            mine: true,
            lease_valid: true,
            sealed: false,
            writer_active: false,
            now: LoadStart { guard: raised(3), reign: Reign::new(2) },
        }
    }

    #[test]
    fn with_nothing_in_between_the_content_decides() {
        assert_eq!(verdict(view().now, view(), true), Verdict::Consistent);
        assert_eq!(verdict(view().now, view(), false), Verdict::Inconsistent);
    }

    #[test]
    fn whatever_may_lie_in_between_takes_the_verdict_away() {
        let now = view().now;
        let between = [
            ("the lease is over", View { lease_valid: false, ..view() }),
            ("the slot is sealed", View { sealed: true, ..view() }),
            ("a write is in progress", View { writer_active: true, ..view() }),
            ("the guard was raised", View { now: LoadStart { guard: raised(4), ..now }, ..view() }),
            ("the reign is another", View { now: LoadStart { reign: Reign::new(3), ..now }, ..view() }),
        ];
        for (what, view) in between {
            for same in [true, false] {
                assert_eq!(verdict(now, view, same), Verdict::Overlapped, "{what}");
            }
        }
    }

    #[test]
    fn of_a_slot_that_is_gone_nothing_is_said() {
        for same in [true, false] {
            assert_eq!(verdict(view().now, View { mine: false, ..view() }, same), Verdict::NotOurs);
        }
    }
}
