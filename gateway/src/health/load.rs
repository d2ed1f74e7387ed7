//! What is under way to a node and how it has gone: relaxed atomics, two of them for a request that goes well.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::outcome::Outcome;
use super::outlier::Counts;
use crate::balance::peak_ewma::PeakEwma;

/// The counters of one node.
#[derive(Debug, Default)]
pub(crate) struct Load {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Of `begun`, what the retry budget has been given its share of.
    budgeted: AtomicU64,
    failed: AtomicU64,
    timed_out: AtomicU64,
    unjudged: AtomicU64,
    /// Failures since the last good answer.
    in_a_row: AtomicU32,
    /// Reads since the last good answer that another node answered first.
    outrun: AtomicU32,
    /// How often what was known became worthless: the node was found silent.
    lapses: AtomicU64,
    reads_timed: AtomicU64,
    reads_us: AtomicU64,
    /// How long it takes for requests that need no owner.
    pub(crate) peak: PeakEwma,
    /// What the smooth weighted round robin owes it.
    pub(crate) credit: AtomicI64,
}

/// One request under way: ended when dropped, whatever becomes of it.
#[derive(Debug)]
pub(crate) struct Underway<'a> {
    load: &'a Load,
    pub(crate) began: Instant,
    judged: bool,
}

impl Load {
    /// Counts a request as under way.
    pub(crate) fn begin(&self) -> Underway<'_> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Underway { load: self, began: Instant::now(), judged: false }
    }

    /// How many requests are under way, up to the head of their answer.
    pub(crate) fn in_flight(&self) -> u64 {
        // In this order: what ends between the two looks makes it too large by one, never negative.
        let ended = self.ended.load(Ordering::Relaxed);
        self.begun.load(Ordering::Relaxed).saturating_sub(ended)
    }

    /// How many requests have begun since the last call.
    pub(crate) fn begun_since_asked(&self) -> u64 {
        let begun = self.begun.load(Ordering::Relaxed);
        begun.saturating_sub(self.budgeted.swap(begun, Ordering::Relaxed))
    }

    /// All so far, for the detector.
    pub(crate) fn counts(&self) -> Counts {
        let relaxed = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (failed, timed_out) = (relaxed(&self.failed), relaxed(&self.timed_out));
        let bad = failed + timed_out + relaxed(&self.unjudged);
        Counts {
            good: relaxed(&self.ended).saturating_sub(bad),
            failed,
            timed_out,
            in_a_row: self.in_a_row.load(Ordering::Relaxed),
            lapses: relaxed(&self.lapses),
            reads_timed: relaxed(&self.reads_timed),
            reads_us: relaxed(&self.reads_us),
        }
    }

    /// Forgets that failures came in a row: the node begins anew.
    pub(crate) fn begin_anew(&self) {
        self.in_a_row.store(0, Ordering::Relaxed);
        self.outrun.store(0, Ordering::Relaxed);
    }

    /// Makes all failures so far worthless: the node was found silent, and what ends that is its answer, not time.
    pub(crate) fn forgive(&self) {
        self.begin_anew();
        self.lapses.fetch_add(1, Ordering::Relaxed);
    }

    /// How long the node, as the owner, took for a read.
    pub(crate) fn note_read(&self, took: Duration) {
        self.reads_timed.fetch_add(1, Ordering::Relaxed);
        self.reads_us.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
    }

    /// Notes that another node answered first; how often that is since the last good answer.
    pub(crate) fn note_outrun(&self) -> u32 {
        self.outrun.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Underway<'_> {
    /// Notes how it went.
    pub(crate) fn judge(mut self, outcome: Outcome) {
        let load = self.load;
        self.judged = true;
        match outcome {
            Outcome::Good => {
                // The loads first: a store would take the cache line from every other core.
                for row in [&load.in_a_row, &load.outrun] {
                    if row.load(Ordering::Relaxed) != 0 {
                        row.store(0, Ordering::Relaxed);
                    }
                }
            }
            Outcome::Failed | Outcome::TimedOut => {
                let counter = if outcome == Outcome::Failed { &load.failed } else { &load.timed_out };
                counter.fetch_add(1, Ordering::Relaxed);
                load.in_a_row.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Unjudged => self.judged = false,
        }
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        if !self.judged {
            // Before the end is counted: else it could be taken for a good one.
            self.load.unjudged.fetch_add(1, Ordering::Relaxed);
        }
        self.load.ended.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_no_longer_in_flight_and_says_nothing_about_the_node() {
        let load = Load::default();
        let (first, second) = (load.begin(), load.begin());
        assert_eq!(load.in_flight(), 2);
        drop(first);
        second.judge(Outcome::Good);
        let counts = load.counts();
        assert_eq!((load.in_flight(), counts.good, counts.failed), (0, 1, 0));
        assert_eq!((load.begun_since_asked(), load.begun_since_asked()), (2, 0));
    }

    #[test]
    fn failures_in_a_row_end_with_a_good_answer() {
        let load = Load::default();
        for outcome in [Outcome::Failed, Outcome::Unjudged, Outcome::TimedOut] {
            load.begin().judge(outcome);
        }
        let counts = load.counts();
        assert_eq!((counts.failed, counts.timed_out, counts.in_a_row, counts.good), (1, 1, 2, 0));
        load.note_outrun();
        load.begin().judge(Outcome::Good);
        assert_eq!((load.counts().in_a_row, load.note_outrun()), (0, 1));
    }
}
