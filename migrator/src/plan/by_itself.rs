//! What the failure controller plans without being asked: a member that is back gets its share, one that is leaving gives
//! its slots away, those of one that is gone are taken over. In each case the members stay the same.

use origin::RingState;
use placement::{NodeId, Slot};

use super::standing::Standing;
use super::{Plan, PlanRefused, planned};

/// Gives the first member that [lacks its share](lacks_share) what is missing; `None`: there is none, or nothing could move.
pub fn readmission(state: &RingState) -> Option<Plan> {
    let standing = Standing::of(state);
    state.members.iter().filter(|member| standing.lacks_share(member)).find_map(|member| {
        let moves = standing.moves_to_fill(member).ok().filter(|moves| !moves.is_empty())?;
        planned(state, format!("readmit {}", member.id), state.members.clone(), moves).ok()
    })
}

/// Whether the member is up, stays, and has no slots, or clearly less than its share though nobody is away.
pub fn lacks_share(state: &RingState, id: &NodeId) -> bool {
    let standing = Standing::of(state);
    standing.member(id).is_ok_and(|member| standing.lacks_share(member))
}

/// Gives all slots of a member that is up to the others that are up and stay.
pub fn emptying(state: &RingState, id: &NodeId) -> Result<Plan, PlanRefused> {
    let standing = Standing::of(state);
    standing.member(id)?;
    if !standing.is_up(id) {
        return Err(PlanRefused::LeaseOver(id.clone()));
    }
    if !standing.owns_any(id) {
        return Err(PlanRefused::NoSlots(id.clone()));
    }
    planned(state, format!("drain {id}"), state.members.clone(), standing.moves_away_from(id)?)
}

/// Every slot of the member with the one that should take it over, among those that are up and stay.
pub fn takeover(state: &RingState, id: &NodeId) -> Result<Vec<(Slot, NodeId)>, PlanRefused> {
    let moves = Standing::of(state).moves_away_from(id)?;
    Ok(moves.into_iter().map(|moving| (moving.slot, moving.to)).collect())
}
