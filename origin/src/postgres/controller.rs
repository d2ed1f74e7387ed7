//! Placeholder.

use super::PostgresOrigin;
use crate::controller::{Control, ControllerRow, TakeOver, TakeOverOutcome, Term};
use crate::error::OriginError;
use placement::{ChangeId, Incarnation, NodeId};
use std::time::Duration;

impl PostgresOrigin {
    pub(crate) async fn announce_leaving(&self, _: &NodeId, _: Incarnation) -> Result<bool, OriginError> {
        Ok(false)
    }
    pub(crate) async fn take_control(&self, _: &str, _: Duration) -> Result<Control, OriginError> {
        Ok(Control::Ours(Term(1)))
    }
    pub(crate) async fn keep_control(&self, _: Term, _: Duration, _: &str) -> Result<bool, OriginError> {
        Ok(false)
    }
    pub(crate) async fn release_control(&self, _: Term) -> Result<bool, OriginError> {
        Ok(false)
    }
    pub(crate) async fn controller(&self) -> Result<Option<ControllerRow>, OriginError> {
        Ok(None)
    }
    pub(crate) async fn take_over(&self, _: &TakeOver) -> Result<TakeOverOutcome, OriginError> {
        Ok(TakeOverOutcome::TermOver)
    }
    pub(crate) async fn attend_change(&self, _: ChangeId, _: &str, _: Duration) -> Result<bool, OriginError> {
        Ok(false)
    }
}
