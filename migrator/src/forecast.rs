//! `plan`: what a change would move, as a document and as text. Asks the old owners what their L1 holds; changes nothing.

use std::collections::HashSet;

use client::NodeClient;
use comfy_table::{Table, presets};
use futures_util::future::join_all;
use origin::NodeRow;
use placement::{Epoch, NodeId, SLOT_COUNT, Slot, Weight};
use serde::Serialize;

use crate::contents;
use crate::limits::CALL_WAIT;
use crate::plan::{NodeShare, Plan};

/// What `plan --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// The verb and its arguments.
    pub action: String,
    /// The epoch the plan is made for.
    pub from_epoch: Epoch,
    /// Slots that get another owner.
    pub moving_slots: usize,
    /// Every member before or after.
    pub nodes: Vec<NodeShare>,
    /// What the old owners' L1 holds of the moving slots.
    pub held: Vec<Held>,
    /// Members that are down: none of their slots moves, and they get none.
    pub left_out: Vec<NodeId>,
    /// The member that leaves, when it is down: its slots are taken over, and start cold.
    pub taken_over_from: Option<NodeId>,
    /// The command that carries out exactly this plan, and is refused once the ring is at another epoch.
    pub command: String,
}

/// What one old owner holds of the moving slots.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// The old owner.
    pub node: NodeId,
    /// Moving slots it owns.
    pub slots: usize,
    /// Entries in L1 of them; null when the node did not answer.
    pub entries: Option<u64>,
    /// Their keys and values in bytes; null when the node did not answer.
    pub bytes: Option<u64>,
}

/// Makes the forecast of a plan.
pub async fn of_plan(plan: &Plan, rows: &[NodeRow], nodes: &NodeClient) -> Forecast {
    let owners: std::collections::BTreeSet<&NodeId> = plan.moves.iter().map(|moving| &moving.from).collect();
    let held = join_all(owners.into_iter().map(|owner| held_by(plan, owner, rows, nodes))).await;
    Forecast {
        action: plan.action.clone(),
        from_epoch: plan.from_epoch,
        moving_slots: plan.moves.len(),
        nodes: plan.shares.clone(),
        held,
        left_out: plan.left_out.clone(),
        taken_over_from: plan.gone.as_ref().map(|gone| gone.id.clone()),
        command: plan.command(),
    }
}

async fn held_by(plan: &Plan, owner: &NodeId, rows: &[NodeRow], nodes: &NodeClient) -> Held {
    let moving: HashSet<Slot> = plan.moves.iter().filter(|m| &m.from == owner).map(|m| m.slot).collect();
    let contents = match rows.iter().find(|row| &row.id == owner) {
        Some(row) => contents::of_slots(nodes, row, &moving, CALL_WAIT).await,
        None => None,
    };
    Held {
        node: owner.clone(),
        slots: moving.len(),
        entries: contents.map(|contents| contents.entries),
        bytes: contents.map(|contents| contents.bytes),
    }
}

impl Forecast {
    /// For people.
    pub fn text(&self) -> String {
        let mut lines = vec![
            format!("plan: {} at epoch {}; nothing has been changed", self.action, self.from_epoch),
            self.table(),
            format!("{} of {SLOT_COUNT} slots move", self.moving_slots),
        ];
        match &self.taken_over_from {
            Some(gone) => lines.push(format!("{gone} is down: its slots are taken over, and its users start cold")),
            None => lines.extend(self.held.iter().map(Held::text)),
        }
        let left_out = |id| format!("{id} is down and left out: what slots it has stay, and it gets none");
        lines.extend(self.left_out.iter().map(left_out));
        lines.push(format!("run: {}", self.command));
        lines.join("\n")
    }

    fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header([
            "node",
            "weight now",
            "after",
            "slots now",
            "after",
            "share now",
            "after",
        ]);
        let weight = |weight: Option<Weight>| weight.map_or("-".to_owned(), |weight| weight.to_string());
        for node in &self.nodes {
            table.add_row([
                node.id.to_string(),
                weight(node.weight_now),
                weight(node.weight_after),
                node.slots_now.to_string(),
                node.slots_after.to_string(),
                percent(node.slots_now),
                percent(node.slots_after),
            ]);
        }
        table.to_string()
    }
}

impl Held {
    fn text(&self) -> String {
        let unknown = || "unknown".to_owned();
        format!(
            "{} gives {} slots; its L1 holds of them: {} entries, {} bytes",
            self.node,
            self.slots,
            self.entries.map_or_else(unknown, |entries| entries.to_string()),
            self.bytes.map_or_else(unknown, |bytes| bytes.to_string()),
        )
    }
}

fn percent(slots: usize) -> String {
    format!("{:.1} %", slots as f64 * 100.0 / SLOT_COUNT as f64)
}
