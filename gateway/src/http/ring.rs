//! `GET /v1/ring` and `GET /v1/ring/locate`.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use http::{Request, Response};
use wire::ring_document::{Location, RingDocument};
use wire::{Problem, ProblemCode};

use super::Client;
use super::pages::Door;
use crate::gateway::Gateway;
use crate::identity::{Caller, Scope};

pub(super) async fn ring(State(gateway): State<Arc<Gateway>>) -> Json<RingDocument> {
    Json(gateway.ring.view().document())
}

/// Where a user's entries live by the copy of the ring held here.
pub(super) async fn locate(
    State(gateway): State<Arc<Gateway>>,
    request: Request<Body>,
) -> Result<Json<Location>, Response<Body>> {
    let Client { address, door } = *request.extensions().get().expect("every request of the router has it");
    let headers = request.headers();
    let caller = match door {
        Door::Public => gateway.identity.caller(headers, Scope::Read),
        // An admin may ask where any user lives.
        Door::Admin => Ok(Caller::Any),
    };
    let user = caller.and_then(|caller| gateway.user_of(headers, caller, address)).map_err(Problem::into_response)?;
    let view = gateway.ring.view();
    let no_ring = || Problem::new(ProblemCode::OwnerUnavailable, "there is no ring yet: run `migrator init`");
    let ring = view.ring().ok_or_else(no_ring).map_err(Problem::into_response)?;
    let slot = ring.slot_of_user(&user);
    let owner = ring.owner(slot).clone();
    let pool = view.nodes().iter().find(|node| node.id == owner).map(|node| node.pool.clone()).unwrap_or_default();
    Ok(Json(Location { slot, owner, pool, epoch: view.epoch() }))
}
