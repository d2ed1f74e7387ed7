//! How slow a peer may be, kept without a timer per request.
//!
//! The connection notes when its present wait began; one timer per connection sleeps until the earliest moment at which that
//! wait could be too long, and then looks again.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

/// How slow a peer may be.
#[derive(Clone, Copy, Debug)]
pub struct PaceLimits {
    /// From the first byte of a request to the end of its head.
    pub head: Duration,
    /// Between requests.
    pub idle: Duration,
    /// Without taking a single byte of an answer.
    pub stuck_reader: Duration,
}

impl Default for PaceLimits {
    fn default() -> Self {
        Self { head: Duration::from_secs(10), idle: Duration::from_secs(75), stuck_reader: Duration::from_secs(30) }
    }
}

/// What a connection waits for on the reading side. In the low bits of [`Pace::reading`]; the rest is milliseconds.
const IDLE: u64 = 0;
const HEAD: u64 = 1;
const REQUEST: u64 = 2;
const KIND_BITS: u32 = 2;
/// In [`Pace::blocked_since`]: the peer takes what is sent.
const NOT_BLOCKED: u64 = u64::MAX;

/// The clock of one connection.
#[derive(Debug)]
pub(super) struct Pace {
    limits: PaceLimits,
    start: Instant,
    reading: AtomicU64,
    blocked_since: AtomicU64,
}

impl Pace {
    pub(super) fn new(limits: PaceLimits) -> Self {
        Self {
            limits,
            start: Instant::now(),
            reading: AtomicU64::new(IDLE),
            blocked_since: AtomicU64::new(NOT_BLOCKED),
        }
    }

    fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Bytes came in: outside of a request they begin a head.
    pub(super) fn bytes_read(&self) {
        if self.reading.load(Relaxed) & 3 == IDLE {
            self.reading.store(self.now_ms() << KIND_BITS | HEAD, Relaxed);
        }
    }

    /// A head is complete: from here the handler minds the time.
    pub(super) fn request_began(&self) {
        self.reading.store(REQUEST, Relaxed);
    }

    /// The answer has been handed over whole, or given up.
    pub(super) fn request_ended(&self) {
        self.reading.store(self.now_ms() << KIND_BITS | IDLE, Relaxed);
    }

    /// The peer took bytes (or there was nothing to take).
    pub(super) fn write_moved(&self) {
        if self.blocked_since.load(Relaxed) != NOT_BLOCKED {
            self.blocked_since.store(NOT_BLOCKED, Relaxed);
        }
    }

    /// The peer's window is full.
    pub(super) fn write_blocked(&self) {
        if self.blocked_since.load(Relaxed) == NOT_BLOCKED {
            self.blocked_since.store(self.now_ms(), Relaxed);
        }
    }

    /// `None`: the peer has been too slow. Else how long it certainly is not.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let now = self.now_ms();
        let reading = self.reading.load(Relaxed);
        let since = Duration::from_millis(now.saturating_sub(reading >> KIND_BITS));
        let shortest = self.limits.head.min(self.limits.idle).min(self.limits.stuck_reader);
        let for_reading = match reading & 3 {
            IDLE => self.limits.idle.checked_sub(since),
            HEAD => self.limits.head.checked_sub(since),
            _ => Some(shortest),
        };
        let for_writing = match self.blocked_since.load(Relaxed) {
            NOT_BLOCKED => Some(shortest),
            blocked => self.limits.stuck_reader.checked_sub(Duration::from_millis(now.saturating_sub(blocked))),
        };
        let left = for_reading?.min(for_writing?).min(shortest);
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace() -> Pace {
        Pace::new(PaceLimits {
            head: Duration::from_secs(1),
            idle: Duration::from_secs(3),
            stuck_reader: Duration::from_secs(2),
        })
    }

    /// As if the connection had begun that much earlier.
    fn pass(pace: &mut Pace, seconds: u64) {
        pace.start -= Duration::from_secs(seconds);
    }

    #[test]
    fn an_idle_peer_has_the_idle_bound_and_a_dribbled_head_the_shorter_one() {
        let mut idle = pace();
        pass(&mut idle, 2);
        assert!(idle.time_left().is_some());
        idle.bytes_read();
        pass(&mut idle, 1);
        idle.bytes_read();
        assert!(idle.time_left().is_none(), "more bytes give no more time");
        let mut idle = pace();
        pass(&mut idle, 3);
        assert!(idle.time_left().is_none());
    }

    #[test]
    fn a_request_in_progress_has_no_bound_here_but_a_reader_that_takes_nothing_has() {
        let mut busy = pace();
        busy.bytes_read();
        busy.request_began();
        pass(&mut busy, 100);
        assert!(busy.time_left().is_some());
        busy.write_blocked();
        pass(&mut busy, 1);
        busy.write_moved();
        busy.write_blocked();
        pass(&mut busy, 1);
        assert!(busy.time_left().is_some());
        pass(&mut busy, 1);
        assert!(busy.time_left().is_none());
    }
}
