//! How slow a peer may be, kept without a timer or a reading of the clock per event.
//!
//! What happens on the connection only says which wait begins; when the connection comes to wait for its peer, it reads the
//! clock once and dates what began since. One timer per connection sleeps until the earliest moment at which the wait could
//! be too long, and then looks again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::boundary::Reading;

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
/// Like [`IDLE`], before the first byte.
const FRESH: u64 = 3;
const KIND_BITS: u32 = 2;
const KIND: u64 = (1 << KIND_BITS) - 1;
/// In place of milliseconds: the wait began, and the clock was not read since.
const UNDATED: u64 = u64::MAX >> KIND_BITS;
/// In [`Pace::blocked_since`]: the peer takes what is sent.
const NOT_BLOCKED: u64 = u64::MAX;

/// A moment in milliseconds, of a clock that is read in a quarter of the time of the exact one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CoarseMoment(u64);

/// By how much a [`CoarseMoment`] may be behind: the kernel moves that clock at its ticks, the rarest of which are 10 ms apart.
pub(super) const COARSE_LAG: Duration = Duration::from_millis(20);

impl CoarseMoment {
    pub(super) fn now() -> Self {
        let time = clock_gettime(ClockId::MonotonicCoarse);
        Self(time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000)
    }

    pub(super) fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// The clock of one connection.
#[derive(Debug)]
pub(super) struct Pace {
    limits: PaceLimits,
    reading: AtomicU64,
    blocked_since: AtomicU64,
    /// The next head has begun while a request was in progress.
    head_has_begun: AtomicBool,
    ending: AtomicBool,
}

impl Pace {
    pub(super) fn new(limits: PaceLimits) -> Self {
        let reading = AtomicU64::new(UNDATED << KIND_BITS | FRESH);
        let head_has_begun = AtomicBool::new(false);
        let ending = AtomicBool::new(false);
        Self { limits, reading, blocked_since: AtomicU64::new(NOT_BLOCKED), head_has_begun, ending }
    }

    /// Bytes came in: outside of a request they begin a head.
    pub(super) fn bytes_read(&self) {
        if matches!(self.reading.load(Relaxed) & KIND, IDLE | FRESH) {
            self.reading.store(UNDATED << KIND_BITS | HEAD, Relaxed);
        }
    }

    /// Whether what was read last ends with the beginning of a head.
    pub(super) fn note_begun_head(&self, has_begun: bool) {
        if self.head_has_begun.load(Relaxed) != has_begun {
            self.head_has_begun.store(has_begun, Relaxed);
        }
    }

    /// A head is complete: from here the handler minds the time.
    pub(super) fn request_began(&self) {
        self.reading.store(REQUEST, Relaxed);
    }

    /// The answer has been handed over whole, or given up.
    pub(super) fn request_ended(&self) {
        let next = if self.head_has_begun.load(Relaxed) { HEAD } else { IDLE };
        self.reading.store(UNDATED << KIND_BITS | next, Relaxed);
    }

    /// The next answer is the last.
    pub(super) fn end_with_the_next_answer(&self) {
        self.ending.store(true, Relaxed);
    }

    /// Whether an answer must say that it is the last.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Relaxed)
    }

    /// Whether a request may be on its way: its head has begun, or the client has connected or had an answer less than `ago`
    /// before `now`.
    pub(super) fn may_be_asked(&self, now: CoarseMoment, ago: Duration) -> bool {
        let reading = self.reading.load(Relaxed);
        match reading & KIND {
            HEAD => true,
            REQUEST => false,
            _ => reading >> KIND_BITS == UNDATED || CoarseMoment(reading >> KIND_BITS).plus(ago) > now,
        }
    }

    /// What comes next on the connection.
    pub(super) fn reading(&self) -> Reading {
        match self.reading.load(Relaxed) & KIND {
            HEAD => Reading::Head,
            REQUEST => Reading::Message,
            _ => Reading::Nothing,
        }
    }

    /// Whether a request is with the handler, or its answer on its way to hyper's buffer.
    pub(super) fn is_in_request(&self) -> bool {
        self.reading.load(Relaxed) & KIND == REQUEST
    }

    /// Whether nothing has begun since the last request ended.
    pub(super) fn is_idle(&self) -> bool {
        self.reading.load(Relaxed) & KIND == IDLE
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
            self.blocked_since.store(UNDATED, Relaxed);
        }
    }

    /// The connection can do nothing more at `now`: the waits that began since the last time count from here.
    pub(super) fn waits_from(&self, now: CoarseMoment) {
        let reading = self.reading.load(Relaxed);
        let blocked = self.blocked_since.load(Relaxed);
        if reading >> KIND_BITS == UNDATED {
            self.reading.store(now.0 << KIND_BITS | reading & KIND, Relaxed);
        }
        if blocked == UNDATED {
            self.blocked_since.store(now.0, Relaxed);
        }
    }

    /// After [`Pace::waits_from`]. `None`: the peer has been too slow. Else how long it certainly is not.
    pub(super) fn time_left(&self, now: CoarseMoment) -> Option<Duration> {
        let since = |began: u64| Duration::from_millis(now.0.saturating_sub(began));
        let reading = self.reading.load(Relaxed);
        let shortest = self.limits.head.min(self.limits.idle).min(self.limits.stuck_reader);
        let for_reading = match reading & KIND {
            IDLE | FRESH => self.limits.idle.checked_sub(since(reading >> KIND_BITS)),
            HEAD => self.limits.head.checked_sub(since(reading >> KIND_BITS)),
            _ => Some(shortest),
        };
        let for_writing = match self.blocked_since.load(Relaxed) {
            NOT_BLOCKED => Some(shortest),
            blocked => self.limits.stuck_reader.checked_sub(since(blocked)),
        };
        let left = for_reading?.min(for_writing?).min(shortest);
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace() -> Pace {
        let second = Duration::from_secs(1);
        Pace::new(PaceLimits { head: second, idle: 3 * second, stuck_reader: 2 * second })
    }

    /// The connection comes to wait at that second; whether its peer may go on.
    fn may_go_on(pace: &Pace, second: u64) -> bool {
        let now = CoarseMoment(second * 1000);
        pace.waits_from(now);
        pace.time_left(now).is_some()
    }

    #[test]
    fn an_idle_peer_has_the_idle_bound_and_a_dribbled_head_the_shorter_one() {
        let idle = pace();
        assert!(may_go_on(&idle, 10) && may_go_on(&idle, 12) && !may_go_on(&idle, 13));
        let slow = pace();
        assert!(may_go_on(&slow, 10));
        slow.bytes_read();
        assert!(may_go_on(&slow, 12));
        slow.bytes_read();
        assert!(!may_go_on(&slow, 13), "more bytes give no more time");
    }

    #[test]
    fn the_idle_bound_begins_anew_with_the_end_of_each_request() {
        let idle = pace();
        idle.bytes_read();
        idle.request_began();
        idle.request_ended();
        assert!(may_go_on(&idle, 100) && may_go_on(&idle, 102) && !may_go_on(&idle, 103));
    }

    #[test]
    fn a_request_may_be_on_its_way_for_a_while_after_the_last_and_as_long_as_its_head_takes() {
        let may_be_asked = |pace: &Pace, second: u64| {
            let now = CoarseMoment(second * 1000);
            pace.waits_from(now);
            pace.may_be_asked(now, Duration::from_secs(1))
        };
        let pace = pace();
        assert!(may_be_asked(&pace, 10) && !may_be_asked(&pace, 11), "just connected");
        pace.bytes_read();
        assert!(may_be_asked(&pace, 20) && may_be_asked(&pace, 30), "half a head");
        pace.request_began();
        assert!(!may_be_asked(&pace, 31));
        pace.request_ended();
        assert!(may_be_asked(&pace, 40) && !may_be_asked(&pace, 41), "just answered");
    }

    #[test]
    fn a_head_that_began_during_a_request_has_its_own_bound_from_the_end_of_that() {
        let pipelined = pace();
        pipelined.bytes_read();
        pipelined.note_begun_head(true);
        pipelined.request_began();
        assert!(may_go_on(&pipelined, 10));
        pipelined.request_ended();
        assert!(may_go_on(&pipelined, 100) && !may_go_on(&pipelined, 101));
    }

    #[test]
    fn a_request_in_progress_has_no_bound_here_but_a_reader_that_takes_nothing_has() {
        let busy = pace();
        busy.bytes_read();
        busy.request_began();
        assert!(may_go_on(&busy, 100));
        busy.write_blocked();
        assert!(may_go_on(&busy, 200) && may_go_on(&busy, 201));
        busy.write_moved();
        busy.write_blocked();
        assert!(may_go_on(&busy, 202) && may_go_on(&busy, 203));
        busy.write_blocked();
        assert!(!may_go_on(&busy, 204), "another try is no progress");
    }
}
