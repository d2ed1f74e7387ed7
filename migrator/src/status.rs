//! `status`: how the ring stands, who is there, what is under way, and what may be done about it.

use std::collections::BTreeMap;

use comfy_table::{Table, presets};
use origin::{ChangeRow, NodeRow, Origin, OriginError, RingState};
use placement::{Epoch, Incarnation, NodeId, Phase, Pool, SLOT_COUNT, Weight};
use serde::Serialize;
use service::timestamp::rfc3339;
use wire::ring_document::{ChangeDocument, MemberState};

use crate::progress::Step;
use crate::watch::standing::ControllerStatus;

/// What `status --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The epoch; 0 before `init`.
    pub epoch: Epoch,
    /// Always 4096.
    pub slots: usize,
    /// Members, by name.
    pub members: Vec<NodeStatus>,
    /// Registered nodes that are no members, by name.
    pub standbys: Vec<NodeStatus>,
    /// The pools that have members or users, by name.
    pub pools: Vec<PoolStatus>,
    /// The active change.
    pub change: Option<ActiveChange>,
    /// The newest change that is over.
    pub last_change: Option<PastChange>,
    /// The failure controllers; null: none has run yet.
    pub controller: Option<ControllerStatus>,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolStatus {
    /// Its name.
    pub pool: Pool,
    /// Members that serve in it.
    pub members: usize,
    /// Users with a slot of their own that are assigned to it.
    pub pinned_users: usize,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// Its name.
    pub id: NodeId,
    /// `host:port`; empty when it never registered.
    pub address: String,
    /// The pool it serves.
    pub pool: Pool,
    /// As a member, else what it was started with.
    pub weight: Weight,
    /// Slots it owns.
    pub slots: usize,
    /// Their part of all slots, 0 to 1.
    pub share: f64,
    /// Whether its lease holds.
    pub state: MemberState,
    /// What is left of the lease, in milliseconds.
    pub lease_left_ms: u64,
    /// How many processes have been this node.
    pub incarnation: Incarnation,
    /// Whether it has asked to give its slots away.
    pub leaving: bool,
}

/// A change under way.
#[derive(Clone, Debug, Serialize)]
pub struct ActiveChange {
    /// What it does and how far it is.
    #[serde(flatten)]
    pub what: ChangeDocument,
    /// Who runs it, or ran it last.
    pub operator: String,
    /// Whether they still do.
    pub attended: bool,
    /// Its phase as a step of four: `[2/4] copy keys`.
    pub step: &'static str,
    /// Moving slots whose seal is journaled.
    pub sealed_slots: usize,
    /// Moving slots that have their new owner.
    pub flipped_slots: usize,
    /// Begun, RFC 3339.
    pub started: String,
    /// The commands that lead on from here.
    pub allowed: Vec<&'static str>,
}

/// A change that is over.
#[derive(Clone, Debug, Serialize)]
pub struct PastChange {
    /// What it did or would have, and how it ended: done or aborted.
    #[serde(flatten)]
    pub what: ChangeDocument,
    /// Who ran it.
    pub operator: String,
    /// Why it was aborted.
    pub reason: Option<String>,
    /// Begun, RFC 3339.
    pub started: String,
    /// Ended, RFC 3339.
    pub ended: Option<String>,
}

/// How many of the newest changes are read to find the last that is over: at most one is active.
const RECENT_CHANGES: u32 = 2;

/// Reads the status.
pub async fn read(origin: &Origin) -> Result<Status, OriginError> {
    let recent = origin.changes(RECENT_CHANGES).await?;
    let last_change = recent.iter().find(|change| is_over(change.phase)).map(PastChange::from);
    let controller = origin.controller().await?.map(ControllerStatus::from);
    match origin.ring_state().await? {
        Some(ring) => Ok(of_ring(&ring, last_change, controller)),
        None => {
            let nodes = origin.nodes().await?;
            let standbys =
                nodes.iter().map(|node| NodeStatus::new(node.id.clone(), node.weight, Some(node), 0)).collect();
            let members = Vec::new();
            Ok(Status {
                epoch: Epoch(0),
                slots: SLOT_COUNT,
                members,
                standbys,
                pools: Vec::new(),
                change: None,
                last_change,
                controller,
            })
        }
    }
}

fn of_ring(ring: &RingState, last_change: Option<PastChange>, controller: Option<ControllerStatus>) -> Status {
    let row = |id: &NodeId| ring.nodes.iter().find(|node| &node.id == id);
    let owned = |id: &NodeId| ring.slots.iter().filter(|slot| &slot.owner == id).count();
    let members =
        ring.members.iter().map(|m| NodeStatus::new(m.id.clone(), m.weight, row(&m.id), owned(&m.id))).collect();
    let standbys = ring
        .nodes
        .iter()
        .filter(|node| ring.members.iter().all(|member| member.id != node.id))
        .map(|node| NodeStatus::new(node.id.clone(), node.weight, Some(node), owned(&node.id)))
        .collect();
    let change = ring.change.as_ref().map(ActiveChange::from);
    let pools = pools(ring);
    Status { epoch: ring.digest.epoch, slots: SLOT_COUNT, members, standbys, pools, change, last_change, controller }
}

fn pools(ring: &RingState) -> Vec<PoolStatus> {
    let mut pools: BTreeMap<Pool, (usize, usize)> = BTreeMap::new();
    for member in &ring.members {
        let row = ring.nodes.iter().find(|row| row.id == member.id);
        pools.entry(row.map(|row| row.pool.clone()).unwrap_or_default()).or_default().0 += 1;
    }
    for pool in ring.slots.iter().filter_map(|row| row.pool.as_ref()) {
        pools.entry(pool.clone()).or_default().1 += 1;
    }
    pools.into_iter().map(|(pool, (members, pinned_users))| PoolStatus { pool, members, pinned_users }).collect()
}

impl NodeStatus {
    fn new(id: NodeId, weight: Weight, row: Option<&NodeRow>, slots: usize) -> Self {
        let lease_left_ms = row.map_or(0, |row| row.lease_left_ms);
        Self {
            id,
            address: row.map(|row| row.address.clone()).unwrap_or_default(),
            pool: row.map(|row| row.pool.clone()).unwrap_or_default(),
            weight,
            slots,
            share: slots as f64 / SLOT_COUNT as f64,
            state: if lease_left_ms > 0 { MemberState::Up } else { MemberState::Down },
            lease_left_ms,
            incarnation: row.map(|row| row.incarnation).unwrap_or_default(),
            leaving: row.is_some_and(|row| row.leaving),
        }
    }
}

/// What comes next in this phase; of a change that is over: what came last.
fn step_of(phase: Phase) -> Step {
    match phase {
        Phase::Copy | Phase::Aborted => Step::CopyKeys,
        Phase::Sealed => Step::FlipEpoch,
        Phase::Flipped | Phase::Done => Step::ExpireOld,
    }
}

impl From<&ChangeRow> for ActiveChange {
    fn from(change: &ChangeRow) -> Self {
        Self {
            what: change.document(),
            operator: change.operator.clone(),
            attended: change.attended,
            step: step_of(change.phase).title(),
            sealed_slots: change.seal.len(),
            flipped_slots: change.flip.len(),
            started: rfc3339(change.started_ms),
            allowed: allowed_commands(change.phase),
        }
    }
}

impl From<&ChangeRow> for PastChange {
    fn from(change: &ChangeRow) -> Self {
        Self {
            what: change.document(),
            operator: change.operator.clone(),
            reason: change.reason.clone(),
            started: rfc3339(change.started_ms),
            ended: change.ended_ms.map(rfc3339),
        }
    }
}

fn is_over(phase: Phase) -> bool {
    matches!(phase, Phase::Done | Phase::Aborted)
}

impl Status {
    /// For people.
    pub fn text(&self) -> String {
        let mut lines = vec![match self.epoch {
            Epoch(0) => "no ring yet: run `migrator init --nodes a,b,c`".to_owned(),
            epoch => format!("ring epoch {epoch}, {} members, {} slots", self.members.len(), self.slots),
        }];
        if !self.members.is_empty() {
            lines.push(table(&self.members));
        }
        for pool in self.pools.iter().filter(|pool| pool.pinned_users > 0) {
            let (users, members) = (pool.pinned_users, pool.members);
            lines.push(format!("pool {}: {users} users with a slot of their own, {members} members", pool.pool));
        }
        if !self.standbys.is_empty() {
            lines.push("standbys (registered, not in the ring):".to_owned());
            lines.push(table(&self.standbys));
        }
        lines.push(match &self.change {
            None => "no change active".to_owned(),
            Some(change) => change.text(),
        });
        lines.push(ControllerStatus::text(self.controller.as_ref()));
        if let Some(last) = &self.last_change {
            lines.push(format!("last change: {}", last.text()));
        }
        lines.join("\n")
    }
}

impl ActiveChange {
    fn text(&self) -> String {
        format!(
            "change {} ({}) is active: phase {}, {}, epoch {} -> {}, {} slots move ({} sealed, {} flipped), run by {} since {}, {}; next: {}",
            self.what.id,
            self.what.action,
            crate::exit::phase_name(self.what.phase),
            self.step,
            self.what.from_epoch,
            self.what.to_epoch,
            self.what.moving_slots,
            self.sealed_slots,
            self.flipped_slots,
            self.operator,
            self.started,
            if self.attended { "still running" } else { "which has not been heard of lately" },
            self.allowed.join(" or "),
        )
    }
}

impl PastChange {
    /// In one line.
    pub fn text(&self) -> String {
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!(
            "{} {} (epoch {} -> {}, {} slots) {}, run by {}, {} to {}{reason}",
            self.what.id,
            self.what.action,
            self.what.from_epoch,
            self.what.to_epoch,
            self.what.moving_slots,
            crate::exit::phase_name(self.what.phase),
            self.operator,
            self.started,
            self.ended.as_deref().unwrap_or("?"),
        )
    }
}

fn table(nodes: &[NodeStatus]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header([
        "node",
        "address",
        "pool",
        "weight",
        "slots",
        "share",
        "state",
        "lease left",
    ]);
    for node in nodes {
        let state = match node.state {
            MemberState::Up if node.leaving => "up, leaving",
            MemberState::Up => "up",
            MemberState::Down => "down",
        };
        table.add_row([
            node.id.to_string(),
            node.address.clone(),
            node.pool.to_string(),
            node.weight.to_string(),
            node.slots.to_string(),
            format!("{:.1} %", node.share * 100.0),
            state.to_owned(),
            format!("{} ms", node.lease_left_ms),
        ]);
    }
    table.to_string()
}

/// The commands that lead out of a phase.
pub fn allowed_commands(phase: Phase) -> Vec<&'static str> {
    match phase {
        Phase::Copy | Phase::Sealed => vec!["migrator resume", "migrator abort"],
        Phase::Flipped => vec!["migrator resume"],
        Phase::Done | Phase::Aborted => Vec::new(),
    }
}
