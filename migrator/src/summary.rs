//! What is printed when a change is done.

use std::time::Duration;

use placement::{ChangeId, Epoch, NodeId};
use serde::Serialize;

use crate::meter::size;

/// A change that is done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Always `done`.
    pub outcome: &'static str,
    /// The change.
    pub change: ChangeId,
    /// The verb and its arguments.
    pub action: String,
    /// The epoch it made.
    pub epoch: Epoch,
    /// Slots that have another owner now.
    pub moved_slots: usize,
    /// Entries put into the receivers' L1.
    pub copied_entries: u64,
    /// Their keys and values.
    pub copied_bytes: u64,
    /// Moved slots that the receivers began without copied entries.
    pub cold_slots: usize,
    /// Entries of the moved slots in the receivers' L1 right after the flip, of those the old owners held before the copy,
    /// 0 to 1. Null when a node did not say, when nobody held any, or when an earlier run did the copying.
    pub warm_share: Option<f64>,
    /// From the first seal sent until the receivers were told of the flip, in milliseconds: how long writes of moving slots
    /// may have waited. Null when the seal was another run's, or there was none.
    pub write_pause_ms: Option<u64>,
    /// Reads that all nodes sent to the database during the change; null when they did not say.
    pub origin_reads: Option<u64>,
    /// The same per second, before the first seal; null when that was too short to tell.
    pub origin_reads_per_second_before: Option<f64>,
    /// The member whose slots were taken over because it was down: its memory is lost. Null otherwise.
    pub taken_over_from: Option<NodeId>,
    /// Time per phase.
    pub phases_ms: PhaseTimes,
}

/// Milliseconds per phase; null for a phase that an earlier run had done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PhaseTimes {
    /// The change is journaled.
    pub add_node: Option<u64>,
    /// The receivers are filled.
    pub copy_keys: Option<u64>,
    /// The old owners are sealed and the ring is flipped.
    pub flip_epoch: Option<u64>,
    /// The old owners confirm.
    pub expire_old: Option<u64>,
}

/// Whole milliseconds.
pub fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Summary {
    /// For people.
    pub fn text(&self) -> String {
        let mut lines = vec![
            format!("done: {} (change {}), ring epoch {}", self.action, self.change, self.epoch),
            format!("  moved slots     {}", self.moved_slots),
        ];
        match &self.taken_over_from {
            Some(gone) if self.moved_slots == 0 => lines.push(format!("  {gone} was down and had no slots")),
            Some(gone) => lines
                .push(format!("  {gone} was down: its memory is lost, and its users start cold; what is in L2 stays")),
            None => lines.extend(self.handoff_lines()),
        }
        lines.join("\n")
    }

    fn handoff_lines(&self) -> [String; 6] {
        let unknown = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
        let time = |ms: Option<u64>| ms.map_or("-".to_owned(), |ms| format!("{ms} ms"));
        let phases = self.phases_ms;
        let warm = self.warm_share.map(|share| format!("{:.1} % of the entries held before", share * 100.0));
        let pause = self.write_pause_ms.map(|ms| format!("{ms} ms"));
        let before = self.origin_reads_per_second_before.map(|rate| format!("{rate:.1} per second"));
        let reads = self.origin_reads.map(|reads| format!("{reads} (before the flip {})", unknown(before)));
        [
            format!("  copied          {} entries, {}", self.copied_entries, size(self.copied_bytes as f64)),
            format!("  kept warm       {}; {} slots start cold", unknown(warm), self.cold_slots),
            format!("  write pause     {}", pause.unwrap_or_else(|| "unknown (sealed by another run)".to_owned())),
            format!("  database reads  {}", unknown(reads)),
            format!("  add node {}, copy keys {}", time(phases.add_node), time(phases.copy_keys)),
            format!("  flip ring epoch {}, expire old {}", time(phases.flip_epoch), time(phases.expire_old)),
        ]
    }
}
