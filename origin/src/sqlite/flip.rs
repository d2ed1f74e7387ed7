//! The flip on SQLite (protocol C6): new owners, new tenures and the new epoch in one transaction, or nothing.

use placement::{ChangeId, Epoch, Incarnation, NodeId, Phase, PinnedUser, PinnedUsers, Slot, Tenure};
use sqlx::{SqliteConnection, query_as};

use super::SqliteOrigin;
use super::change_journal::change_in;
use super::ring_ledger::epoch_number;
use super::transaction::{End, row, rows, take_numbers};
use crate::change_journal::{AbortOutcome, FlipOutcome, SealedSlot};
use crate::error::OriginError;
use crate::rows::{self, LeavingUser};

const TAKE_PHASE: &str = "UPDATE ring_changes SET phase = 'flipped' WHERE id = ?1 AND phase = 'sealed' RETURNING 1";

const LEASED: &str =
    "SELECT id, incarnation FROM nodes WHERE lease_until > CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/// `?1`: the seal list; `?2`: the number before the first; two per slot.
const MOVE: &str = "UPDATE slots SET owner = w.receiver, tenure = ?2 + 2 * w.n + 1, gained = ?2 + 2 * w.n + 2 \
    FROM (SELECT j.key AS n, j.value ->> 'slot' AS slot, j.value ->> 'owner' AS owner, j.value ->> 'tenure' AS tenure, \
        j.value ->> 'receiver' AS receiver FROM json_each(?1) AS j) AS w \
    WHERE slots.slot = w.slot AND slots.owner = w.owner AND slots.tenure = w.tenure RETURNING slot, tenure";

/// The home slot keeps owner and gain and gets another tenure: no statement of the user's that is still under way may commit.
const LEAVE_HOME: &str = "UPDATE slots SET tenure = ?4 + 1, pinned = concat_ws(' ', pinned, ?5) \
    WHERE slot = ?1 AND owner = ?2 AND tenure = ?3 RETURNING slot, tenure";

/// Nothing if the slot is somebody's already.
const PIN: &str = "INSERT INTO slots (slot, owner, tenure, gained, pool) VALUES (?1, ?2, ?3 + 2, ?3 + 3, ?4) \
    ON CONFLICT (slot) DO NOTHING RETURNING slot, tenure";

const SET_POOL: &str = "UPDATE slots SET pool = ?2 WHERE slot = ?1 RETURNING 1";

pub(super) const NEW_EPOCH: &str = "INSERT INTO ring_epochs (epoch, members, change_id, created_ms) \
    SELECT to_epoch, members, id, CAST(unixepoch('subsec') * 1000 AS INTEGER) FROM ring_changes WHERE id = ?1 RETURNING 1";

const RECORD_FLIP: &str = "UPDATE ring_changes SET flip = ?2 WHERE id = ?1 RETURNING 1";

/// Inside the transaction: what came of it.
enum Attempt {
    Flipped(Epoch),
    NotSealed(Phase),
    Refused(String),
}

impl SqliteOrigin {
    /// See [`crate::Origin::flip_change`].
    pub(crate) async fn flip_change(&self, change: ChangeId) -> Result<FlipOutcome, OriginError> {
        let attempt = self.shared.writer.transact(move |connection| Box::pin(flip(connection, change))).await?;
        match attempt {
            Attempt::Flipped(epoch) => Ok(FlipOutcome::Flipped { epoch }),
            Attempt::NotSealed(phase) => Ok(FlipOutcome::NotSealed(phase)),
            Attempt::Refused(reason) => match self.abort_change(change, &reason).await? {
                // Somebody else flipped or aborted it between our rollback and our abort.
                AbortOutcome::NotAbortable(phase) => Ok(FlipOutcome::NotSealed(phase)),
                AbortOutcome::Aborted | AbortOutcome::Unknown => Ok(FlipOutcome::Refused(reason)),
            },
        }
    }
}

async fn flip(connection: &mut SqliteConnection, change: ChangeId) -> Result<End<Attempt>, OriginError> {
    Ok(match attempt(connection, change).await? {
        Attempt::Flipped(epoch) => End::Commit(Attempt::Flipped(epoch)),
        other => End::Rollback(other),
    })
}

async fn attempt(connection: &mut SqliteConnection, id: ChangeId) -> Result<Attempt, OriginError> {
    let taken = row(connection, query_as::<_, (i64,)>(TAKE_PHASE).bind(id.0)).await?;
    let Some(change) = change_in(connection, id).await? else {
        return Err(OriginError::Refused { code: format!("there is no change {id}") });
    };
    if taken.is_none() {
        return Ok(Attempt::NotSealed(change.phase));
    }
    let epoch = epoch_number(connection).await?;
    if epoch != change.from_epoch {
        return Ok(Attempt::Refused(format!("the ring is at epoch {epoch}, not {}", change.from_epoch)));
    }
    if let Err(reason) = rows::seal_covers_moves(&change.seal, &change.moves) {
        return Ok(Attempt::Refused(reason));
    }
    if let Err(reason) = rows::receivers_hold(&change.seal, &leased(connection).await?) {
        return Ok(Attempt::Refused(reason));
    }
    let (flip, expected) = match rows::leaving_user(&change.seal, &change.moves) {
        Err(reason) => return Ok(Attempt::Refused(reason)),
        Ok(None) => (move_slots(connection, &change.seal).await?, change.seal.len()),
        Ok(Some(leaving)) => (pin_user(connection, &leaving).await?, 2),
    };
    if flip.len() != expected {
        let moved = expected - flip.len();
        return Ok(Attempt::Refused(format!("{moved} of {expected} slots changed since the seal")));
    }
    for (slot, pool) in rows::new_pools(&change.moves) {
        let statement = query_as::<_, (i64,)>(SET_POOL).bind(rows::slot_number(slot)).bind(pool.as_str());
        rows(connection, statement).await?;
    }
    rows(connection, query_as::<_, (i64,)>(NEW_EPOCH).bind(id.0)).await?;
    rows(connection, query_as::<_, (i64,)>(RECORD_FLIP).bind(id.0).bind(rows::to_json(&flip))).await?;
    Ok(Attempt::Flipped(change.to_epoch))
}

async fn leased(connection: &mut SqliteConnection) -> Result<Vec<(NodeId, Incarnation)>, OriginError> {
    let found = rows(connection, query_as::<_, (String, i64)>(LEASED)).await?;
    found.into_iter().map(|(id, incarnation)| Ok((rows::node_id(id)?, Incarnation(incarnation)))).collect()
}

async fn move_slots(
    connection: &mut SqliteConnection,
    seal: &[SealedSlot],
) -> Result<Vec<(Slot, Tenure)>, OriginError> {
    let numbers = take_numbers(connection, "tenure", seal.len() * 2).await?;
    let statement = query_as::<_, (i32, i64)>(MOVE).bind(rows::to_json(seal)).bind(numbers);
    let moved = rows(connection, statement).await?;
    rows::flip_list(moved)
}

async fn pin_user(
    connection: &mut SqliteConnection,
    leaving: &LeavingUser<'_>,
) -> Result<Vec<(Slot, Tenure)>, OriginError> {
    let LeavingUser { home, user, pool } = leaving;
    let numbers = take_numbers(connection, "tenure", 3).await?;
    let left = query_as::<_, (i32, i64)>(LEAVE_HOME)
        .bind(rows::slot_number(home.slot))
        .bind(home.owner.as_str())
        .bind(home.tenure.0)
        .bind(numbers)
        .bind(PinnedUsers::NONE.with(PinnedUser::clone(user)).to_string());
    let pinned = query_as::<_, (i32, i64)>(PIN)
        .bind(rows::slot_number(user.slot))
        .bind(home.receiver.as_str())
        .bind(numbers)
        .bind(pool.as_str());
    let mut moved = rows(connection, left).await?;
    moved.extend(rows(connection, pinned).await?);
    rows::flip_list(moved)
}
