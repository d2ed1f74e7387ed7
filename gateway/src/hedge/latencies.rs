//! How long owners take for reads: a histogram that forgets, and the percentile of it that hedging waits for.

use std::array;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::limits;

/// Four buckets for each doubling from 16 µs on; all beyond the last, about 1 s, is in it.
const BUCKETS: usize = 64;
const FIRST_BITS: u32 = 4;
/// With fewer reads a percentile says nothing.
const COUNT_MIN: u64 = 100;
/// After how many refreshes the counts are halved: what is older than that counts less and less.
const HALVED_EVERY: u64 = 20;

/// The times of one gateway's reads. Noting one is one relaxed addition.
#[derive(Debug)]
pub(crate) struct Latencies {
    percent: u8,
    counts: [AtomicU32; BUCKETS],
    /// In microseconds; 0 while it is not known.
    hedge_after_us: AtomicU64,
    refreshes: AtomicU64,
}

impl Latencies {
    /// Times of which `percent` of a hundred are below what is asked for.
    pub(crate) fn new(percent: u8) -> Self {
        let counts = array::from_fn(|_| AtomicU32::new(0));
        Self { percent, counts, hedge_after_us: AtomicU64::new(0), refreshes: AtomicU64::new(0) }
    }

    pub(crate) fn note(&self, took: Duration) {
        self.counts[bucket(took)].fetch_add(1, Ordering::Relaxed);
    }

    /// The percentile as of the last refresh; `None`: too few reads, or nearly all take as long as a try may.
    pub(crate) fn hedge_after(&self) -> Option<Duration> {
        let us = self.hedge_after_us.load(Ordering::Relaxed);
        (us > 0).then(|| Duration::from_micros(us))
    }

    /// Computes the percentile anew, and forgets.
    pub(crate) fn refresh(&self) {
        let counts: [u32; BUCKETS] = array::from_fn(|at| self.counts[at].load(Ordering::Relaxed));
        let found = percentile(&counts, self.percent).map(|found| found.max(limits::HEDGE_MIN));
        let us = found.filter(|found| *found < limits::READ_TRY).map_or(0, |found| found.as_micros() as u64);
        self.hedge_after_us.store(us, Ordering::Relaxed);
        if self.refreshes.fetch_add(1, Ordering::Relaxed) % HALVED_EVERY == HALVED_EVERY - 1 {
            for (counter, count) in self.counts.iter().zip(counts) {
                // What came meanwhile stays.
                counter.fetch_sub(count.div_ceil(2), Ordering::Relaxed);
            }
        }
    }
}

fn bucket(took: Duration) -> usize {
    let us = took.as_micros().min(u128::from(u32::MAX)) as u64;
    let bits = u64::BITS - us.leading_zeros();
    if bits <= FIRST_BITS {
        return 0;
    }
    let doubling = (bits - 1 - FIRST_BITS) as usize;
    let quarter = (us >> (bits - 3)) as usize & 3;
    (doubling * 4 + quarter).min(BUCKETS - 1)
}

/// Where a bucket ends.
fn end(bucket: usize) -> Duration {
    Duration::from_micros((5 + bucket as u64 % 4) << (bucket / 4 + FIRST_BITS as usize - 2))
}

/// The end of the bucket that holds the percentile, unless that is the last, which has none. Pure.
fn percentile(counts: &[u32; BUCKETS], percent: u8) -> Option<Duration> {
    let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    if all < COUNT_MIN {
        return None;
    }
    let below = (all * u64::from(percent)).div_ceil(100);
    let mut so_far = 0;
    let holds = counts.iter().position(|count| {
        so_far += u64::from(*count);
        so_far >= below
    });
    holds.filter(|holds| *holds < BUCKETS - 1).map(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_a_bucket_that_ends_at_most_a_quarter_later() {
        for us in (0..2_000).chain((2_000..900_000).step_by(997)) {
            let took = Duration::from_micros(us);
            let end = end(bucket(took));
            assert!(end > took && end.as_micros() as f64 <= (us as f64 * 1.25).max(20.0) + 1.0, "{us}: {end:?}");
        }
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_percentile_is_known_after_enough_reads_and_follows_them() {
        let latencies = Latencies::new(95);
        let read = |ms: u64, count: usize| (0..count).for_each(|_| latencies.note(Duration::from_millis(ms)));
        read(10, 94);
        latencies.refresh();
        assert_eq!(latencies.hedge_after(), None);
        read(10, 1);
        read(200, 5);
        latencies.refresh();
        let after = latencies.hedge_after().expect("a hundred reads");
        assert!((10..=13).contains(&after.as_millis()), "{after:?}");
        for _ in 0..100 {
            read(40, 50);
            latencies.refresh();
        }
        let after = latencies.hedge_after().expect("many reads");
        assert!((40..=50).contains(&after.as_millis()), "{after:?}");
    }

    #[test]
    fn quick_reads_are_not_hedged_at_once_and_hopeless_ones_not_at_all() {
        let latencies = Latencies::new(99);
        (0..1_000).for_each(|_| latencies.note(Duration::from_micros(20)));
        latencies.refresh();
        assert_eq!(latencies.hedge_after(), Some(limits::HEDGE_MIN));
        (0..10_000).for_each(|_| latencies.note(Duration::from_secs(2)));
        latencies.refresh();
        assert_eq!(latencies.hedge_after(), None);
    }
}
