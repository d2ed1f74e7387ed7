//! A token bucket as one number: the moment at which it is full again (the "theoretical arrival time" of the generic cell rate
//! algorithm, ITU-T I.371). Before that moment it lacks what comes back until then; a moment in the past is a full bucket.

use std::sync::atomic::{AtomicU64, Ordering};

use super::quota::Quota;

/// What a bucket holds after a request was taken out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    /// How many requests more it has at once.
    pub(super) left: u64,
    /// When it is full again, in nanoseconds from now.
    pub(super) full_in_ns: u64,
}

/// What becomes of a bucket that is asked for one request: when it is full again, and what it holds; `Err`: nothing, for as many
/// nanoseconds.
fn drawn(full_at: u64, now: u64, quota: &Quota) -> Result<(u64, Level), u64> {
    let depth = quota.depth_ns();
    // No bucket lacks more than all it holds. It could seem so only if the clock had gone back: then it is empty, and who waits
    // does so for one interval, not for as long as the step was.
    let lacking = full_at.saturating_sub(now).min(depth) + quota.interval_ns;
    if lacking > depth {
        return Err(lacking - depth);
    }
    let level = Level { left: (depth - lacking) / quota.interval_ns, full_in_ns: lacking };
    Ok((now.saturating_add(lacking), level))
}

/// Whether there is a request in the bucket; `Err`: not for as many nanoseconds.
pub(super) fn look(bucket: &AtomicU64, now: u64, quota: &Quota) -> Result<(), u64> {
    drawn(bucket.load(Ordering::Relaxed), now, quota).map(drop)
}

/// Takes one request; `Err`: there is none for as many nanoseconds, and nothing was taken.
pub(super) fn take(bucket: &AtomicU64, now: u64, quota: &Quota) -> Result<Level, u64> {
    let mut full_at = bucket.load(Ordering::Relaxed);
    loop {
        let (then, level) = drawn(full_at, now, quota)?;
        match bucket.compare_exchange_weak(full_at, then, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Ok(level),
            Err(other) => full_at = other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::quota::SECOND_NS;
    use super::*;

    fn quota(text: &str) -> Quota {
        text.parse().expect("a rate")
    }

    /// How many of `asked` requests at this moment get through.
    fn through(bucket: &AtomicU64, now: u64, quota: &Quota, asked: usize) -> usize {
        (0..asked).filter(|_| take(bucket, now, quota).is_ok()).count()
    }

    #[test]
    fn a_burst_passes_whole_and_then_one_request_each_interval() {
        let (bucket, quota, now) = (AtomicU64::new(0), quota("10/s burst=25"), 7 * SECOND_NS);
        assert_eq!(take(&bucket, now, &quota), Ok(Level { left: 24, full_in_ns: SECOND_NS / 10 }));
        assert_eq!(through(&bucket, now, &quota, 100), 24);
        assert_eq!(look(&bucket, now, &quota), Err(SECOND_NS / 10));
        assert_eq!(take(&bucket, now + SECOND_NS / 10 - 1, &quota), Err(1));
        assert_eq!(take(&bucket, now + SECOND_NS / 10, &quota).map(|level| level.left), Ok(0));
        assert_eq!(through(&bucket, now + SECOND_NS, &quota, 100), 9);
        // Never more than it holds, however long it was left alone.
        assert_eq!(through(&bucket, now + 3600 * SECOND_NS, &quota, 100), 25);
    }

    #[test]
    fn refused_requests_cost_nothing_and_looking_takes_nothing() {
        let (bucket, quota) = (AtomicU64::new(0), quota("1/s"));
        assert_eq!(through(&bucket, 0, &quota, 1000), 1);
        assert_eq!(look(&bucket, SECOND_NS, &quota), Ok(()));
        assert_eq!(through(&bucket, SECOND_NS, &quota, 1000), 1);
    }

    #[test]
    fn over_any_time_no_more_pass_than_the_burst_and_the_rate() {
        let (bucket, quota) = (AtomicU64::new(0), quota("7/s burst=3"));
        let passed: usize = (0..10_000).map(|step| through(&bucket, step * SECOND_NS / 1000, &quota, 2)).sum();
        assert_eq!(passed, 3 + 69);
    }

    #[test]
    fn a_clock_that_goes_back_neither_panics_nor_locks_out() {
        let (bucket, quota, late) = (AtomicU64::new(0), quota("10/s"), 3600 * SECOND_NS);
        assert_eq!(through(&bucket, late, &quota, 100), 10);
        for now in [0, late / 2, u64::MAX] {
            let wait = take(&bucket, now, &quota).err().unwrap_or(0);
            assert!(wait <= SECOND_NS / 10, "{wait} ns at {now}");
            let _ = take(&bucket, now, &quota);
        }
        let bucket = AtomicU64::new(late);
        assert_eq!(take(&bucket, 0, &quota), Err(SECOND_NS / 10));
        // Nothing was taken in the past; from there it fills as it did before.
        let bucket = AtomicU64::new(SECOND_NS);
        assert_eq!(through(&bucket, SECOND_NS / 10, &quota, 100), 1);
    }
}
