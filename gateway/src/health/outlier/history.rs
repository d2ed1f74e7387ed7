//! What has become of a node's tries lately: its counters now against those of the beginning of the window. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Counts, VOLUME_MIN, WINDOW};

/// The counters at each look of the window, and at the last one before it.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<(Duration, Counts)>);

/// How many there were within the window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    pub(super) good: u64,
    pub(super) failed: u64,
    pub(super) timed_out: u64,
    pub(super) reads_timed: u64,
    pub(super) reads_us: u64,
}

impl History {
    /// Adds a look.
    pub(super) fn note(&mut self, now: Duration, counts: Counts) {
        if self.0.back().is_some_and(|(_, last)| last.lapses != counts.lapses) {
            self.forget(counts);
        }
        // A node that is new has begun from nothing.
        if self.0.is_empty() {
            self.0.push_back((now, Counts { lapses: counts.lapses, ..Counts::default() }));
        }
        self.0.push_back((now, counts));
        while self.0.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) >= WINDOW) {
            self.0.pop_front();
        }
    }

    /// From here on only what comes counts.
    pub(super) fn forget(&mut self, counts: Counts) {
        let at = self.0.back().map_or(Duration::ZERO, |(at, _)| *at);
        self.0.clear();
        self.0.push_back((at, counts));
    }

    pub(super) fn recent(&self) -> Recent {
        let (Some((_, first)), Some((_, last))) = (self.0.front(), self.0.back()) else { return Recent::default() };
        Recent {
            good: last.good.saturating_sub(first.good),
            failed: last.failed.saturating_sub(first.failed),
            timed_out: last.timed_out.saturating_sub(first.timed_out),
            reads_timed: last.reads_timed.saturating_sub(first.reads_timed),
            reads_us: last.reads_us.saturating_sub(first.reads_us),
        }
    }
}

impl Recent {
    /// The share of good tries, where there are enough to say; time-outs that all nodes have are left out.
    pub(super) fn rate(&self, without_time_outs: bool) -> Option<f64> {
        let bad = self.failed + if without_time_outs { 0 } else { self.timed_out };
        let all = self.good + bad;
        (all >= VOLUME_MIN).then(|| self.good as f64 / all as f64)
    }

    /// How long a read takes on average, in microseconds, where there are enough to say.
    pub(super) fn read_us(&self) -> Option<f64> {
        (self.reads_timed >= VOLUME_MIN).then(|| self.reads_us as f64 / self.reads_timed as f64)
    }
}
