//! How a node stands with this gateway: one word of flags, read once for each request.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tokio::time::Instant;

use super::slow_start;
use crate::retry::Kind;

/// A failed request had the node probed, and it did not answer.
const IN_DOUBT: u8 = 1;
/// It failed health checks in a row.
const UNHEALTHY: u8 = 2;
/// It fails too often, and there are enough others.
const EJECTED: u8 = 4;
/// It was ejected not long ago, and is asked more and more.
const COMING_BACK: u8 = 8;

/// How a node stands.
#[derive(Debug)]
pub(crate) struct Standing {
    flags: AtomicU8,
    began: Instant,
    /// When it came back, in milliseconds since `began`.
    back_at_ms: AtomicU64,
}

/// Whether a request may be sent to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It may.
    Yes,
    /// The node does not answer.
    Silent,
    /// The node is ejected, or this read is not of the share that it gets again.
    PassedBy,
}

/// The conditions as they are counted; a node that has several counts by the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Nothing is known against it.
    Well,
    /// It did not answer after a failed request.
    InDoubt,
    /// It failed health checks in a row.
    Unhealthy,
    /// It fails too often.
    Ejected,
}

impl Standing {
    pub(crate) fn new() -> Self {
        Self { flags: AtomicU8::new(0), began: Instant::now(), back_at_ms: AtomicU64::new(0) }
    }

    fn set(&self, flag: u8, on: bool) {
        if on {
            self.flags.fetch_or(flag, Ordering::AcqRel);
        } else {
            self.flags.fetch_and(!flag, Ordering::AcqRel);
        }
    }

    /// Whether a request of this kind may be sent to it as the owner. `chance` gives a number from 0 to 1.
    pub(crate) fn asks(&self, kind: Kind, chance: impl FnOnce() -> f64) -> Asked {
        match self.flags.load(Ordering::Acquire) {
            0 => Asked::Yes,
            flags if flags & (IN_DOUBT | UNHEALTHY) != 0 => Asked::Silent,
            flags if flags & EJECTED != 0 => Asked::PassedBy,
            // A write has no other place.
            _ if kind == Kind::Write => Asked::Yes,
            _ => {
                let back_for = self.began.elapsed().saturating_sub(self.back_at());
                if slow_start::takes(slow_start::share(back_for), chance()) { Asked::Yes } else { Asked::PassedBy }
            }
        }
    }

    /// Whether its health route does not answer.
    pub(crate) fn is_silent(&self) -> bool {
        self.flags.load(Ordering::Acquire) & (IN_DOUBT | UNHEALTHY) != 0
    }

    /// Whether it is passed by though it answers.
    pub(crate) fn is_ejected(&self) -> bool {
        self.flags.load(Ordering::Acquire) & EJECTED != 0
    }

    /// The worst that is known of it.
    pub(crate) fn condition(&self) -> Condition {
        match self.flags.load(Ordering::Acquire) {
            flags if flags & IN_DOUBT != 0 => Condition::InDoubt,
            flags if flags & UNHEALTHY != 0 => Condition::Unhealthy,
            flags if flags & EJECTED != 0 => Condition::Ejected,
            _ => Condition::Well,
        }
    }

    pub(crate) fn set_in_doubt(&self, doubt: bool) {
        self.set(IN_DOUBT, doubt);
    }

    pub(crate) fn set_unhealthy(&self, unhealthy: bool) {
        self.set(UNHEALTHY, unhealthy);
    }

    pub(crate) fn set_ejected(&self, ejected: bool) {
        // Every request reads this word: it is written only when it changes.
        if self.is_ejected() != ejected {
            self.set(EJECTED, ejected);
        }
    }

    /// Its time is over: from now on it gets a share of its reads that grows.
    pub(crate) fn come_back(&self) {
        self.back_at_ms.store(self.began.elapsed().as_millis() as u64, Ordering::Release);
        self.set(COMING_BACK, true);
        self.set(EJECTED, false);
    }

    /// Ends the slow start once it has all its reads again.
    pub(crate) fn end_slow_start(&self) {
        let coming_back = self.flags.load(Ordering::Acquire) & COMING_BACK != 0;
        if coming_back && self.began.elapsed().saturating_sub(self.back_at()) >= slow_start::LASTS {
            self.set(COMING_BACK, false);
        }
    }

    fn back_at(&self) -> std::time::Duration {
        std::time::Duration::from_millis(self.back_at_ms.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_node_is_not_asked_and_an_ejected_one_is_passed_by() {
        let standing = Standing::new();
        let asked = |standing: &Standing| standing.asks(Kind::Write, || unreachable!("no chance is needed"));
        assert_eq!(asked(&standing), Asked::Yes);
        standing.set_ejected(true);
        assert_eq!((asked(&standing), standing.condition()), (Asked::PassedBy, Condition::Ejected));
        standing.set_in_doubt(true);
        assert_eq!((asked(&standing), standing.condition()), (Asked::Silent, Condition::InDoubt));
        standing.set_in_doubt(false);
        standing.set_unhealthy(true);
        assert_eq!((asked(&standing), standing.condition()), (Asked::Silent, Condition::Unhealthy));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_comes_back_gets_all_writes_at_once_and_its_reads_by_a_growing_share() {
        let standing = Standing::new();
        standing.set_ejected(true);
        standing.come_back();
        let read = |chance: f64| standing.asks(Kind::Read, || chance);
        assert_eq!(standing.asks(Kind::Write, || 1.0), Asked::Yes);
        assert_eq!((read(0.05), read(0.5)), (Asked::Yes, Asked::PassedBy));
        tokio::time::advance(slow_start::LASTS / 2).await;
        assert_eq!((read(0.5), read(0.9)), (Asked::Yes, Asked::PassedBy));
        standing.end_slow_start();
        assert_eq!(read(0.9), Asked::PassedBy, "it is not over yet");
        tokio::time::advance(slow_start::LASTS / 2).await;
        standing.end_slow_start();
        assert_eq!(standing.asks(Kind::Read, || unreachable!("it is over")), Asked::Yes);
    }
}
