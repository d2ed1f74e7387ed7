//! The latency of a node as an average that follows peaks at once and forgets them slowly, as Finagle's `p2cPeakEwma`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// After how long an old time counts for a third.
const FORGETS: Duration = Duration::from_secs(10);

/// The average of one node. Two that note at once may lose one of the times: it is an average.
#[derive(Debug)]
pub(crate) struct PeakEwma {
    began: Instant,
    us: AtomicU64,
    noted_at_us: AtomicU64,
}

impl Default for PeakEwma {
    fn default() -> Self {
        Self { began: Instant::now(), us: AtomicU64::new(0), noted_at_us: AtomicU64::new(0) }
    }
}

impl PeakEwma {
    /// Adds the time that a request took.
    pub(crate) fn note(&self, took: Duration) {
        let now = self.began.elapsed().as_micros() as u64;
        let since = now.saturating_sub(self.noted_at_us.swap(now, Ordering::Relaxed));
        let took = took.as_micros().min(u128::from(u64::MAX)) as u64;
        let next = after(self.us.load(Ordering::Relaxed), took, Duration::from_micros(since));
        self.us.store(next, Ordering::Relaxed);
    }

    /// What one more request there costs, with so many under way.
    pub(crate) fn cost(&self, in_flight: u64) -> f64 {
        // One microsecond at least: of nodes that nobody knows, the one with fewer requests.
        self.us.load(Ordering::Relaxed).max(1) as f64 * (in_flight + 1) as f64
    }
}

/// The average after one more time, in microseconds; `since` the last one. Pure.
fn after(average: u64, took: u64, since: Duration) -> u64 {
    if took > average {
        return took;
    }
    let kept = (-since.as_secs_f64() / FORGETS.as_secs_f64()).exp();
    (average as f64 * kept + took as f64 * (1.0 - kept)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_counts_at_once_and_is_forgotten_slowly() {
        assert_eq!(after(1_000, 50_000, Duration::ZERO), 50_000);
        assert_eq!(after(50_000, 1_000, Duration::ZERO), 50_000);
        let third = after(50_000, 0, FORGETS);
        assert!((18_000..19_000).contains(&third), "{third}");
        assert_eq!(after(50_000, 1_000, FORGETS * 100), 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn the_cost_grows_with_the_latency_and_with_what_is_under_way() {
        let [slow, fast] = [PeakEwma::default(), PeakEwma::default()];
        assert!(slow.cost(1) > fast.cost(0), "nothing is known: fewer requests");
        slow.note(Duration::from_millis(100));
        fast.note(Duration::from_millis(1));
        assert!(slow.cost(0) > fast.cost(50) && slow.cost(0) < fast.cost(150));
        tokio::time::advance(FORGETS * 100).await;
        slow.note(Duration::from_millis(1));
        assert!(slow.cost(0) < fast.cost(1));
    }
}
