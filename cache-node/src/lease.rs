//! Whether this process may serve from its caches at this very moment (protocol L1, I2).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Moment;

/// The node's lease as the node may count on it. Written by the heartbeat alone, read by every request.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    valid_until_ns: AtomicU64,
}

impl Lease {
    /// Counts from `asked_at`, read before the heartbeat was sent, and ends `margin` early (A2).
    pub(crate) fn confirmed(&self, asked_at: Moment, ttl: Duration) {
        let until = asked_at.plus(ttl.saturating_sub(margin(ttl)));
        self.valid_until_ns.fetch_max(until.nanos(), Ordering::AcqRel);
    }

    /// Over at once: fenced or stopping.
    pub(crate) fn end(&self) {
        self.valid_until_ns.store(0, Ordering::Release);
    }

    /// Whether it holds at `now`.
    pub(crate) fn is_valid(&self, now: Moment) -> bool {
        now < Moment::from_nanos(self.valid_until_ns.load(Ordering::Acquire))
    }

    /// How long it still holds.
    pub(crate) fn left(&self, now: Moment) -> Duration {
        Moment::from_nanos(self.valid_until_ns.load(Ordering::Acquire)).since(now)
    }
}

/// What the node gives up of its lease, for clock drift between it and the database.
pub(crate) fn margin(ttl: Duration) -> Duration {
    ttl / 6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_from_before_the_heartbeat_and_ends_a_margin_early() {
        let lease = Lease::default();
        let asked_at = Moment::from_nanos(1_000_000_000);
        assert!(!lease.is_valid(asked_at));
        lease.confirmed(asked_at, Duration::from_secs(3));
        assert!(lease.is_valid(asked_at.plus(Duration::from_millis(2499))));
        assert!(!lease.is_valid(asked_at.plus(Duration::from_millis(2500))));
    }

    #[test]
    fn an_older_confirmation_does_not_shorten_the_lease() {
        let lease = Lease::default();
        let at = Moment::from_nanos(0);
        lease.confirmed(at.plus(Duration::from_secs(2)), Duration::from_secs(3));
        lease.confirmed(at, Duration::from_secs(3));
        assert!(lease.is_valid(at.plus(Duration::from_secs(4))));
        lease.end();
        assert!(!lease.is_valid(at));
    }
}
