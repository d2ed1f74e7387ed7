//! What the nodes did between two rounds of load reports.

use std::collections::BTreeMap;
use std::time::Duration;

use wire::control::LoadReport;

use super::P99_REQUESTS_MIN;

/// All nodes together, between two rounds of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Data-plane requests answered.
    pub requests: u64,
    /// The time of 99 of 100 of them; `None`: too few to tell.
    pub p99: Option<Percentile>,
    /// Read statements sent to the database.
    pub origin_reads: u64,
    /// The same, per second.
    pub origin_reads_per_second: f64,
}

/// A percentile as buckets tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentile {
    /// At most so long; `None`: longer than the largest bucket's bound.
    pub within: Option<Duration>,
}

/// What happened in `elapsed` between two rounds. A node counts only if the same process answered in both: one that started
/// in between, or that was not asked before, has nothing to be compared with and starts anew.
pub fn window(before: &[LoadReport], after: &[LoadReport], elapsed: Duration) -> Window {
    let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
    let mut origin_reads = 0;
    for later in after {
        let earlier = before.iter().find(|report| report.node == later.node);
        let Some((durations, reads)) = earlier.and_then(|earlier| growth(earlier, later)) else { continue };
        origin_reads += reads;
        for (bound, requests) in durations {
            *buckets.entry(bound).or_default() += requests;
        }
    }
    let requests = buckets.values().sum();
    let seconds = elapsed.as_secs_f64();
    let origin_reads_per_second = if seconds > 0.0 { origin_reads as f64 / seconds } else { 0.0 };
    Window { requests, p99: p99(&buckets, requests), origin_reads, origin_reads_per_second }
}

/// Stands for "no bound": sorts last.
const NO_BOUND: u64 = u64::MAX;

/// Requests per bucket, and reads, that one process added; `None` when the later report is not of the same process.
fn growth(earlier: &LoadReport, later: &LoadReport) -> Option<(Vec<(u64, u64)>, u64)> {
    if earlier.incarnation != later.incarnation {
        return None;
    }
    let reads = later.origin_reads.checked_sub(earlier.origin_reads)?;
    let durations = later.durations.iter().map(|bucket| {
        let same = earlier.durations.iter().find(|other| other.at_most_us == bucket.at_most_us);
        let added = bucket.requests.checked_sub(same.map_or(0, |same| same.requests))?;
        Some((bucket.at_most_us.unwrap_or(NO_BOUND), added))
    });
    Some((durations.collect::<Option<Vec<_>>>()?, reads))
}

/// The bound of the bucket in which the 99th of 100 requests lies.
fn p99(buckets: &BTreeMap<u64, u64>, requests: u64) -> Option<Percentile> {
    if requests < P99_REQUESTS_MIN {
        return None;
    }
    let rank = requests - requests / 100;
    let mut seen = 0;
    let (bound, _) = buckets.iter().find(|(_, requests)| {
        seen += **requests;
        seen >= rank
    })?;
    Some(Percentile { within: (*bound != NO_BOUND).then(|| Duration::from_micros(*bound)) })
}
