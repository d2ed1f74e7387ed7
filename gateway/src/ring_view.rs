//! The gateway's copy of the ring, of any age, with the ways to its nodes. Immutable: a newer one replaces it.

use std::collections::HashMap;
use std::sync::Arc;

use origin::{ChangeRow, NodeRow, RingDigest, RingState};
use placement::ring::RingInvalid;
use placement::{Epoch, NodeId, Pool, Ring, Slot, UserId, Weight};
use service::tls::NodeDialler;
use wire::ring_document::{ChangeDocument, MemberDocument, MemberState, RingDocument};

use crate::upstream::Upstream;

/// One copy of the ring.
#[derive(Debug, Default)]
pub(crate) struct RingView {
    pub(crate) digest: RingDigest,
    /// `None` before `migrator init`.
    ring: Option<Ring>,
    /// In the order of the ring's members; `None` for one that never registered.
    owners: Vec<Option<Arc<Upstream>>>,
    /// All registered nodes, members or not.
    nodes: Vec<NodeView>,
    change: Option<ChangeDocument>,
    /// How the nodes are reached.
    dialler: NodeDialler,
}

/// A registered node.
#[derive(Clone, Debug)]
pub(crate) struct NodeView {
    pub(crate) id: NodeId,
    pub(crate) pool: Pool,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) up: bool,
    /// The one that it was started with.
    pub(crate) weight: Weight,
}

impl RingView {
    /// Without a ring; nodes will be reached so.
    pub(crate) fn new(dialler: NodeDialler) -> Self {
        Self { dialler, ..Self::default() }
    }

    /// Builds a view; pools to addresses that stay are kept.
    pub(crate) fn next(&self, state: &RingState) -> Result<Self, RingInvalid> {
        let ring = Ring::new(state.digest.epoch, state.members.clone(), |slot| {
            // Fewer rows than slots cannot be read from our tables; were it so, the first member would answer 421.
            state.slots.get(slot.index()).map_or_else(|| state.members[0].id.clone(), |row| row.owner.clone())
        })?;
        let ring = ring.with_pinned(state.pinned())?;
        let nodes = self.node_views(&state.nodes);
        let by_id: HashMap<&NodeId, &NodeView> = nodes.iter().map(|node| (&node.id, node)).collect();
        let way_to = |id: &NodeId| by_id.get(id).map(|node| Arc::clone(&node.upstream));
        let owners = ring.members().iter().map(|member| way_to(&member.id)).collect();
        let change = state.change.as_ref().map(ChangeRow::document);
        let dialler = self.dialler.clone();
        Ok(Self { digest: state.digest.clone(), owners, nodes, change, dialler, ring: Some(ring) })
    }

    /// The same ring with fresh states of the nodes.
    pub(crate) fn with_nodes(&self, rows: &[NodeRow]) -> Self {
        Self {
            digest: self.digest.clone(),
            ring: self.ring.clone(),
            owners: self.owners.clone(),
            nodes: self.node_views(rows),
            change: self.change.clone(),
            dialler: self.dialler.clone(),
        }
    }

    fn way_to(&self, row: &NodeRow) -> Upstream {
        Upstream::new(row.address.clone(), self.dialler.clone())
    }

    fn node_views(&self, rows: &[NodeRow]) -> Vec<NodeView> {
        let view = |row: &NodeRow| {
            let known = self.nodes.iter().find(|node| node.upstream.address() == row.address);
            let upstream = known.map(|node| Arc::clone(&node.upstream));
            NodeView {
                id: row.id.clone(),
                pool: row.pool.clone(),
                upstream: upstream.unwrap_or_else(|| Arc::new(self.way_to(row))),
                up: row.lease_left_ms > 0,
                weight: row.weight,
            }
        };
        rows.iter().map(view).collect()
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.digest.epoch
    }

    pub(crate) fn ring(&self) -> Option<&Ring> {
        self.ring.as_ref()
    }

    pub(crate) fn nodes(&self) -> &[NodeView] {
        &self.nodes
    }

    /// The registered nodes that the ring names.
    pub(crate) fn members(&self) -> impl Iterator<Item = &NodeView> {
        self.nodes.iter().filter(|node| self.ring.as_ref().is_some_and(|ring| ring.member(&node.id).is_some()))
    }

    /// The slot that a user is served under.
    pub(crate) fn slot_of_user(&self, user: &UserId) -> Slot {
        self.ring.as_ref().map_or_else(|| Slot::of_user(user), |ring| ring.slot_of_user(user))
    }

    /// The way to the owner of a slot.
    pub(crate) fn owner(&self, slot: Slot) -> Option<&Arc<Upstream>> {
        self.owners.get(self.ring.as_ref()?.owner_index(slot))?.as_ref()
    }

    /// The weight of a node: a member's is the ring's, any other's is its own.
    pub(crate) fn weight(&self, node: &NodeView) -> Weight {
        let member = self.ring.as_ref().and_then(|ring| ring.member(&node.id));
        member.map_or(node.weight, |member| member.weight)
    }

    /// The JSON of `GET /v1/ring`.
    pub(crate) fn document(&self) -> RingDocument {
        let members = self.ring.as_ref().map(|ring| {
            let counts = ring.slots_per_member();
            let document = |(index, slots): (usize, usize)| {
                let member = &ring.members()[index];
                let node = self.nodes.iter().find(|node| node.id == member.id);
                MemberDocument {
                    id: member.id.clone(),
                    address: node.map(|node| node.upstream.address().to_owned()).unwrap_or_default(),
                    pool: node.map(|node| node.pool.clone()).unwrap_or_default(),
                    weight: member.weight,
                    slots,
                    state: if node.is_some_and(|node| node.up) { MemberState::Up } else { MemberState::Down },
                }
            };
            counts.into_iter().enumerate().map(document).collect()
        });
        RingDocument {
            epoch: self.epoch(),
            slots: placement::SLOT_COUNT,
            members: members.unwrap_or_default(),
            pinned_users: self.ring.as_ref().map_or(0, |ring| ring.pinned_users().count()),
            change: self.change.clone(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use placement::Member;

    use super::*;

    /// A ring of nodes of these weights, all up.
    pub(crate) fn view_of(weights: &[u32]) -> RingView {
        let id = |index: usize| format!("n{index}").parse::<NodeId>().expect("a name");
        let weight = |weight: u32| Weight::try_from(weight).expect("a weight");
        let row = |(index, _): (usize, &u32)| NodeRow {
            id: id(index),
            address: format!("127.0.0.1:{}", index + 1),
            weight: Weight::default(),
            pool: Pool::default(),
            incarnation: placement::Incarnation(1),
            lease_left_ms: 1_000,
            leaving: false,
        };
        let rows: Vec<NodeRow> = weights.iter().enumerate().map(row).collect();
        let member = |(index, of): (usize, &u32)| Member { id: id(index), weight: weight(*of) };
        let members = weights.iter().enumerate().map(member).collect();
        let ring = Ring::new(Epoch(1), members, |_| id(0)).expect("a ring");
        RingView { ring: Some(ring), ..RingView::default() }.with_nodes(&rows)
    }
}
