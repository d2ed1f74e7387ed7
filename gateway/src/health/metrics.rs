//! The series about nodes: how many are in which condition, ejections, retries and hedges. Labels come from fixed sets; no node
//! has a series of its own.

use std::sync::atomic::AtomicI64;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::outlier;
use super::standing::Condition;

/// The series.
#[derive(Debug, Default)]
pub(crate) struct NodeMetrics {
    nodes: Family<ConditionLabels, Gauge<i64, AtomicI64>>,
    ejections: Family<ReasonLabels, Counter>,
    hedges: Family<HedgeLabels, Counter>,
    pub(crate) retries: Counter,
    pub(crate) retries_refused: Counter,
    pub(crate) panic: Gauge<i64, AtomicI64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConditionLabels {
    condition: ConditionLabel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "label values as they appear")]
enum ConditionLabel {
    well,
    in_doubt,
    unhealthy,
    ejected,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "label values as they appear")]
enum Reason {
    consecutive_errors,
    success_rate,
    latency,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HedgeLabels {
    result: HedgeResult,
}

/// What became of a hedge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "label values as they appear")]
pub(crate) enum HedgeResult {
    /// It was sent.
    sent,
    /// It answered first.
    won,
}

impl NodeMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        registry.register("nodes", "Members by how they stand with this gateway", this.nodes.clone());
        registry.register("ejections", "Nodes ejected, by reason", this.ejections.clone());
        registry.register("hedges", "Hedged reads", this.hedges.clone());
        registry.register("retries", "Requests sent once more, hedges too", this.retries.clone());
        registry.register("retries_refused", "Retries that the budget refused", this.retries_refused.clone());
        registry.register(
            "ejection_panic",
            "1 while fewer than half the nodes would be left, so that ejected ones are used",
            this.panic.clone(),
        );
        for condition in [Condition::Well, Condition::InDoubt, Condition::Unhealthy, Condition::Ejected] {
            this.set_nodes(condition, 0);
        }
        for reason in [Reason::consecutive_errors, Reason::success_rate, Reason::latency] {
            let _ = this.ejections.get_or_create(&ReasonLabels { reason });
        }
        for result in [HedgeResult::sent, HedgeResult::won] {
            let _ = this.hedges.get_or_create(&HedgeLabels { result });
        }
        this
    }

    /// Sets how many nodes are in a condition.
    pub(crate) fn set_nodes(&self, condition: Condition, count: i64) {
        let condition = match condition {
            Condition::Well => ConditionLabel::well,
            Condition::InDoubt => ConditionLabel::in_doubt,
            Condition::Unhealthy => ConditionLabel::unhealthy,
            Condition::Ejected => ConditionLabel::ejected,
        };
        self.nodes.get_or_create(&ConditionLabels { condition }).set(count);
    }

    pub(crate) fn ejected(&self, reason: outlier::Reason) {
        let reason = match reason {
            outlier::Reason::InARow => Reason::consecutive_errors,
            outlier::Reason::SuccessRate => Reason::success_rate,
            outlier::Reason::Latency => Reason::latency,
        };
        self.ejections.get_or_create(&ReasonLabels { reason }).inc();
    }

    pub(crate) fn hedge(&self, result: HedgeResult) {
        self.hedges.get_or_create(&HedgeLabels { result }).inc();
    }
}
