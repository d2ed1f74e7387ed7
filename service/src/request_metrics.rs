//! Counts and times data-plane requests, alike in gateway and node. Labels come from fixed sets.

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
        let seconds = Histogram::new(exponential_buckets(0.000_05, 2.0, 17));
        registry.register("requests", "Data-plane requests by route and status", Clone::clone(&requests));
        let unit = Unit::Seconds;
        registry.register_with_unit("request_duration", "Time of data-plane requests", unit, seconds.clone());
        Self { requests, seconds }
    }

    /// Counts one answered request.
    pub fn observe(&self, route: Route, status: StatusCode, took: Duration) {
        self.requests.get_or_create(&Labels { route, status: status.as_u16() }).inc();
        self.seconds.observe(took.as_secs_f64());
    }
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
