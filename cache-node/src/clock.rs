//! The node's clock: monotonic, and counting the time the machine was suspended (protocol A2).

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment since the machine was started, suspended time included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Now, from CLOCK_BOOTTIME.
    pub(crate) fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        Self(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    /// As nanoseconds, for an atomic.
    pub(crate) fn nanos(self) -> u64 {
        self.0
    }

    /// From nanoseconds.
    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Later by that much.
    pub(crate) fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration.as_nanos() as u64))
    }

    /// How long after `earlier`; zero if before.
    pub(crate) fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Milliseconds since 1970 by the wall clock: only for how long a cached value may live, never for a safety rule.
pub(crate) fn wall_ms() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
