//! The gateway's metrics: a registry per gateway, fixed label sets, never a key or a user.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use service::request_metrics::RequestMetrics;

use crate::health::metrics::NodeMetrics;

/// All series of one gateway.
pub(crate) struct Metrics {
    pub(crate) registry: Registry,
    pub(crate) requests: RequestMetrics,
    hops: Family<HopLabels, Counter>,
    pub(crate) epoch: Gauge,
    pub(crate) lines: Gauge,
    pub(crate) access_log_dropped: Counter,
    pub(crate) concurrency: Gauge,
    pub(crate) nodes: NodeMetrics,
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
        let requests = RequestMetrics::register(&mut registry);
        let hops = Family::default();
        let (epoch, lines, concurrency) = (Gauge::default(), Gauge::default(), Gauge::default());
        registry.register("hop_events", "What happened on the way to nodes", Clone::clone(&hops));
        registry.register("ring_epoch", "Epoch of the ring copy held", epoch.clone());
        registry.register("lines", "Lines to nodes that are open", lines.clone());
        let access_log_dropped = Counter::default();
        let dropped = "Lines of the access log that its reader was too slow for, or that could not be written";
        registry.register("access_log_dropped", dropped, access_log_dropped.clone());
        registry.register(
            "concurrency_limit",
            "How many reads the node with the fewest is given at a time; 0: no bound",
            concurrency.clone(),
        );
        let nodes = NodeMetrics::register(&mut registry);
        Self { registry, requests, hops, epoch, lines, access_log_dropped, concurrency, nodes }
    }

    pub(crate) fn count(&self, event: Hop) {
        self.hops.get_or_create(&HopLabels { event }).inc();
    }
}
