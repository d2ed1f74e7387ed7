//! `/healthz`, `/readyz`, `/metrics`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::{StatusCode, header};
use serde::Serialize;
use service::request_metrics::{METRICS_TEXT, encode};

use crate::gateway::Gateway;
use crate::health::watch::count_conditions;

/// Alive: the process answers.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

#[derive(Serialize)]
struct Readiness {
    /// `ready`, `degraded`, `starting` or `draining`.
    state: &'static str,
    epoch: u64,
    /// Why it is not plainly ready.
    reasons: Vec<String>,
    /// `on`: requests are delayed and refused on purpose, for a drill; else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    faults: Option<&'static str>,
}

/// 200 once a ring is held, also while the database or nodes are away: every other gateway would miss them too.
pub(super) async fn readyz(State(gateway): State<Arc<Gateway>>) -> impl IntoResponse {
    let view = gateway.ring.view();
    let mut reasons = Vec::new();
    if !gateway.ring.origin_reached() {
        reasons.push("the database cannot be polled: routing goes on by the ring copy held".to_owned());
    }
    for node in view.members() {
        let standing = node.upstream.standing();
        if !node.up || standing.is_silent() {
            reasons.push(format!("member {} does not answer", node.id));
        } else if standing.is_ejected() {
            reasons.push(format!("member {} is ejected: it fails more than the others", node.id));
        }
    }
    let state = if gateway.draining.load(Ordering::Acquire) {
        "draining"
    } else if view.ring().is_none() {
        reasons.push("there is no ring yet: run `migrator init`".to_owned());
        "starting"
    } else if reasons.is_empty() {
        "ready"
    } else {
        "degraded"
    };
    let faults = gateway.drill.is_some().then_some("on");
    let status =
        if matches!(state, "draining" | "starting") { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (status, Json(Readiness { state, epoch: view.epoch().0, reasons, faults }))
}

/// Prometheus text.
pub(super) async fn metrics(State(gateway): State<Arc<Gateway>>) -> impl IntoResponse {
    let view = gateway.ring.view();
    gateway.metrics.epoch.set(view.epoch().0 as i64);
    let limits = view.nodes().iter().filter_map(|node| Some(node.upstream.places.get()?.reads_limit() as i64));
    gateway.metrics.concurrency.set(limits.min().unwrap_or(0));
    gateway.metrics.lines.set(view.nodes().iter().map(|node| node.upstream.lines() as i64).sum());
    count_conditions(&gateway, &view);
    ([(header::CONTENT_TYPE, METRICS_TEXT)], encode(&gateway.metrics.registry))
}
