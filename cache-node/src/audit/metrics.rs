//! The auditor's series, `shardcache_node_audit_…`: fixed label sets, those of an alarm there from the start.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// What the auditor has found.
#[derive(Debug)]
pub(crate) struct AuditMetrics {
    checked: Family<HeldLabels, Counter>,
    inconsistent: Family<HeldLabels, Counter>,
    skipped: Family<SkipLabels, Counter>,
    pub(crate) dropped: Counter,
    age: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HeldLabels {
    tier: HeldIn,
}

/// The cache that held what was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "label values as they appear")]
pub(crate) enum HeldIn {
    l1,
    l2,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SkipLabels {
    reason: Skipped,
}

/// Why a sample was not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "label values as they appear")]
pub(crate) enum Skipped {
    /// As many audits as may be were in progress.
    busy,
    /// The origin did not answer, or not in time.
    origin,
    /// A write, a seal, a new reign or the end of the lease may lie in between.
    overlapped,
    /// The slot went to another node.
    not_ours,
}

/// The first bucket of the age, in seconds; each is four times the one before, the last two and a half days.
const FIRST_BUCKET_S: f64 = 0.05;
const BUCKETS: u16 = 12;

impl AuditMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            checked: Family::default(),
            inconsistent: Family::default(),
            skipped: Family::default(),
            dropped: Counter::default(),
            age: Histogram::new(exponential_buckets(FIRST_BUCKET_S, 4.0, BUCKETS)),
        };
        let held = "What L1 and L2 held of sampled reads and was held against the database";
        registry.register("audit_checked", held, metrics.checked.clone());
        let wrong = "What of it was not what the database had: wrong, whatever the reason";
        registry.register("audit_inconsistent", wrong, metrics.inconsistent.clone());
        registry.register("audit_skipped", "Sampled reads that were not judged", metrics.skipped.clone());
        let dropped = "Entries found wrong that no cache can give any more";
        registry.register("audit_dropped", dropped, metrics.dropped.clone());
        let age = "How long at least a wrong entry had been served";
        registry.register_with_unit("audit_inconsistency_age", age, Unit::Seconds, metrics.age.clone());
        for tier in [HeldIn::l1, HeldIn::l2] {
            drop(metrics.checked.get_or_create(&HeldLabels { tier }));
            drop(metrics.inconsistent.get_or_create(&HeldLabels { tier }));
        }
        metrics
    }

    pub(super) fn checked(&self, tier: HeldIn) {
        self.checked.get_or_create(&HeldLabels { tier }).inc();
    }

    /// `age` is `None` for what was held and not served.
    pub(super) fn inconsistent(&self, tier: HeldIn, age: Option<Duration>) {
        self.inconsistent.get_or_create(&HeldLabels { tier }).inc();
        if let Some(age) = age {
            self.age.observe(age.as_secs_f64());
        }
    }

    pub(super) fn skipped(&self, reason: Skipped) {
        self.skipped.get_or_create(&SkipLabels { reason }).inc();
    }
}

#[cfg(test)]
impl AuditMetrics {
    /// (checked, inconsistent) of one tier.
    pub(super) fn found(&self, tier: HeldIn) -> (u64, u64) {
        let labels = HeldLabels { tier };
        (self.checked.get_or_create(&labels).get(), self.inconsistent.get_or_create(&labels).get())
    }

    pub(super) fn skips(&self, reason: Skipped) -> u64 {
        self.skipped.get_or_create(&SkipLabels { reason }).get()
    }
}
