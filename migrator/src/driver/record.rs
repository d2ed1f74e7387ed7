//! What a driver writes down while a change runs, and the summary it makes of it.

use std::collections::{BTreeMap, HashSet};

use futures_util::future::join_all;
use origin::{ChangeRow, NodeRow};
use placement::ring::SlotMove;
use placement::{NodeId, Slot};
use tokio::time::Instant;

use crate::cluster_load::ClusterLoad;
use crate::contents;
use crate::limits::COPY_CALL_WAIT;
use crate::meter::Amounts;
use crate::phases::{Tools, patiently};
use crate::progress::PhaseProgress;
use crate::summary::{PhaseTimes, Summary, milliseconds};

/// What the summary will tell, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Record {
    copied: Amounts,
    pub(super) phases_ms: PhaseTimes,
    pub(super) load: ClusterLoad,
    pub(super) sealed_from: Option<Instant>,
    /// The phase that has begun with the seal, where this run has sealed.
    pub(super) flipping: Option<PhaseProgress>,
    write_pause_ms: Option<u64>,
    held_before: Option<u64>,
    warm_share: Option<f64>,
}

impl Record {
    /// Asks everybody for the load before anything happens, and the old owners what they hold of the moving slots, unless it is
    /// copied: then their streams say so.
    pub(super) async fn before_copy(&mut self, tools: &Tools, change: &ChangeRow, cold: bool) {
        let Ok(rows) = patiently(|| tools.origin.nodes()).await else { return };
        let alone = change.moves.iter().any(|moving| moving.leaves.is_some());
        // What a slot holds says nothing of one of its users.
        let held = async {
            if cold && !alone {
                held(tools, &rows, &change.moves, |moving| (&moving.from, moving.slot)).await
            } else {
                None
            }
        };
        (self.held_before, _) = tokio::join!(held, self.load.round(tools, change, &rows));
    }

    /// So much was copied, of so much.
    pub(super) fn copied(&mut self, copied: Amounts) {
        self.copied = copied;
        self.held_before = self.held_before.or(Some(copied.entries_total));
    }

    /// Reads are counted up to now. Only for the summary: who does not answer is left out.
    pub(super) async fn count_reads(&mut self, tools: &Tools, change: &ChangeRow) {
        if let Ok(rows) = patiently(|| tools.origin.nodes()).await {
            self.load.round(tools, change, &rows).await;
        }
    }

    /// The receivers have been told: writes go on.
    pub(super) fn writes_go_on(&mut self) {
        self.write_pause_ms = self.sealed_from.map(|since| milliseconds(since.elapsed()));
    }

    /// Asks the receivers what they hold of the slots they have got.
    pub(super) async fn after_flip(&mut self, tools: &Tools, change: &ChangeRow) {
        let Some(before) = self.held_before.filter(|&before| before > 0) else { return };
        let Ok(rows) = patiently(|| tools.origin.nodes()).await else { return };
        let after = held(tools, &rows, &change.moves, |moving| (&moving.to, moving.gained_slot())).await;
        // Users may have brought entries in already that nobody copied.
        self.warm_share = after.map(|after| (after as f64 / before as f64).min(1.0));
    }

    pub(super) fn summary(self, change: &ChangeRow) -> Summary {
        Summary {
            outcome: "done",
            change: change.id,
            action: change.action.clone(),
            epoch: change.to_epoch,
            moved_slots: change.moves.len(),
            copied_entries: self.copied.entries,
            copied_bytes: self.copied.bytes,
            cold_slots: cold_slots(change),
            warm_share: self.warm_share,
            write_pause_ms: self.write_pause_ms,
            origin_reads: self.load.origin_reads(),
            origin_reads_per_second_before: self.load.origin_reads_per_second_before(),
            taken_over_from: None,
            phases_ms: self.phases_ms,
        }
    }
}

/// Moving slots without a complete stream at the seal.
pub(super) fn cold_slots(change: &ChangeRow) -> usize {
    change.seal.iter().filter(|sealed| sealed.stream.is_none()).count()
}

/// Entries that the nodes at one end of the moves hold of the moving slots; `None` unless all of them say so.
async fn held(
    tools: &Tools,
    rows: &[NodeRow],
    moves: &[SlotMove],
    end: impl Fn(&SlotMove) -> (&NodeId, Slot),
) -> Option<u64> {
    let mut slots: BTreeMap<&NodeId, HashSet<Slot>> = BTreeMap::new();
    for moving in moves {
        let (node, slot) = end(moving);
        slots.entry(node).or_default().insert(slot);
    }
    let asked = slots.iter().map(|(node, slots)| {
        let row = rows.iter().find(|row| &row.id == *node);
        async move { Some(contents::of_slots(&tools.nodes, row?, slots, COPY_CALL_WAIT).await?.entries) }
    });
    join_all(asked).await.into_iter().sum()
}
