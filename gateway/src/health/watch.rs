//! The task that watches the nodes: has each checked, ejects and re-admits, and keeps what is computed now and then.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::active::check;
use super::outlier::{Detector, Seen, Verdict};
use super::standing::Condition;
use crate::gateway::Gateway;
use crate::limits;
use crate::node_policy::Outlier;
use crate::ring_view::{NodeView, RingView};
use crate::upstream::Upstream;

const CONDITIONS: [Condition; 4] = [Condition::Well, Condition::InDoubt, Condition::Unhealthy, Condition::Ejected];

/// Watches until stopped; what it has begun ends with it.
pub(crate) async fn watch_nodes(gateway: Arc<Gateway>, stop: CancellationToken) {
    let policy = gateway.config.nodes.clone();
    let mut detector = (policy.outlier != Outlier::Off).then(|| Detector::new(policy.outlier == Outlier::Latency));
    let mut checked: Vec<Weak<Upstream>> = Vec::new();
    let mut checks = JoinSet::new();
    let began = Instant::now();
    let mut last = began;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Some(_) = checks.join_next() => continue,
            () = tokio::time::sleep_until(last + limits::WATCH_EVERY) => {}
        }
        let now = Instant::now();
        let view = gateway.ring.view();
        checked.retain(|upstream| upstream.strong_count() > 0);
        for node in view.nodes() {
            let upstream = Arc::downgrade(&node.upstream);
            if !checked.iter().any(|known| known.ptr_eq(&upstream)) {
                checks.spawn(check(upstream.clone(), policy.health_every));
                checked.push(upstream);
            }
        }
        if let Some(detector) = &mut detector {
            carry_out(&gateway, &view, &judge(detector, &view, now - began));
        }
        let begun = view.nodes().iter().map(|node| node.upstream.load().begun_since_asked()).sum();
        gateway.retry_budget.fill(begun, now - last);
        gateway.latencies.refresh();
        last = now;
    }
}

fn judge(detector: &mut Detector, view: &RingView, now: std::time::Duration) -> Verdict {
    let seen: Vec<Seen<'_>> = view
        .members()
        .map(|node| Seen {
            name: node.upstream.address(),
            counts: node.upstream.load().counts(),
            answers: !node.upstream.standing().is_silent(),
            probed: node.upstream.is_probed(),
        })
        .collect();
    detector.look(now, &seen)
}

fn carry_out(gateway: &Gateway, view: &RingView, verdict: &Verdict) {
    let by_address: HashMap<&str, &NodeView> =
        view.nodes().iter().map(|node| (node.upstream.address(), node)).collect();
    for (address, reason) in &verdict.ejected {
        gateway.metrics.nodes.ejected(*reason);
        if let Some(node) = by_address.get(address.as_str()) {
            tracing::warn!(node = %node.id, ?reason, "the node is ejected: its users' writes get 503, their reads go past it");
        }
    }
    for address in &verdict.back {
        if let Some(node) = by_address.get(address.as_str()) {
            node.upstream.load().begin_anew();
            node.upstream.standing().come_back();
            tracing::info!(node = %node.id, "the node is no longer ejected");
        }
    }
    for (address, node) in by_address {
        let standing = node.upstream.standing();
        standing.set_ejected(verdict.avoided.iter().any(|avoided| avoided == address));
        standing.end_slow_start();
    }
    gateway.metrics.nodes.panic.set(i64::from(verdict.panic));
}

/// Counts the members by condition, for a scrape.
pub(crate) fn count_conditions(gateway: &Gateway, view: &RingView) {
    for condition in CONDITIONS {
        let count = view.members().filter(|node| node.upstream.standing().condition() == condition).count();
        gateway.metrics.nodes.set_nodes(condition, count as i64);
    }
}
