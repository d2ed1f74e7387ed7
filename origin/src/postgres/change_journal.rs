//! The journal of ring changes on Postgres (protocol section 9). The flip: `flip`.

use std::time::Duration;

use placement::{ChangeId, Epoch};
use sqlx::query_as;

use super::PostgresOrigin;
use super::failure::is_unique_violation;
use super::leases::{announce, millis};
use super::ring_ledger::{LOCK_RING, newest_epoch};
use super::session::{Session, Statement};
use crate::change_journal::{AbortOutcome, BeginOutcome, ChangeRow, FIRST_ATTENDANCE, NewChange, SealedSlot};
use crate::error::OriginError;
use crate::pool::Lane;
use crate::rows::{self, ChangeRecord};

macro_rules! select_changes {
    ($rest:literal) => {
        concat!(
            "SELECT id, action, from_epoch, to_epoch, members, moves, phase, seal, flip, operator, reason, started_ms, ",
            "ended_ms, coalesce(attended_until > clock_timestamp(), false) AS attended FROM ring_changes ",
            $rest
        )
    };
}

pub(super) const ACTIVE: &str =
    select_changes!("WHERE phase IN ('copy', 'sealed', 'flipped') ORDER BY id DESC LIMIT 1");
pub(super) const BY_ID: &str = select_changes!("WHERE id = $1::bigint");
const NEWEST: &str = select_changes!("ORDER BY id DESC LIMIT $1::bigint");

const BEGIN: &str = "INSERT INTO ring_changes \
        (action, from_epoch, to_epoch, members, moves, phase, operator, started_ms, attended_until) \
    VALUES ($1::text, $2::bigint, $3::bigint, $4::text, $5::text, 'copy', $6::text, \
        floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, \
        clock_timestamp() + $7::bigint * interval '1 millisecond') RETURNING id";

const ATTEND: &str = "UPDATE ring_changes SET operator = $2::text, \
        attended_until = clock_timestamp() + $3::bigint * interval '1 millisecond' \
    WHERE id = $1::bigint AND phase IN ('copy', 'sealed', 'flipped') RETURNING true";

const SEAL: &str =
    "UPDATE ring_changes SET phase = 'sealed', seal = $2::text WHERE id = $1::bigint AND phase = 'copy' RETURNING true";

pub(super) const ABORT: &str = "UPDATE ring_changes SET phase = 'aborted', reason = $2::text, attended_until = NULL, \
        ended_ms = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint \
    WHERE id = $1::bigint AND phase IN ('copy', 'sealed') RETURNING true";

const FINISH: &str = "UPDATE ring_changes SET phase = 'done', attended_until = NULL, \
        ended_ms = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint \
    WHERE id = $1::bigint AND phase = 'flipped' RETURNING true";

impl PostgresOrigin {
    /// See [`crate::Origin::begin_change`].
    pub(crate) async fn begin_change(&self, change: &NewChange) -> Result<BeginOutcome, OriginError> {
        match self.try_begin_change(change).await {
            // Another row is in the index of active changes, committed since we looked.
            Err(error) if is_unique_violation(&error) => match self.active_change().await? {
                Some(active) => Ok(BeginOutcome::Active(Box::new(active))),
                None => Err(error),
            },
            outcome => outcome,
        }
    }

    async fn try_begin_change(&self, change: &NewChange) -> Result<BeginOutcome, OriginError> {
        let mut tx = self.begin(Lane::Control, "BEGIN").await?;
        tx.command(LOCK_RING).await?;
        if let Some(active) = tx.row(query_as(ACTIVE)).await? {
            tx.rollback().await?;
            return Ok(BeginOutcome::Active(Box::new(rows::change_row(active)?)));
        }
        let epoch = newest_epoch(&mut tx).await?.map_or(Epoch(0), |newest| newest.epoch);
        if epoch != change.from_epoch || epoch == Epoch(0) {
            tx.rollback().await?;
            return Ok(BeginOutcome::StalePlan { epoch });
        }
        let insert = query_as::<_, (i64,)>(BEGIN)
            .bind(&change.action)
            .bind(rows::epoch_number(epoch))
            .bind(rows::epoch_number(epoch.next()))
            .bind(rows::change_members(change))
            .bind(rows::to_json(&change.moves))
            .bind(&change.operator)
            .bind(millis(FIRST_ATTENDANCE));
        let id = tx.row(insert).await?;
        announce(&mut tx).await?;
        tx.commit().await?;
        match id {
            Some((id,)) => Ok(BeginOutcome::Begun(ChangeId(id))),
            None => Err(OriginError::Corrupt("an insert without its row".to_owned())),
        }
    }

    /// See [`crate::Origin::attend_change`]. Not announced: it says nothing about the ring.
    pub(crate) async fn attend_change(
        &self,
        change: ChangeId,
        operator: &str,
        ttl: Duration,
    ) -> Result<bool, OriginError> {
        let statement = query_as::<_, (bool,)>(ATTEND).bind(change.0).bind(operator).bind(millis(ttl));
        Ok(!self.rows(Lane::Control, statement).await?.is_empty())
    }

    /// See [`crate::Origin::record_seal`]. Not announced: nothing follows from it for anybody, and all nodes and gateways would
    /// read the ring at the very moment when writes wait for the flip.
    pub(crate) async fn record_seal(&self, change: ChangeId, seal: &[SealedSlot]) -> Result<bool, OriginError> {
        let statement = query_as::<_, (bool,)>(SEAL).bind(change.0).bind(rows::to_json(seal));
        Ok(!self.rows(Lane::Control, statement).await?.is_empty())
    }

    /// See [`crate::Origin::abort_change`].
    pub(crate) async fn abort_change(&self, change: ChangeId, reason: &str) -> Result<AbortOutcome, OriginError> {
        if self.move_phase(query_as(ABORT).bind(change.0).bind(reason)).await? {
            return Ok(AbortOutcome::Aborted);
        }
        Ok(match self.change(change).await? {
            Some(row) => AbortOutcome::NotAbortable(row.phase),
            None => AbortOutcome::Unknown,
        })
    }

    /// See [`crate::Origin::finish_change`].
    pub(crate) async fn finish_change(&self, change: ChangeId) -> Result<bool, OriginError> {
        self.move_phase(query_as(FINISH).bind(change.0)).await
    }

    /// A compare-and-set of the phase, announced; whether it hit.
    async fn move_phase(&self, statement: Statement<'_, (bool,)>) -> Result<bool, OriginError> {
        let mut tx = self.begin(Lane::Control, "BEGIN").await?;
        let hit = tx.row(statement).await?.is_some();
        if hit {
            announce(&mut tx).await?;
        }
        tx.commit().await?;
        Ok(hit)
    }

    /// See [`crate::Origin::change`].
    pub(crate) async fn change(&self, change: ChangeId) -> Result<Option<ChangeRow>, OriginError> {
        let make = || query_as::<_, ChangeRecord>(BY_ID).bind(change.0);
        self.read(Lane::Control, make).await?.pop().map(rows::change_row).transpose()
    }

    /// See [`crate::Origin::active_change`].
    pub(crate) async fn active_change(&self) -> Result<Option<ChangeRow>, OriginError> {
        let make = || query_as::<_, ChangeRecord>(ACTIVE);
        self.read(Lane::Control, make).await?.pop().map(rows::change_row).transpose()
    }

    /// See [`crate::Origin::changes`].
    pub(crate) async fn changes(&self, limit: u32) -> Result<Vec<ChangeRow>, OriginError> {
        let make = || query_as::<_, ChangeRecord>(NEWEST).bind(i64::from(limit));
        self.read(Lane::Control, make).await?.into_iter().map(rows::change_row).collect()
    }
}

pub(super) async fn change_in(tx: &mut Session, change: ChangeId) -> Result<Option<ChangeRow>, OriginError> {
    tx.row::<ChangeRecord>(query_as(BY_ID).bind(change.0)).await?.map(rows::change_row).transpose()
}
