//! The node's metrics: a registry per node, fixed label sets, never a key or a user.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use service::fixed_counters::{FixedCounters, FixedLabels};
use service::request_metrics::RequestMetrics;

use placement::freshness::Bypass;

use crate::audit::metrics::AuditMetrics;

/// All series of one node.
pub(crate) struct Metrics {
    pub(crate) registry: Registry,
    pub(crate) requests: RequestMetrics,
    pub(crate) audit: AuditMetrics,
    pub(crate) reads: FixedCounters<TierLabels>,
    pub(crate) bypasses: Family<BypassLabels, Counter>,
    pub(crate) origin_reads: Counter,
    pub(crate) origin_read_statements: Counter,
    pub(crate) writes: Family<WriteLabels, Counter>,
    pub(crate) wrong_owner: Counter,
    pub(crate) renewed_slots: Counter,
    pub(crate) fenced: Counter,
    pub(crate) adopted_slots: Counter,
    pub(crate) handed_entries: Counter,
    pub(crate) taken_entries: Counter,
    pub(crate) broken_streams: Counter,
    pub(crate) l2_errors: Counter,
    pub(crate) l2_pipelines: Counter,
    pub(crate) l2_unreadable: Counter,
    pub(crate) l2_probe_failures: Counter,
    pub(crate) l2_sessions: Gauge,
    pub(crate) owned_slots: Gauge,
    pub(crate) epoch: Gauge,
    pub(crate) lease_left_ms: Gauge,
    pub(crate) l1_entries: Gauge,
    pub(crate) l1_bytes: Gauge,
    pub(crate) requests_in_progress: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct TierLabels {
    pub(crate) tier: Tier,
}

/// Which tier answered a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "label values as they appear")]
pub(crate) enum Tier {
    l1,
    l2,
    origin,
    collapsed,
    bypass,
}

const TIERS: [Tier; 5] = [Tier::l1, Tier::l2, Tier::origin, Tier::collapsed, Tier::bypass];

impl FixedLabels for TierLabels {
    const COUNT: usize = TIERS.len();

    fn place(&self) -> usize {
        self.tier as usize
    }

    fn at(place: usize) -> Self {
        Self { tier: TIERS[place] }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct BypassLabels {
    pub(crate) reason: BypassReason,
}

/// [`Bypass`] as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "label values as they appear")]
pub(crate) enum BypassReason {
    detached,
    lease,
    sealed,
    writer_active,
    unsettled,
}

impl From<Bypass> for BypassReason {
    fn from(bypass: Bypass) -> Self {
        match bypass {
            Bypass::Detached => Self::detached,
            Bypass::Lease => Self::lease,
            Bypass::Sealed => Self::sealed,
            Bypass::WriterActive => Self::writer_active,
            Bypass::Unsettled => Self::unsettled,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct WriteLabels {
    pub(crate) outcome: WriteOutcome,
}

/// How a registered write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "label values as they appear")]
pub(crate) enum WriteOutcome {
    committed,
    precondition_failed,
    absent,
    not_executed,
    unknown,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("shardcache_node");
        let mut metrics = Self {
            requests: RequestMetrics::register(&mut registry),
            audit: AuditMetrics::register(&mut registry),
            registry,
            reads: FixedCounters::default(),
            bypasses: Family::default(),
            origin_reads: Counter::default(),
            origin_read_statements: Counter::default(),
            writes: Family::default(),
            wrong_owner: Counter::default(),
            renewed_slots: Counter::default(),
            fenced: Counter::default(),
            adopted_slots: Counter::default(),
            handed_entries: Counter::default(),
            taken_entries: Counter::default(),
            broken_streams: Counter::default(),
            l2_errors: Counter::default(),
            l2_pipelines: Counter::default(),
            l2_unreadable: Counter::default(),
            l2_probe_failures: Counter::default(),
            l2_sessions: Gauge::default(),
            owned_slots: Gauge::default(),
            epoch: Gauge::default(),
            lease_left_ms: Gauge::default(),
            l1_entries: Gauge::default(),
            l1_bytes: Gauge::default(),
            requests_in_progress: Gauge::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let mut registry = std::mem::take(&mut self.registry);
        registry.register("reads", "Reads by the tier that answered", self.reads.clone());
        registry.register("bypasses", "Reads that passed the caches by, by reason", self.bypasses.clone());
        registry.register("origin_reads", "Reads of the database, those of audits aside", self.origin_reads.clone());
        registry.register(
            "origin_read_statements",
            "Statements that read entries for loads and direct reads",
            self.origin_read_statements.clone(),
        );
        registry.register("writes", "Registered writes by outcome", self.writes.clone());
        registry.register("wrong_owner", "Requests answered 421", self.wrong_owner.clone());
        registry.register("renewed_slots", "Slots that got a new tenure by RENEW", self.renewed_slots.clone());
        registry.register("fenced", "Times this process lost its incarnation", self.fenced.clone());
        registry.register("adopted_slots", "Slots gained with their entries", self.adopted_slots.clone());
        registry.register("handoff_entries_sent", "Entries sent to receivers", self.handed_entries.clone());
        registry.register("handoff_entries_received", "Entries taken from old owners", self.taken_entries.clone());
        registry.register("handoff_streams_broken", "Streams to receivers that broke", self.broken_streams.clone());
        registry.register("l2_errors", "L2 commands that failed or took too long", self.l2_errors.clone());
        registry.register("l2_pipelines", "Pipelines that looked entries up in L2", self.l2_pipelines.clone());
        registry.register("l2_unreadable", "What L2 held and could not be read", self.l2_unreadable.clone());
        registry.register("l2_probe_failures", "Failed attempts to form an L2 session", self.l2_probe_failures.clone());
        registry.register("l2_sessions", "L2 servers in use", self.l2_sessions.clone());
        registry.register("owned_slots", "Slots owned", self.owned_slots.clone());
        registry.register("ring_epoch", "Ring epoch seen last", self.epoch.clone());
        registry.register("lease_left_milliseconds", "Lease left, margin deducted", self.lease_left_ms.clone());
        registry.register("l1_entries", "Entries in L1", self.l1_entries.clone());
        registry.register("l1_bytes", "Bytes in L1, overhead included", self.l1_bytes.clone());
        registry.register("requests_in_progress", "Requests in progress", self.requests_in_progress.clone());
        self.registry = registry;
    }
}
