//! Counts and times data-plane requests, alike in gateway and node. Labels come from fixed sets.
//!
//! Atomics alone, three of them a request: prometheus-client's own family and histogram take a lock each.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use wire::entries::{ENTRIES_LIST, ENTRIES_MGET};

use crate::fixed_counters::{FixedCounters, FixedLabels};

/// The series of the data plane.
#[derive(Debug)]
pub struct RequestMetrics {
    requests: FixedCounters<Labels>,
    durations: Durations,
}

/// The buckets double from this one on, 50 µs.
const FIRST_BUCKET_US: u64 = 50;
/// How many buckets have a bound: the last ends at 50 µs × 2¹⁶, about 3.3 s.
const BUCKETS: usize = 17;

/// A histogram; cheap to clone.
#[derive(Clone, Debug, Default)]
struct Durations(Arc<DurationsInner>);

#[derive(Debug, Default)]
struct DurationsInner {
    buckets: [AtomicU64; BUCKETS + 1],
    sum_ns: AtomicU64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    route: Route,
    status: u16,
}

/// The routes of the data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, missing_docs, reason = "label values as they appear")]
pub enum Route {
    get,
    head,
    put,
    delete,
    list,
    mget,
    other,
}

const ROUTES: [Route; 7] = [Route::get, Route::head, Route::put, Route::delete, Route::list, Route::mget, Route::other];
/// The statuses that `http::StatusCode` has: 100 to 999.
const STATUSES: usize = 900;

impl FixedLabels for Labels {
    const COUNT: usize = ROUTES.len() * STATUSES;

    fn place(&self) -> usize {
        self.route as usize * STATUSES + usize::from(self.status - 100)
    }

    fn at(place: usize) -> Self {
        Self { route: ROUTES[place / STATUSES], status: (place % STATUSES) as u16 + 100 }
    }
}

impl Route {
    /// The route of a request whose path is one of the data plane.
    pub fn of(method: &Method, path: &str) -> Self {
        match (path, method) {
            (ENTRIES_LIST, _) => Self::list,
            (ENTRIES_MGET, _) => Self::mget,
            (_, &Method::GET) => Self::get,
            (_, &Method::HEAD) => Self::head,
            (_, &Method::PUT) => Self::put,
            (_, &Method::DELETE) => Self::delete,
            _ => Self::other,
        }
    }
}

impl RequestMetrics {
    /// Registers `requests_total` and `request_duration_seconds` (50 µs to about 3.3 s).
    pub fn register(registry: &mut Registry) -> Self {
        let (requests, durations) = (FixedCounters::default(), Durations::default());
        registry.register("requests", "Data-plane requests by route and status", FixedCounters::clone(&requests));
        let unit = Unit::Seconds;
        registry.register_with_unit("request_duration", "Time of data-plane requests", unit, durations.clone());
        Self { requests, durations }
    }

    /// Counts one answered request.
    pub fn observe(&self, route: Route, status: StatusCode, took: Duration) {
        self.requests.inc(&Labels { route, status: status.as_u16() });
        let Durations(durations) = &self.durations;
        durations.buckets[bucket(took)].fetch_add(1, Ordering::Relaxed);
        durations.sum_ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Requests so far by their duration: the bucket's upper bound in microseconds (none: no bound), how many in it.
    pub fn durations(&self) -> Vec<(Option<u64>, u64)> {
        let bound = |index: usize| (index < BUCKETS).then(|| FIRST_BUCKET_US << index);
        self.durations.counts().enumerate().map(|(index, count)| (bound(index), count)).collect()
    }
}

impl Durations {
    fn counts(&self) -> impl Iterator<Item = u64> {
        self.0.buckets.iter().map(|count| count.load(Ordering::Relaxed))
    }
}

impl EncodeMetric for Durations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bound = |index| match index {
            BUCKETS => f64::INFINITY,
            _ => FIRST_BUCKET_US as f64 / 1e6 * f64::from(1 << index),
        };
        let buckets: Vec<(f64, u64)> = self.counts().enumerate().map(|(index, count)| (bound(index), count)).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = self.0.sum_ns.load(Ordering::Relaxed) as f64 / 1e9;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

fn bucket(took: Duration) -> usize {
    let microseconds = u64::try_from(took.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
    // The smallest power of two of first buckets that holds it.
    let doublings = microseconds.div_ceil(FIRST_BUCKET_US).max(1).checked_next_power_of_two().unwrap_or(1 << 63);
    (doublings.trailing_zeros() as usize).min(BUCKETS)
}

/// The text of `/metrics`.
pub fn encode(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, registry);
    text
}

/// The media type of [`encode`]'s text.
pub const METRICS_TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

    use super::*;

    #[test]
    fn a_duration_falls_into_the_bucket_whose_bound_holds_it() {
        let fall = |us: u64| bucket(Duration::from_micros(us));
        assert_eq!([0, 1, 50, 51, 100, 101, 200].map(fall), [0, 0, 0, 1, 1, 2, 2]);
        assert_eq!((fall(50 << 16), fall((50 << 16) + 1)), (16, 17));
        assert_eq!(bucket(Duration::MAX), BUCKETS);
    }

    #[test]
    fn the_durations_are_shown_as_a_histogram_is() {
        // Whole numbers of 1/512 s: their sum is the same in floating point, whoever adds them up.
        let several = [1, 1, 3, 100, 512, 5000].map(|parts: u64| Duration::from_nanos(parts * 1_953_125));
        let one = [0, 1, 49_999, 50_000, 50_001, 3_276_800_001].map(|ns| vec![Duration::from_nanos(ns)]);
        for took in one.into_iter().chain([Vec::new(), several.to_vec()]) {
            let (mut registry, mut others) = (Registry::default(), Registry::default());
            let ours = RequestMetrics::register(&mut registry);
            let theirs = Histogram::new(exponential_buckets(FIRST_BUCKET_US as f64 / 1e6, 2.0, BUCKETS as u16));
            let unit = Unit::Seconds;
            others.register_with_unit("request_duration", "Time of data-plane requests", unit, theirs.clone());
            for took in took {
                ours.observe(Route::get, StatusCode::OK, took);
                theirs.observe(took.as_secs_f64());
            }
            let (ours, theirs) = (encode(&registry), encode(&others));
            assert!(ours.ends_with(&theirs), "{ours} is not {theirs}");
        }
    }

    #[test]
    fn requests_are_counted_by_route_and_status() {
        let mut registry = Registry::with_prefix("x");
        let metrics = RequestMetrics::register(&mut registry);
        for (route, status) in [(Route::get, 100), (Route::get, 200), (Route::get, 200), (Route::other, 999)] {
            let status = StatusCode::from_u16(status).expect("a status");
            metrics.observe(route, status, Duration::ZERO);
        }
        let text = encode(&registry);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("x_requests")).collect();
        let expected = [
            "x_requests_total{route=\"get\",status=\"100\"} 1",
            "x_requests_total{route=\"get\",status=\"200\"} 2",
            "x_requests_total{route=\"other\",status=\"999\"} 1",
        ];
        assert_eq!(lines, expected);
    }
}
