//! From the ring as it is and a verb to the plan of a change. Pure: the ring comes in as an argument.
//!
//! Not here: whether a joining node answers at its address (`phases::add_node`), and carrying the plan out (`driver`, and
//! `take_over` where the slots are those of a node that is gone).

mod by_itself;
mod joining;
mod pools;
mod refused;
mod standing;
mod verb;

use std::collections::BTreeMap;

use origin::{NewChange, RingState, TakeOver};
use placement::ring::SlotMove;
use placement::{Epoch, Incarnation, Member, NodeId, Ring, Weight};
use serde::Serialize;

pub use by_itself::{emptying, lacks_share, readmission, takeover};
pub use joining::joining;
pub use refused::PlanRefused;
pub use verb::Verb;

use standing::Standing;

/// What would be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The verb and its arguments.
    pub action: String,
    /// The epoch it is made for.
    pub from_epoch: Epoch,
    /// The ring after it.
    pub next: Ring,
    /// Slots that get another owner.
    pub moves: Vec<SlotMove>,
    /// Every member before or after, by name.
    pub shares: Vec<NodeShare>,
    /// Members that are down and stay members: none of their slots moves, and they get none.
    pub left_out: Vec<NodeId>,
    /// The member that leaves, when it is down: its slots can only be taken over.
    pub gone: Option<GoneNode>,
}

/// A node whose lease is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoneNode {
    /// Its name.
    pub id: NodeId,
    /// Its last process.
    pub incarnation: Incarnation,
}

/// A node's part of the ring before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeShare {
    /// The node.
    pub id: NodeId,
    /// Its weight now; `None`: no member.
    pub weight_now: Option<Weight>,
    /// Its weight after; `None`: no member then.
    pub weight_after: Option<Weight>,
    /// Its slots now.
    pub slots_now: usize,
    /// Its slots after.
    pub slots_after: usize,
}

/// What the verb would do to this ring.
pub fn make(state: &RingState, verb: &Verb) -> Result<Plan, PlanRefused> {
    let standing = Standing::of(state);
    let (members, moves) = match verb {
        Verb::AddNode { id, weight } => {
            let joins = joiner(state, id, *weight)?;
            (with(&state.members, &joins), standing.moves_to_fill(&joins)?)
        }
        Verb::RemoveNode { id } => {
            standing.member(id)?;
            if state.members.len() == 1 {
                return Err(PlanRefused::LastMember(id.clone()));
            }
            (without(&state.members, id), standing.moves_away_from(id)?)
        }
        Verb::ReplaceNode { old, new, weight } => {
            let weight = weight.unwrap_or(standing.member(old)?.weight);
            let joins = joiner(state, new, Some(weight))?;
            standing.same_pool(old, new)?;
            (with(&without(&state.members, old), &joins), standing.handed_over(old, new))
        }
        Verb::SetWeight { id, weight } => {
            let member = Member { id: id.clone(), weight: *weight };
            if standing.member(id)?.weight == *weight {
                return Err(PlanRefused::SameWeight { id: id.clone(), weight: *weight });
            }
            if !standing.is_up(id) {
                return Err(PlanRefused::LeaseOver(id.clone()));
            }
            (with(&without(&state.members, id), &member), standing.moves_to_fill(&member)?)
        }
        Verb::AssignUser { user, pool } => (state.members.clone(), vec![standing.assigned(user, pool)?]),
    };
    planned(state, verb.action(), members, moves)
}

fn joiner(state: &RingState, id: &NodeId, weight: Option<Weight>) -> Result<Member, PlanRefused> {
    if Standing::of(state).is_member(id) {
        return Err(PlanRefused::AlreadyMember(id.clone()));
    }
    let row = joining(&state.nodes, id)?;
    Ok(Member { id: id.clone(), weight: weight.unwrap_or(row.weight) })
}

fn with(members: &[Member], joins: &Member) -> Vec<Member> {
    members.iter().chain([joins]).cloned().collect()
}

fn without(members: &[Member], id: &NodeId) -> Vec<Member> {
    members.iter().filter(|member| &member.id != id).cloned().collect()
}

/// The plan that leads to these members by these moves.
fn planned(state: &RingState, action: String, members: Vec<Member>, moves: Vec<SlotMove>) -> Result<Plan, PlanRefused> {
    let standing = Standing::of(state);
    let now = standing.ring()?;
    let next = standing.after(members, &moves)?;
    let (left_out, gone): (Vec<&NodeId>, Vec<&NodeId>) =
        standing.down_members().partition(|id| next.member(id).is_some());
    let gone = gone.into_iter().next().map(|id| gone_node(state, id)).transpose()?;
    Ok(Plan {
        action,
        from_epoch: state.digest.epoch,
        shares: shares(&now, &next),
        next,
        moves,
        left_out: left_out.into_iter().cloned().collect(),
        gone,
    })
}

fn gone_node(state: &RingState, id: &NodeId) -> Result<GoneNode, PlanRefused> {
    let row = state.nodes.iter().find(|row| &row.id == id).ok_or_else(|| PlanRefused::NotRegistered(id.clone()))?;
    Ok(GoneNode { id: id.clone(), incarnation: row.incarnation })
}

impl Plan {
    /// What to journal.
    pub fn change(&self, operator: String) -> NewChange {
        NewChange {
            action: self.action.clone(),
            from_epoch: self.from_epoch,
            members: self.next.members().to_vec(),
            moves: self.moves.clone(),
            operator,
        }
    }

    /// What to do at once where the member that leaves is down; an operator's own decision, under no controller's term.
    pub fn take_over(&self, operator: String) -> Option<TakeOver> {
        let gone = self.gone.as_ref()?;
        Some(TakeOver {
            node: gone.id.clone(),
            seen: gone.incarnation,
            from_epoch: self.from_epoch,
            action: self.action.clone(),
            members: self.next.members().to_vec(),
            owners: self.moves.iter().map(|moving| (moving.slot, moving.to.clone())).collect(),
            operator,
            term: None,
        })
    }

    /// The command that carries out exactly this plan, or is refused once the ring is at another epoch.
    pub fn command(&self) -> String {
        format!("migrator {} --at-epoch {}", self.action, self.from_epoch)
    }
}

fn shares(now: &Ring, after: &Ring) -> Vec<NodeShare> {
    let mut shares: BTreeMap<NodeId, NodeShare> = BTreeMap::new();
    let empty =
        |id: &NodeId| NodeShare { id: id.clone(), weight_now: None, weight_after: None, slots_now: 0, slots_after: 0 };
    for (member, slots) in now.members().iter().zip(now.slots_per_member()) {
        let share = shares.entry(member.id.clone()).or_insert_with(|| empty(&member.id));
        (share.weight_now, share.slots_now) = (Some(member.weight), slots);
    }
    for (member, slots) in after.members().iter().zip(after.slots_per_member()) {
        let share = shares.entry(member.id.clone()).or_insert_with(|| empty(&member.id));
        (share.weight_after, share.slots_after) = (Some(member.weight), slots);
    }
    shares.into_values().collect()
}

#[cfg(test)]
mod tests;
