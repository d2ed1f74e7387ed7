//! `history`: past changes and ring epochs, newest first.

use origin::{EpochRow, Origin, OriginError};
use placement::{ChangeId, Epoch, Member};
use serde::Serialize;
use service::timestamp::rfc3339;

use crate::status::PastChange;

/// What `history --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct History {
    /// Changes, newest first; the first may be active.
    pub changes: Vec<PastChange>,
    /// Epochs, newest first.
    pub epochs: Vec<PastEpoch>,
}

/// A ring epoch.
#[derive(Clone, Debug, Serialize)]
pub struct PastEpoch {
    /// Its number.
    pub epoch: Epoch,
    /// Its members.
    pub members: Vec<Member>,
    /// The change that made it; null for the first.
    pub change: Option<ChangeId>,
    /// When, RFC 3339.
    pub created: String,
}

/// Reads at most `limit` changes and `limit` epochs.
pub async fn read(origin: &Origin, limit: u32) -> Result<History, OriginError> {
    let changes = origin.changes(limit).await?.iter().map(PastChange::from).collect();
    let epochs = origin.epochs(limit).await?.into_iter().map(PastEpoch::from).collect();
    Ok(History { changes, epochs })
}

impl From<EpochRow> for PastEpoch {
    fn from(row: EpochRow) -> Self {
        Self { epoch: row.epoch, members: row.members, change: row.change, created: rfc3339(row.created_ms) }
    }
}

impl History {
    /// For people.
    pub fn text(&self) -> String {
        let mut lines = vec!["changes:".to_owned()];
        lines.extend(self.changes.iter().map(|change| format!("  {}", change.text())));
        lines.push("epochs:".to_owned());
        lines.extend(self.epochs.iter().map(|epoch| format!("  {}", epoch.text())));
        lines.join("\n")
    }
}

impl PastEpoch {
    fn text(&self) -> String {
        let members: Vec<String> = self.members.iter().map(|m| format!("{} (weight {})", m.id, m.weight)).collect();
        let made_by = self.change.map_or("init".to_owned(), |change| format!("change {change}"));
        format!("{} {} by {made_by}: {}", self.epoch, self.created, members.join(", "))
    }
}
