//! How fast a change may copy: as fast as the receivers take it, unless the cluster's users or its database suffer. Pure:
//! load reports and the time come in as arguments.

mod window;

use std::time::Duration;

use tokio::time::Instant;

pub use window::{Window, window};

/// How many windows in a row must be within the bounds before a paused copy goes on: one may be luck.
pub const GOOD_WINDOWS: u32 = 2;
/// With fewer requests in a window, its 99th percentile is the fate of one request and says nothing.
pub const P99_REQUESTS_MIN: u64 = 100;

/// What a copy must not push the cluster over. The default has no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Read statements per second that all nodes together send to the database.
    pub max_origin_reads: Option<u32>,
    /// The time within which 99 of 100 requests of all nodes are answered.
    pub max_p99: Option<Duration>,
}

/// Which bound a window broke.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Over {
    /// Requests took too long.
    P99 {
        /// So long; none: longer than nodes measure.
        was: Option<Duration>,
        /// The bound.
        allowed: Duration,
    },
    /// Too many reads of the database.
    OriginReads {
        /// Per second.
        was: f64,
        /// The bound.
        allowed: u32,
    },
}

impl std::fmt::Display for Over {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::P99 { was: Some(was), allowed } => {
                write!(
                    f,
                    "99 of 100 requests took up to {} ms, allowed are {} ms",
                    was.as_millis(),
                    allowed.as_millis()
                )
            }
            Self::P99 { was: None, allowed } => {
                write!(f, "1 of 100 requests took longer than nodes measure, allowed are {} ms", allowed.as_millis())
            }
            Self::OriginReads { was, allowed } => {
                write!(f, "the nodes send {was:.0} reads per second to the database, allowed are {allowed}")
            }
        }
    }
}

impl Bounds {
    /// The bound that the window breaks, if any. What a window does not tell breaks none.
    pub fn broken_by(&self, window: &Window) -> Option<Over> {
        let slow = self.max_p99.zip(window.p99).and_then(|(allowed, p99)| match p99.within {
            Some(was) if was <= allowed => None,
            was => Some(Over::P99 { was, allowed }),
        });
        slow.or_else(|| {
            let allowed = self.max_origin_reads?;
            let was = window.origin_reads_per_second;
            (was > f64::from(allowed)).then_some(Over::OriginReads { was, allowed })
        })
    }
}

/// What a window changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Turn {
    /// Copying pauses, for this reason.
    Pause(Over),
    /// Copying goes on.
    Resume,
}

/// Pauses the copy while a bound is broken.
#[derive(Debug)]
pub struct Governor {
    bounds: Bounds,
    pause: Option<Pause>,
    /// Of the pauses that are over.
    paused: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    since: Instant,
    because: Over,
    good_windows: u32,
}

impl Governor {
    /// Copying, within these bounds.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, pause: None, paused: Duration::ZERO }
    }

    /// Takes the newest window in.
    pub fn judge(&mut self, now: Instant, window: &Window) -> Option<Turn> {
        match (self.bounds.broken_by(window), self.pause.as_mut()) {
            (Some(over), None) => {
                self.pause = Some(Pause { since: now, because: over, good_windows: 0 });
                Some(Turn::Pause(over))
            }
            (Some(over), Some(pause)) => {
                (pause.because, pause.good_windows) = (over, 0);
                None
            }
            (None, None) => None,
            (None, Some(pause)) => {
                pause.good_windows += 1;
                if pause.good_windows < GOOD_WINDOWS {
                    return None;
                }
                self.paused += now.saturating_duration_since(pause.since);
                self.pause = None;
                Some(Turn::Resume)
            }
        }
    }

    /// Why copying is paused; `None`: it is not.
    pub fn paused(&self) -> Option<Over> {
        self.pause.map(|pause| pause.because)
    }

    /// How long all pauses together have been.
    pub fn paused_for(&self, now: Instant) -> Duration {
        self.paused + self.pause.map_or(Duration::ZERO, |pause| now.saturating_duration_since(pause.since))
    }
}

#[cfg(test)]
mod tests;
