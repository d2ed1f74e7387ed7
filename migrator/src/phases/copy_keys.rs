//! Phase 2, "copy keys": the receivers start cold, so nothing is copied and their first reads go to the origin.

use origin::ChangeRow;

use crate::phases::Tools;
use crate::progress::Step;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Entries put into the receivers' L1.
    pub entries: u64,
}

/// Says that the receivers start cold.
pub fn run(tools: &Tools, change: &ChangeRow) -> (Copied, std::time::Duration) {
    let phase = tools.progress.phase(Step::CopyKeys, 0, "entries");
    let took = phase.done(&format!("nothing copied: the receivers of {} slots start cold", change.moves.len()));
    (Copied::default(), took)
}
