//! From the ring as it is and a verb to the plan of a change. Pure: the ring comes in as an argument.
//!
//! Not here: whether a joining node answers at its address (`phases::add_node`), and carrying the plan out (`driver`).

use std::collections::{BTreeMap, BTreeSet};

use origin::{NewChange, NodeRow, RingState};
use placement::rebalance::{RebalanceRefused, next_ring};
use placement::ring::SlotMove;
use placement::{Epoch, Member, NodeId, Ring, Weight};
use serde::Serialize;

/// A change of the ring that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A registered node becomes a member.
    AddNode {
        /// The node.
        id: NodeId,
        /// Its weight; `None`: the one it was started with.
        weight: Option<Weight>,
    },
    /// A member gives all its slots away and leaves.
    RemoveNode {
        /// The member.
        id: NodeId,
    },
    /// A member's share changes.
    SetWeight {
        /// The member.
        id: NodeId,
        /// Its new weight.
        weight: Weight,
    },
}

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

/// Why there is no plan. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanRefused {
    /// `init` has not run.
    #[error("there is no ring yet")]
    NoRing,
    /// No process of that name ever registered.
    #[error("{0} is not registered: no cache-node of that name has been started against this database")]
    NotRegistered(NodeId),
    /// The node is registered, but its lease is over.
    #[error("{0} is down: its lease is over")]
    LeaseOver(NodeId),
    /// It is in the ring.
    #[error("{0} is a member already")]
    AlreadyMember(NodeId),
    /// It is not in the ring.
    #[error("{0} is not a member")]
    NotMember(NodeId),
    /// Nobody would own the slots.
    #[error("{0} is the last member; a ring needs at least one")]
    LastMember(NodeId),
    /// Nothing would change.
    #[error("{id} has weight {weight} already")]
    SameWeight {
        /// The member.
        id: NodeId,
        /// Its weight.
        weight: Weight,
    },
    /// The address is no `host:port`.
    #[error("{id} registered with the address {address:?}, which is no host:port with a port from 1 to 65535")]
    BadAddress {
        /// The node.
        id: NodeId,
        /// Its address.
        address: String,
    },
    /// Two live nodes share an address.
    #[error("{id} registered with the address {address}, which {by} has as well")]
    AddressTaken {
        /// The joining node.
        id: NodeId,
        /// The address.
        address: String,
        /// The node that has it.
        by: NodeId,
    },
    /// A node that would have to give slots away, or take them, is not there.
    #[error("{id} is down (its lease is over), and {slots} of the moving slots {} it", if *.gives { "belong to" } else { "go to" })]
    TakerOrGiverDown {
        /// The node.
        id: NodeId,
        /// How many of the moving slots.
        slots: usize,
        /// Whether it is the old owner.
        gives: bool,
    },
    /// Members and owners make no ring.
    #[error("the ring after it is invalid: {0}")]
    Invalid(RebalanceRefused),
}

impl PlanRefused {
    /// The command to run next, where there is a definite one.
    pub fn next(&self) -> Option<String> {
        match self {
            Self::NoRing => Some("migrator init --nodes a,b,c".to_owned()),
            Self::TakerOrGiverDown { id, .. } => Some(format!("start {id} again, then the same command")),
            Self::LeaseOver(id) | Self::NotRegistered(id) => {
                Some(format!("start cache-node {id}, then the same command"))
            }
            _ => None,
        }
    }
}

impl Verb {
    /// The verb and its arguments, as journaled.
    pub fn action(&self) -> String {
        match self {
            Self::AddNode { id, weight: None } => format!("add-node {id}"),
            Self::AddNode { id, weight: Some(weight) } => format!("add-node {id} --weight {weight}"),
            Self::RemoveNode { id } => format!("remove-node {id}"),
            Self::SetWeight { id, weight } => format!("set-weight {id} {weight}"),
        }
    }
}

/// What the verb would do to this ring.
pub fn make(state: &RingState, verb: &Verb) -> Result<Plan, PlanRefused> {
    let members = members_after(state, verb)?;
    let now = ring_now(state)?;
    let next = next_ring(&now, &members).map_err(PlanRefused::Invalid)?;
    let moves: Vec<SlotMove> = now.moves_to(&next).collect();
    check_all_up(state, &moves)?;
    let shares = shares(&now, &next);
    Ok(Plan { action: verb.action(), from_epoch: state.digest.epoch, next, moves, shares })
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
}

/// Members and owners as they are.
fn ring_now(state: &RingState) -> Result<Ring, PlanRefused> {
    Ring::new(state.digest.epoch, state.members.clone(), |slot| state.slots[slot.index()].owner.clone())
        .map_err(|invalid| PlanRefused::Invalid(invalid.into()))
}

fn members_after(state: &RingState, verb: &Verb) -> Result<Vec<Member>, PlanRefused> {
    let mut members = state.members.clone();
    let position = |id: &NodeId| state.members.iter().position(|member| &member.id == id);
    match verb {
        Verb::AddNode { id, weight } => {
            if position(id).is_some() {
                return Err(PlanRefused::AlreadyMember(id.clone()));
            }
            let row = joining(&state.nodes, id)?;
            members.push(Member { id: id.clone(), weight: weight.unwrap_or(row.weight) });
        }
        Verb::RemoveNode { id } => {
            let index = position(id).ok_or_else(|| PlanRefused::NotMember(id.clone()))?;
            if members.len() == 1 {
                return Err(PlanRefused::LastMember(id.clone()));
            }
            members.remove(index);
        }
        Verb::SetWeight { id, weight } => {
            let index = position(id).ok_or_else(|| PlanRefused::NotMember(id.clone()))?;
            if members[index].weight == *weight {
                return Err(PlanRefused::SameWeight { id: id.clone(), weight: *weight });
            }
            members[index].weight = *weight;
        }
    }
    Ok(members)
}

/// The row of a node that may join: there, alive, and at an address of its own.
pub fn joining<'a>(nodes: &'a [NodeRow], id: &NodeId) -> Result<&'a NodeRow, PlanRefused> {
    let row = nodes.iter().find(|row| &row.id == id).ok_or_else(|| PlanRefused::NotRegistered(id.clone()))?;
    if row.lease_left_ms == 0 {
        return Err(PlanRefused::LeaseOver(id.clone()));
    }
    if !is_host_and_port(&row.address) {
        return Err(PlanRefused::BadAddress { id: id.clone(), address: row.address.clone() });
    }
    match nodes.iter().find(|other| other.id != *id && other.lease_left_ms > 0 && other.address == row.address) {
        Some(other) => {
            Err(PlanRefused::AddressTaken { id: id.clone(), address: row.address.clone(), by: other.id.clone() })
        }
        None => Ok(row),
    }
}

fn is_host_and_port(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let host_fits = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_[]:".contains(&b));
    host_fits && port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Both ends of every move must be there: the old owner to seal, the new one to take over.
fn check_all_up(state: &RingState, moves: &[SlotMove]) -> Result<(), PlanRefused> {
    let up: BTreeSet<&NodeId> = state.nodes.iter().filter(|row| row.lease_left_ms > 0).map(|row| &row.id).collect();
    let down = |end: fn(&SlotMove) -> &NodeId, gives: bool| {
        let id = moves.iter().map(end).find(|id| !up.contains(id))?.clone();
        let slots = moves.iter().filter(|moving| *end(moving) == id).count();
        Some(PlanRefused::TakerOrGiverDown { id, slots, gives })
    };
    down(|moving| &moving.from, true).or_else(|| down(|moving| &moving.to, false)).map_or(Ok(()), Err)
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
