//! The retry budget: what is sent more than once is bounded to a share of what is sent, or retries would keep a cluster down
//! that load has brought down.
//!
//! After Finagle's: requests fill a bucket, retries take from it. What counts: a read sent to its owner again, the second and
//! third node of a detached read, a hedge, a last try at a silent owner. What does not: a request sent again because the ring has
//! moved (421), and the first detached try, which is what keeps the users of a dead node reading.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One retry in the bucket's unit.
const RETRY: u64 = 1_000_000;
/// How many retries a second are always allowed: else a gateway with few requests could not repeat any.
const PER_SECOND_MIN: u64 = 10;
/// For how long what is not used is kept.
const KEPT: Duration = Duration::from_secs(10);

/// A bucket of retries. Requests cost nothing here: they are counted elsewhere and put in from time to time.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    percent: u8,
    millionths: AtomicU64,
}

impl RetryBudget {
    /// A bucket that gets a retry for each hundred requests and percent.
    pub(crate) fn new(percent: u8) -> Self {
        Self { percent, millionths: AtomicU64::new(PER_SECOND_MIN * KEPT.as_secs() * RETRY) }
    }

    /// Puts in the share of the requests sent in the time since the last call.
    pub(crate) fn fill(&self, requests: u64, since: Duration) {
        let present = self.millionths.load(Ordering::Relaxed);
        let next = filled(present, self.percent, requests, since);
        // What was taken meanwhile stays taken.
        if next >= present {
            self.millionths.fetch_add(next - present, Ordering::Relaxed);
        } else {
            let over = present - next;
            let _ = self
                .millionths
                .try_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(over)));
        }
    }

    /// Takes one retry; whether there was one.
    pub(crate) fn take(&self) -> bool {
        self.millionths.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(RETRY)).is_ok()
    }
}

/// What is in the bucket after so many requests in so long. Pure.
fn filled(present: u64, percent: u8, requests: u64, since: Duration) -> u64 {
    let of_requests = requests.saturating_mul(u64::from(percent) * RETRY / 100);
    let since_us = since.as_micros().min(KEPT.as_micros()) as u64;
    let of_time = PER_SECOND_MIN * since_us * (RETRY / 1_000_000);
    let gain = of_requests.saturating_add(of_time);
    // As much as this rate brings in the time that it is kept.
    let kept_us = KEPT.as_micros() as u64;
    let most =
        (u128::from(gain) * u128::from(kept_us) / u128::from(since_us.max(1))).min(u128::from(u64::MAX / 2)) as u64;
    // Of a burst that has just ended something may be left: that goes within the same time.
    let fading = present - (u128::from(present) * u128::from(since_us) / u128::from(kept_us)) as u64;
    present.saturating_add(gain).min(most.max(fading))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(500);

    fn take_all(budget: &RetryBudget) -> u64 {
        let mut taken = 0;
        while budget.take() {
            taken += 1;
        }
        taken
    }

    #[test]
    fn retries_are_a_share_of_the_requests_and_ten_a_second_at_least() {
        let budget = RetryBudget::new(20);
        assert_eq!(take_all(&budget), 100, "what a quiet start has");
        let mut taken = 0;
        for _ in 0..20 {
            budget.fill(500, TICK);
            taken += take_all(&budget);
        }
        assert_eq!(taken, 10_000 / 5 + 10 * 10);
        budget.fill(0, TICK);
        assert_eq!(take_all(&budget), 5);
    }

    #[test]
    fn what_is_not_used_is_kept_for_ten_seconds_at_most() {
        let budget = RetryBudget::new(20);
        (0..1_000).for_each(|_| budget.fill(500, TICK));
        let full = 10 * (1_000 / 5 + 10);
        assert_eq!(budget.millionths.load(Ordering::Relaxed) / RETRY, full);
        (0..20).for_each(|_| budget.fill(0, TICK));
        let left = take_all(&budget);
        assert!(left < full / 2, "{left} are left of {full} after as long");
        (0..200).for_each(|_| budget.fill(0, TICK));
        assert_eq!(take_all(&budget), 100);
    }

    #[test]
    fn no_share_leaves_the_ten_a_second() {
        let budget = RetryBudget::new(0);
        take_all(&budget);
        budget.fill(1_000_000, TICK);
        assert_eq!(take_all(&budget), 5);
    }

    #[test]
    fn no_number_of_requests_and_no_time_overflows() {
        for percent in [0, 100] {
            for requests in [0, u64::MAX] {
                for since in [Duration::ZERO, Duration::MAX] {
                    filled(u64::MAX / 2, percent, requests, since);
                }
            }
        }
    }
}
