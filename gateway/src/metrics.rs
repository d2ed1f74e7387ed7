//! The gateway's metrics: a registry per gateway, fixed label sets, never a key or a user.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// All series of one gateway.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) requests: Family<RequestLabels, Counter>,
    pub(crate) request_seconds: Histogram,
    hops: Family<HopLabels, Counter>,
    pub(crate) epoch: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    pub(crate) route: Route,
    pub(crate) status: u16,
}

/// The routes of the data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "label values as they appear")]
pub(crate) enum Route {
    get,
    head,
    put,
    delete,
    list,
    mget,
    other,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HopLabels {
    event: Hop,
}

/// What may happen on the way to a node beside an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "label values as they appear")]
pub(crate) enum Hop {
    misdirected,
    detached,
    unreachable,
    busy,
    broken,
    timed_out,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("shardcache_gateway");
        let requests = Family::default();
        // 50 µs to about 3.3 s.
        let request_seconds = Histogram::new(exponential_buckets(0.000_05, 2.0, 17));
        let hops = Family::default();
        let epoch = Gauge::default();
        registry.register("requests", "Data-plane requests by route and status", Clone::clone(&requests));
        let seconds = request_seconds.clone();
        registry.register_with_unit("request_duration", "Time of data-plane requests", Unit::Seconds, seconds);
        registry.register("hop_events", "What happened on the way to nodes", Clone::clone(&hops));
        registry.register("ring_epoch", "Epoch of the ring copy held", epoch.clone());
        Self { registry, requests, request_seconds, hops, epoch }
    }

    pub(crate) fn count(&self, event: Hop) {
        self.hops.get_or_create(&HopLabels { event }).inc();
    }

    /// The text of `/metrics`.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
