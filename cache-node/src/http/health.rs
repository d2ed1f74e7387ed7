//! `/healthz`, `/readyz`, `/metrics`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::{StatusCode, header};
use serde::Serialize;
use service::request_metrics::{METRICS_TEXT, encode};

use super::is_draining;
use crate::clock::Moment;
use crate::node::Node;

/// Alive: the process answers.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

#[derive(Serialize)]
struct Readiness {
    node: String,
    /// `ready`, `degraded`, `standby`, `starting` or `draining`.
    state: &'static str,
    incarnation: i64,
    epoch: u64,
    owned_slots: usize,
    /// Why it is not plainly ready.
    reasons: Vec<&'static str>,
}

/// 200 once the node has its name and until it drains, also while database or L2 are away: they would be away for every
/// other node too, and the gateways decide per request.
pub(super) async fn readyz(State(node): State<Arc<Node>>) -> impl IntoResponse {
    let mut reasons = Vec::new();
    let owned_slots = node.slots.owned();
    let (sessions, servers) = node.l2.sessions();
    let has_name = node.status.incarnation().0 > 0;
    if !node.status.claimed.load(Ordering::Acquire) {
        reasons.push("the node's name is not claimed: its last process still has the lease, or the database is away");
    } else if !node.lease.is_valid(Moment::now()) {
        reasons.push("the lease is over: the database is away, every read goes to the origin");
    }
    if sessions < servers {
        reasons.push("an L2 server is away: its slots go without L2");
    }
    let state = if is_draining(&node) {
        reasons.push("the node is stopping");
        "draining"
    } else if !has_name {
        "starting"
    } else if owned_slots == 0 {
        reasons.push("the node is no member of the ring: add it with `migrator add-node`");
        "standby"
    } else if reasons.is_empty() {
        "ready"
    } else {
        "degraded"
    };
    let status =
        if matches!(state, "draining" | "starting") { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let readiness = Readiness {
        node: node.config.node_id.to_string(),
        state,
        incarnation: node.status.incarnation().0,
        epoch: node.status.epoch().0,
        owned_slots,
        reasons,
    };
    (status, Json(readiness))
}

/// Prometheus text.
pub(super) async fn metrics(State(node): State<Arc<Node>>) -> impl IntoResponse {
    let gauges = &node.metrics;
    gauges.owned_slots.set(node.slots.owned() as i64);
    gauges.epoch.set(node.status.epoch().0 as i64);
    gauges.lease_left_ms.set(node.lease.left(Moment::now()).as_millis() as i64);
    gauges.l2_sessions.set(node.l2.sessions().0 as i64);
    let (entries, bytes) = node.l1.size();
    gauges.l1_entries.set(entries as i64);
    gauges.l1_bytes.set(bytes as i64);
    let in_progress = crate::limits::REQUESTS_IN_PROGRESS_MAX - node.in_progress.available_permits();
    gauges.requests_in_progress.set(in_progress as i64);
    ([(header::CONTENT_TYPE, METRICS_TEXT)], encode(&node.metrics.registry))
}
