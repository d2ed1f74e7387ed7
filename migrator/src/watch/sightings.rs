//! Since when each node has been up or down, as this leader saw it: by its own clock, and only while it could look.
//!
//! What an earlier leader saw counts for nothing, and no time passes while the database does not answer (or this process
//! is frozen): after an outage every lease is over, and the nodes must have their chance to renew them.

use std::collections::BTreeMap;
use std::time::Duration;

use origin::NodeRow;
use placement::{Incarnation, NodeId};

use crate::limits::LOOK_GAP_MAX;

/// All nodes, as seen so far. Times are since any fixed moment of a monotonic clock.
#[derive(Debug, Default)]
pub struct Sightings {
    nodes: BTreeMap<NodeId, Sighting>,
    looked_at: Option<Duration>,
}

/// One process of a node in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sighting {
    incarnation: Incarnation,
    up: bool,
    lasted: Duration,
}

impl Sightings {
    /// Takes in what the database said at `now`.
    pub fn look(&mut self, rows: &[NodeRow], now: Duration) {
        let gap = self.looked_at.map_or(Duration::ZERO, |at| now.saturating_sub(at));
        let passed = if gap <= LOOK_GAP_MAX { gap } else { Duration::ZERO };
        self.looked_at = Some(now);
        let seen = rows.iter().map(|row| {
            let fresh = Sighting { incarnation: row.incarnation, up: row.lease_left_ms > 0, lasted: Duration::ZERO };
            let same = |old: &&Sighting| old.incarnation == fresh.incarnation && old.up == fresh.up;
            let lasted = self.nodes.get(&row.id).filter(same).map_or(Duration::ZERO, |old| old.lasted + passed);
            (row.id.clone(), Sighting { lasted, ..fresh })
        });
        self.nodes = seen.collect();
    }

    /// Whoever is down counts as seen so for the first time.
    pub fn restart_down(&mut self) {
        self.nodes.values_mut().filter(|seen| !seen.up).for_each(|seen| seen.lasted = Duration::ZERO);
    }

    /// How long the node has been seen down, if it is.
    pub fn down_for(&self, id: &NodeId) -> Option<Duration> {
        self.nodes.get(id).filter(|seen| !seen.up).map(|seen| seen.lasted)
    }

    /// How long the node's process has been seen up, if it is.
    pub fn up_for(&self, id: &NodeId) -> Option<Duration> {
        self.nodes.get(id).filter(|seen| seen.up).map(|seen| seen.lasted)
    }

    /// The node's process seen last.
    pub fn incarnation(&self, id: &NodeId) -> Option<Incarnation> {
        self.nodes.get(id).map(|seen| seen.incarnation)
    }
}
