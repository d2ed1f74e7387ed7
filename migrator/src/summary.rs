//! What is printed when a change is done.

use std::time::Duration;

use placement::{ChangeId, Epoch};
use serde::Serialize;

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
    /// From the first seal sent to the flip, in milliseconds: how long writes of moving slots may have waited. Null when the
    /// seal was another run's.
    pub write_pause_ms: Option<u64>,
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
        let time = |ms: Option<u64>| ms.map_or("-".to_owned(), |ms| format!("{ms} ms"));
        let phases = self.phases_ms;
        format!(
            "done: {} (change {}), ring epoch {}\n  moved slots     {}\n  copied entries  {} (the receivers start cold)\n  write pause     {}\n  add node {}, copy keys {}, flip ring epoch {}, expire old {}",
            self.action,
            self.change,
            self.epoch,
            self.moved_slots,
            self.copied_entries,
            self.write_pause_ms.map_or("unknown (sealed by another run)".to_owned(), |ms| format!("{ms} ms")),
            time(phases.add_node),
            time(phases.copy_keys),
            time(phases.flip_epoch),
            time(phases.expire_old),
        )
    }
}
