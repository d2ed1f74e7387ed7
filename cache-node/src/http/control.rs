//! `/internal/*`: what the migrator asks of a node.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use http::{Response, StatusCode};
use placement::{ChangeId, Slot};
use wire::ProblemCode;
use wire::control::{CopyReport, CopyRequest, DurationBucket, LoadReport, SealRequest, SlotContents, SlotsReport};

use super::answer;
use crate::handoff::CopyRefused;
use crate::node::Node;
use crate::sealing::SealRefused;

pub(super) async fn copy(
    State(node): State<Arc<Node>>,
    Path(change): Path<String>,
    body: Bytes,
) -> Result<Json<CopyReport>, Response<Body>> {
    let change = change_id(&change).ok_or_else(no_change_id)?;
    let request: CopyRequest = serde_json::from_slice(&body)
        .map_err(|_| answer::problem(ProblemCode::RequestInvalid, "the body is {\"receivers\":[…]} as JSON"))?;
    node.copy(change, &request).map(Json).map_err(|refused| {
        let why = match refused {
            CopyRefused::NotOwner(slot) => format!("slot {slot} is not owned by this node"),
            CopyRefused::Outdated(later) => format!("change {later} is under way"),
        };
        answer::problem(ProblemCode::ChangeConflict, why)
    })
}

pub(super) async fn seal(
    State(node): State<Arc<Node>>,
    Path(change): Path<String>,
    body: Bytes,
) -> Result<Json<wire::control::SealReport>, Response<Body>> {
    let change = change_id(&change).ok_or_else(no_change_id)?;
    let request: SealRequest = serde_json::from_slice(&body)
        .map_err(|_| answer::problem(ProblemCode::RequestInvalid, "the body is {\"slots\":[…]} as JSON"))?;
    let sealed = node.seal(change, &request.slots).await;
    sealed.map(Json).map_err(|refused| {
        let why = match refused {
            SealRefused::NotPlanned => format!("change {change} is over, or does not take these slots from this node"),
            SealRefused::Origin(error) => return answer::origin_failed(&error),
            SealRefused::NotOwner(slot) => format!("slot {slot} is not owned by this node"),
            SealRefused::SealedForAnother(other) => format!("sealed for change {other}, which is not settled"),
            SealRefused::NotDrained(slot) => format!("writes of slot {slot} did not end in time"),
        };
        answer::problem(ProblemCode::ChangeConflict, why)
    })
}

pub(super) async fn settle(
    State(node): State<Arc<Node>>,
    Path(change): Path<String>,
) -> Result<Json<wire::control::SettleReport>, Response<Body>> {
    let change = change_id(&change).ok_or_else(no_change_id)?;
    node.settle(change).await.map(Json).map_err(|error| answer::origin_failed(&error))
}

pub(super) async fn refresh(State(node): State<Arc<Node>>) -> Result<StatusCode, Response<Body>> {
    node.refresh_slots().await.map(|_| StatusCode::NO_CONTENT).map_err(|error| answer::origin_failed(&error))
}

/// What L1 holds under the current reigns, per slot.
pub(super) async fn slots(State(node): State<Arc<Node>>) -> Result<Json<SlotsReport>, Response<Body>> {
    // Takes time by the number of entries: not on a thread that serves.
    let report = tokio::task::spawn_blocking(move || slots_report(&node)).await;
    report.map(Json).map_err(|_| answer::problem(ProblemCode::Overloaded, "the node is stopping"))
}

fn slots_report(node: &Node) -> SlotsReport {
    let mut contents: HashMap<Slot, SlotContents> = HashMap::new();
    node.l1.for_each(|user, tag, payload_bytes| {
        let slot = node.slots.of_user(user);
        if node.slots.word(slot).servable() == Some(tag) {
            let held = contents.entry(slot).or_insert(SlotContents { slot, entries: 0, bytes: 0 });
            held.entries += 1;
            held.bytes += payload_bytes as u64;
        }
    });
    let mut slots: Vec<_> = contents.into_values().collect();
    slots.sort_by_key(|contents| contents.slot);
    SlotsReport { node: node.config.node_id.clone(), owned: node.slots.owned(), slots }
}

/// What the node has done since its start.
pub(super) async fn load(State(node): State<Arc<Node>>) -> Json<LoadReport> {
    let bucket = |(at_most_us, requests)| DurationBucket { at_most_us, requests };
    Json(LoadReport {
        node: node.config.node_id.clone(),
        incarnation: node.status.incarnation(),
        durations: node.metrics.requests.durations().into_iter().map(bucket).collect(),
        origin_reads: node.metrics.origin_reads.get(),
    })
}

fn change_id(text: &str) -> Option<ChangeId> {
    text.parse().ok().map(ChangeId)
}

fn no_change_id() -> Response<Body> {
    answer::problem(ProblemCode::RequestInvalid, "a change is a number")
}
