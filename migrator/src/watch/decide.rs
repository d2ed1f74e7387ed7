//! What the leader does next. Pure: ring and clock come in as arguments.
//!
//! In this order, one thing at a time: slots of a node that is gone are taken over; a change whose migrator died is carried
//! on or given up; a node that wants to stop gives its slots away; a member that is back without slots, or got too few, gets its share.

use std::time::Duration;

use origin::{ChangeRow, NodeRow, RingState};
use placement::{ChangeId, Incarnation, NodeId, Phase};

use super::setbacks::Setbacks;
use super::sightings::Sightings;
use crate::exit::list;
use crate::limits::{CARRY_ON_TRIES, READMIT_AFTER};
use crate::plan::lacks_share;

/// A ring change that the leader has under way, of which there is one at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Errand {
    /// A member that is back gets its share.
    Readmit(NodeId),
    /// A node that wants to stop gives its slots away.
    Drain(NodeId),
    /// A change whose migrator died goes on.
    CarryOn(ChangeId),
    /// Such a change is aborted.
    GiveUp(ChangeId),
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Take the slots of this node over from this incarnation.
    TakeOver(NodeId, Incarnation),
    /// Begin this errand.
    Begin(Errand),
}

/// What to do, and how things stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do now.
    pub action: Option<Action>,
    /// For operators; differs only when something does.
    pub note: String,
}

/// What a leader remembers between two looks.
#[derive(Debug)]
pub struct Controller {
    grace: Duration,
    sightings: Sightings,
    setbacks: Setbacks,
}

/// A member with slots that is down.
struct Down<'a> {
    id: &'a NodeId,
    lasted: Duration,
}

impl Controller {
    /// One that has seen nothing. Nodes that are down are given `grace` to come back.
    pub fn new(grace: Duration) -> Self {
        Self { grace, sightings: Sightings::default(), setbacks: Setbacks::default() }
    }

    /// Takes in the ring as it was at `now`.
    pub fn look(&mut self, ring: &RingState, now: Duration) {
        self.sightings.look(&ring.nodes, now);
        let owners = owners(ring);
        if most(self.down(&owners).len(), owners.len()) {
            // When they come back they do so one by one: the last have their whole grace from the first on.
            self.sightings.restart_down();
        }
        let active = ring.change.as_ref().map(|change| change.id);
        self.setbacks.keep(|errand| match errand {
            Errand::Readmit(id) | Errand::Drain(id) => ring.nodes.iter().any(|row| row.id == *id),
            Errand::CarryOn(change) | Errand::GiveUp(change) => active == Some(*change),
        });
    }

    /// Takes in how an errand ended at `now`.
    pub fn ended(&mut self, errand: Errand, well: bool, now: Duration) {
        self.setbacks.ended(errand, well, now);
    }

    /// What to do about the ring last looked at, while `under_way` is.
    pub fn decide(&self, ring: &RingState, under_way: Option<&Errand>, now: Duration) -> Decision {
        let mut notes = Vec::new();
        let take_over = self.take_over(ring, &mut notes);
        let errand = self.errand(ring, now, &mut notes);
        if let Some(errand) = under_way {
            notes.push(errand.to_string());
        }
        let empty = ring.members.iter().map(|member| &member.id).filter(|id| !owns_any(ring, id));
        let away: Vec<NodeId> = empty.filter(|id| self.sightings.down_for(id).is_some()).cloned().collect();
        if !away.is_empty() {
            notes.push(format!("down, without slots: {}", list(&away)));
        }
        if notes.is_empty() {
            notes.push("all members are up".to_owned());
        }
        // A takeover waits for nothing: it aborts a change that stands in its way.
        let begin = errand.filter(|_| under_way.is_none()).map(Action::Begin);
        Decision { action: take_over.or(begin), note: notes.join("; ") }
    }

    fn down<'a>(&self, owners: &[&'a NodeId]) -> Vec<Down<'a>> {
        owners.iter().filter_map(|id| Some(Down { id, lasted: self.sightings.down_for(id)? })).collect()
    }

    fn take_over(&self, ring: &RingState, notes: &mut Vec<String>) -> Option<Action> {
        let owners = owners(ring);
        let down = self.down(&owners);
        if down.is_empty() {
            return None;
        }
        let names = list(&down.iter().map(|down| down.id.clone()).collect::<Vec<_>>());
        if most(down.len(), owners.len()) {
            let most = format!("down: {names}, more than half of the {} nodes with slots", owners.len());
            notes.push(format!("{most}: nothing is taken over"));
            return None;
        }
        if !ring.nodes.iter().any(|row| can_take(ring, row)) {
            notes.push(format!("down: {names}, and nobody can take the slots over"));
            return None;
        }
        let flipped = ring.change.as_ref().filter(|change| change.phase == Phase::Flipped);
        let wait = match flipped {
            Some(change) => format!("to be taken over once change {} ({}) is finished", change.id, change.action),
            None => format!("to be taken over after {:?}", self.grace),
        };
        notes.push(format!("down: {names}, {wait}"));
        let gone = down.iter().find(|down| flipped.is_none() && down.lasted >= self.grace)?;
        Some(Action::TakeOver(gone.id.clone(), self.sightings.incarnation(gone.id)?))
    }

    fn errand(&self, ring: &RingState, now: Duration, notes: &mut Vec<String>) -> Option<Errand> {
        let errand = match &ring.change {
            // Somebody is at it: an operator, or this very leader.
            Some(change) if change.attended => return None,
            Some(change) => self.orphaned(change),
            None => self.leaving(ring, now, notes).or_else(|| self.returning(ring, now))?,
        };
        self.setbacks.allow(&errand, now).then_some(errand)
    }

    /// A change that nobody attends to: forward is always possible after the flip, and before it worth a few tries.
    fn orphaned(&self, change: &ChangeRow) -> Errand {
        let carry_on = Errand::CarryOn(change.id);
        let tried = self.setbacks.failures(&carry_on) >= CARRY_ON_TRIES;
        if tried && change.phase != Phase::Flipped { Errand::GiveUp(change.id) } else { carry_on }
    }

    fn leaving(&self, ring: &RingState, now: Duration, notes: &mut Vec<String>) -> Option<Errand> {
        let wants = |row: &&NodeRow| row.leaving && row.lease_left_ms > 0 && owns_any(ring, &row.id);
        let leaving: Vec<NodeId> = ring.nodes.iter().filter(wants).map(|row| row.id.clone()).collect();
        if leaving.is_empty() {
            return None;
        }
        if !ring.nodes.iter().any(|row| can_take(ring, row)) {
            notes.push(format!("leaving: {}, but nobody can take the slots", list(&leaving)));
            return None;
        }
        leaving.into_iter().map(Errand::Drain).find(|errand| self.setbacks.allow(errand, now))
    }

    fn returning(&self, ring: &RingState, now: Duration) -> Option<Errand> {
        let settled = |id: &NodeId| self.sightings.up_for(id).is_some_and(|lasted| lasted >= READMIT_AFTER);
        let back = |row: &&NodeRow| settled(&row.id) && lacks_share(ring, &row.id);
        let returning = ring.nodes.iter().filter(back).map(|row| Errand::Readmit(row.id.clone()));
        returning.into_iter().find(|errand| self.setbacks.allow(errand, now))
    }
}

/// Members with slots.
fn owners(ring: &RingState) -> Vec<&NodeId> {
    ring.members.iter().map(|member| &member.id).filter(|id| owns_any(ring, id)).collect()
}

/// More than half: then it is rather we who are cut off, or something that all have in common.
fn most(down: usize, of: usize) -> bool {
    down * 2 > of
}

fn owns_any(ring: &RingState, id: &NodeId) -> bool {
    ring.slots.iter().any(|row| &row.owner == id)
}

/// A member that is up and stays.
fn can_take(ring: &RingState, row: &NodeRow) -> bool {
    row.lease_left_ms > 0 && !row.leaving && ring.members.iter().any(|member| member.id == row.id)
}

impl std::fmt::Display for Errand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Readmit(id) => write!(f, "giving {id} its share of the slots again"),
            Self::Drain(id) => write!(f, "giving the slots of {id}, which is leaving, to the others"),
            Self::CarryOn(change) => write!(f, "carrying on change {change}, which nobody attends to"),
            Self::GiveUp(change) => write!(f, "aborting change {change}, which nobody attends to"),
        }
    }
}

#[cfg(test)]
mod tests;
