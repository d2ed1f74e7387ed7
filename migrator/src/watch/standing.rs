//! Who leads the cluster's failure controllers, as the database knows it: for `status` and for health checks.

use origin::{ControllerRow, Origin, OriginError};
use serde::Serialize;
use tokio::time::timeout;

use crate::limits::CHECK_WAIT;

/// How the cluster's failure controllers stand, whichever of them one asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// One leads.
    Led(ControllerRow),
    /// None does.
    Nobody,
    /// The database does not answer: no fault of a controller.
    Unknown,
}

/// Asks the database who leads.
pub async fn standing(origin: &Origin) -> Result<Standing, OriginError> {
    match timeout(CHECK_WAIT, origin.controller()).await {
        Ok(Ok(Some(row))) if row.left_ms > 0 => Ok(Standing::Led(row)),
        Ok(Ok(_)) => Ok(Standing::Nobody),
        Err(_) | Ok(Err(OriginError::Unreachable(_) | OriginError::Timeout)) => Ok(Standing::Unknown),
        Ok(Err(error)) => Err(error),
    }
}

/// The failure controllers in `status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ControllerStatus {
    /// Who leads, or led last.
    pub holder: String,
    /// Whether its term lasts.
    pub leading: bool,
    /// How things stand, as it said last.
    pub note: String,
}

impl From<ControllerRow> for ControllerStatus {
    fn from(row: ControllerRow) -> Self {
        Self { holder: row.holder, leading: row.left_ms > 0, note: row.note }
    }
}

impl ControllerStatus {
    /// In one line, for people.
    pub fn text(controller: Option<&Self>) -> String {
        match controller {
            Some(Self { holder, leading: true, note }) => format!("failure controller: {holder}: {note}"),
            Some(Self { holder, leading: false, .. }) => {
                format!("no failure controller is leading (the last was {holder}): run `migrator watch`")
            }
            None => "no failure controller has run yet: run `migrator watch`".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_that_is_gone_is_said_to_be_and_what_it_said_no_longer_counts() {
        let status = |leading| ControllerStatus { holder: "a pid 1".to_owned(), leading, note: "all well".to_owned() };
        assert_eq!(ControllerStatus::text(Some(&status(true))), "failure controller: a pid 1: all well");
        for gone in [Some(&status(false)), None] {
            let text = ControllerStatus::text(gone);
            assert!(text.contains("run `migrator watch`") && !text.contains("all well"), "{text}");
        }
    }
}
