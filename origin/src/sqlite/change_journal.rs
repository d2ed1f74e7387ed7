//! The journal of ring changes on SQLite (protocol section 9). The flip: `flip`.

use std::time::Duration;

use placement::{ChangeId, Epoch};
use sqlx::{SqliteConnection, query_as};

use super::SqliteOrigin;
use super::leases::millis;
use super::ring_ledger::epoch_number;
use super::transaction::{End, row};
use crate::change_journal::{AbortOutcome, BeginOutcome, ChangeRow, FIRST_ATTENDANCE, NewChange, SealedSlot};
use crate::error::OriginError;
use crate::pool::Lane;
use crate::rows::{self, ChangeRecord};

macro_rules! select_changes {
    ($rest:literal) => {
        concat!(
            "SELECT id, action, from_epoch, to_epoch, members, moves, phase, seal, flip, operator, reason, started_ms, ",
            "ended_ms, coalesce(attended_until > CAST(unixepoch('subsec') * 1000 AS INTEGER), 0) AS attended ",
            "FROM ring_changes ",
            $rest
        )
    };
}

pub(super) const ACTIVE: &str =
    select_changes!("WHERE phase IN ('copy', 'sealed', 'flipped') ORDER BY id DESC LIMIT 1");
const BY_ID: &str = select_changes!("WHERE id = ?1");
const NEWEST: &str = select_changes!("ORDER BY id DESC LIMIT ?1");

const BEGIN: &str = "INSERT INTO ring_changes \
        (action, from_epoch, to_epoch, members, moves, phase, operator, started_ms, attended_until) \
    VALUES (?1, ?2, ?3, ?4, ?5, 'copy', ?6, CAST(unixepoch('subsec') * 1000 AS INTEGER), \
        CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?7) RETURNING id";

const ATTEND: &str = "UPDATE ring_changes SET operator = ?2, \
        attended_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?3 \
    WHERE id = ?1 AND phase IN ('copy', 'sealed', 'flipped') RETURNING 1";

const SEAL: &str = "UPDATE ring_changes SET phase = 'sealed', seal = ?2 WHERE id = ?1 AND phase = 'copy' RETURNING 1";

pub(super) const ABORT: &str = "UPDATE ring_changes SET phase = 'aborted', reason = ?2, attended_until = NULL, \
    ended_ms = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE id = ?1 AND phase IN ('copy', 'sealed') RETURNING 1";

const FINISH: &str = "UPDATE ring_changes SET phase = 'done', attended_until = NULL, \
    ended_ms = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE id = ?1 AND phase = 'flipped' RETURNING 1";

impl SqliteOrigin {
    /// See [`crate::Origin::begin_change`].
    pub(crate) async fn begin_change(&self, change: &NewChange) -> Result<BeginOutcome, OriginError> {
        let change = change.clone();
        self.shared.writer.transact(move |connection| Box::pin(begin_change(connection, change))).await
    }

    /// See [`crate::Origin::attend_change`].
    pub(crate) async fn attend_change(
        &self,
        change: ChangeId,
        operator: &str,
        ttl: Duration,
    ) -> Result<bool, OriginError> {
        let operator = operator.to_owned();
        self.shared
            .writer
            .transact(move |connection| {
                Box::pin(async move {
                    let statement = query_as::<_, (i64,)>(ATTEND).bind(change.0).bind(operator).bind(millis(ttl));
                    Ok(End::Commit(row(connection, statement).await?.is_some()))
                })
            })
            .await
    }

    /// See [`crate::Origin::record_seal`].
    pub(crate) async fn record_seal(&self, change: ChangeId, seal: &[SealedSlot]) -> Result<bool, OriginError> {
        self.move_phase(SEAL, change, Some(rows::to_json(seal))).await
    }

    /// See [`crate::Origin::abort_change`].
    pub(crate) async fn abort_change(&self, change: ChangeId, reason: &str) -> Result<AbortOutcome, OriginError> {
        if self.move_phase(ABORT, change, Some(reason.to_owned())).await? {
            return Ok(AbortOutcome::Aborted);
        }
        Ok(match self.change(change).await? {
            Some(row) => AbortOutcome::NotAbortable(row.phase),
            None => AbortOutcome::Unknown,
        })
    }

    /// See [`crate::Origin::finish_change`].
    pub(crate) async fn finish_change(&self, change: ChangeId) -> Result<bool, OriginError> {
        self.move_phase(FINISH, change, None).await
    }

    /// A compare-and-set of the phase; whether it hit.
    async fn move_phase(&self, sql: &'static str, id: ChangeId, text: Option<String>) -> Result<bool, OriginError> {
        self.shared
            .writer
            .transact(move |connection| {
                Box::pin(async move {
                    let mut statement = query_as::<_, (i64,)>(sql).bind(id.0);
                    if let Some(text) = text {
                        statement = statement.bind(text);
                    }
                    Ok(End::Commit(row(connection, statement).await?.is_some()))
                })
            })
            .await
    }

    /// See [`crate::Origin::change`].
    pub(crate) async fn change(&self, change: ChangeId) -> Result<Option<ChangeRow>, OriginError> {
        let statement = query_as::<_, ChangeRecord>(BY_ID).bind(change.0);
        self.read(Lane::Control, statement).await?.pop().map(rows::change_row).transpose()
    }

    /// See [`crate::Origin::active_change`].
    pub(crate) async fn active_change(&self) -> Result<Option<ChangeRow>, OriginError> {
        let found = self.read(Lane::Control, query_as::<_, ChangeRecord>(ACTIVE)).await?.pop();
        found.map(rows::change_row).transpose()
    }

    /// See [`crate::Origin::changes`].
    pub(crate) async fn changes(&self, limit: u32) -> Result<Vec<ChangeRow>, OriginError> {
        let statement = query_as::<_, ChangeRecord>(NEWEST).bind(i64::from(limit));
        self.read(Lane::Control, statement).await?.into_iter().map(rows::change_row).collect()
    }
}

pub(super) async fn change_in(
    connection: &mut SqliteConnection,
    id: ChangeId,
) -> Result<Option<ChangeRow>, OriginError> {
    row(connection, query_as::<_, ChangeRecord>(BY_ID).bind(id.0)).await?.map(rows::change_row).transpose()
}

async fn begin_change(connection: &mut SqliteConnection, change: NewChange) -> Result<End<BeginOutcome>, OriginError> {
    if let Some(active) = row(connection, query_as::<_, ChangeRecord>(ACTIVE)).await? {
        return Ok(End::Rollback(BeginOutcome::Active(Box::new(rows::change_row(active)?))));
    }
    let epoch = epoch_number(connection).await?;
    if epoch != change.from_epoch || epoch == Epoch(0) {
        return Ok(End::Rollback(BeginOutcome::StalePlan { epoch }));
    }
    let insert = query_as::<_, (i64,)>(BEGIN)
        .bind(change.action.as_str())
        .bind(rows::epoch_number(epoch))
        .bind(rows::epoch_number(epoch.next()))
        .bind(rows::change_members(&change))
        .bind(rows::to_json(&change.moves))
        .bind(change.operator.as_str())
        .bind(millis(FIRST_ATTENDANCE));
    match row(connection, insert).await? {
        Some((id,)) => Ok(End::Commit(BeginOutcome::Begun(ChangeId(id)))),
        None => Err(OriginError::Corrupt("an insert without its row".to_owned())),
    }
}
