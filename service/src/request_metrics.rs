//! Counts and times data-plane requests, alike in gateway and node. Labels come from fixed sets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use wire::entries::{ENTRIES_LIST, ENTRIES_MGET};

/// The series of the data plane.
#[derive(Debug)]
pub struct RequestMetrics {
    requests: Family<Labels, Counter>,
    seconds: Histogram,
    durations: [AtomicU64; BUCKETS + 1],
}

/// The buckets double from this one on, 50 µs.
const FIRST_BUCKET_US: u64 = 50;
/// How many buckets have a bound: the last ends at 50 µs × 2¹⁶, about 3.3 s.
const BUCKETS: usize = 17;

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
        let requests = Family::default();
        let seconds = Histogram::new(exponential_buckets(FIRST_BUCKET_US as f64 / 1e6, 2.0, BUCKETS as u16));
        registry.register("requests", "Data-plane requests by route and status", Clone::clone(&requests));
        let unit = Unit::Seconds;
        registry.register_with_unit("request_duration", "Time of data-plane requests", unit, seconds.clone());
        Self { requests, seconds, durations: Default::default() }
    }

    /// Counts one answered request.
    pub fn observe(&self, route: Route, status: StatusCode, took: Duration) {
        self.requests.get_or_create(&Labels { route, status: status.as_u16() }).inc();
        self.seconds.observe(took.as_secs_f64());
        self.durations[bucket(took)].fetch_add(1, Ordering::Relaxed);
    }

    /// Requests so far by their duration: the bucket's upper bound in microseconds (none: no bound), how many in it.
    /// What the histogram holds, which cannot be read back.
    pub fn durations(&self) -> Vec<(Option<u64>, u64)> {
        let bound = |index: usize| (index < BUCKETS).then(|| FIRST_BUCKET_US << index);
        let counts = self.durations.iter().map(|count| count.load(Ordering::Relaxed));
        counts.enumerate().map(|(index, count)| (bound(index), count)).collect()
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
    use super::*;

    #[test]
    fn a_duration_falls_into_the_bucket_whose_bound_holds_it() {
        let fall = |us: u64| bucket(Duration::from_micros(us));
        assert_eq!([0, 1, 50, 51, 100, 101, 200].map(fall), [0, 0, 0, 1, 1, 2, 2]);
        assert_eq!((fall(50 << 16), fall((50 << 16) + 1)), (16, 17));
        assert_eq!(bucket(Duration::MAX), BUCKETS);
    }
}
