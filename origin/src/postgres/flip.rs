//! The flip on Postgres (protocol C6): new owners, new tenures and the new epoch in one transaction, or nothing.

use placement::{ChangeId, Epoch, Incarnation, NodeId, PinnedUser, PinnedUsers, Slot, Tenure};
use sqlx::query_as;

use super::PostgresOrigin;
use super::change_journal::change_in;
use super::leases::announce;
use super::ring_ledger::{LOCK_RING, newest_epoch};
use super::session::Session;
use crate::change_journal::{AbortOutcome, ChangeRow, FlipOutcome, SealedSlot};
use crate::error::OriginError;
use crate::pool::Lane;
use crate::rows::{self, LeavingUser};

const TAKE_PHASE: &str =
    "UPDATE ring_changes SET phase = 'flipped' WHERE id = $1::bigint AND phase = 'sealed' RETURNING true";

/// FOR SHARE: a receiver cannot lose its lease to another process before we commit.
const RECEIVERS: &str = "SELECT id, incarnation FROM nodes WHERE id = ANY($1::text[]) AND lease_until > clock_timestamp() \
    ORDER BY id FOR SHARE";

/// In slot order, as everywhere (see `slots`).
const MOVE: &str = "WITH wanted AS (SELECT * FROM unnest($1::int[], $2::text[], $3::bigint[], $4::text[]) \
        AS t (slot, owner, tenure, receiver)), \
    locked AS MATERIALIZED (SELECT slot FROM slots WHERE slot = ANY($1::int[]) ORDER BY slot FOR UPDATE) \
    UPDATE slots s SET owner = w.receiver, tenure = nextval('tenure_seq'), gained = nextval('tenure_seq') \
    FROM locked l JOIN wanted w ON w.slot = l.slot \
    WHERE s.slot = l.slot AND s.owner = w.owner AND s.tenure = w.tenure RETURNING s.slot, s.tenure";

/// The home slot keeps owner and gain and gets another tenure: no statement of the user's that is still under way may commit.
const LEAVE_HOME: &str = "UPDATE slots SET tenure = nextval('tenure_seq'), pinned = concat_ws(' ', pinned, $4::text) \
    WHERE slot = $1::int AND owner = $2::text AND tenure = $3::bigint RETURNING slot, tenure";

/// Nothing if the slot is somebody's already.
const PIN: &str = "INSERT INTO slots (slot, owner, tenure, gained, pool) \
    VALUES ($1::int, $2::text, nextval('tenure_seq'), nextval('tenure_seq'), $3::text) \
    ON CONFLICT (slot) DO NOTHING RETURNING slot, tenure";

const SET_POOL: &str = "UPDATE slots SET pool = $2::text WHERE slot = $1::int RETURNING true";

pub(super) const NEW_EPOCH: &str = "INSERT INTO ring_epochs (epoch, members, change_id, created_ms) \
    SELECT to_epoch, members, id, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint \
    FROM ring_changes WHERE id = $1::bigint RETURNING true";

const RECORD_FLIP: &str = "UPDATE ring_changes SET flip = $2::text WHERE id = $1::bigint RETURNING true";

/// Inside the transaction: what came of it.
enum Attempt {
    Flipped(Epoch),
    NotSealed(ChangeRow),
    Refused(String),
}

impl PostgresOrigin {
    /// See [`crate::Origin::flip_change`].
    pub(crate) async fn flip_change(&self, change: ChangeId) -> Result<FlipOutcome, OriginError> {
        let mut tx = self.begin(Lane::Control, "BEGIN").await?;
        match attempt(&mut tx, change).await? {
            Attempt::Flipped(epoch) => {
                tx.commit().await?;
                Ok(FlipOutcome::Flipped { epoch })
            }
            Attempt::NotSealed(row) => {
                tx.rollback().await?;
                Ok(FlipOutcome::NotSealed(row.phase))
            }
            Attempt::Refused(reason) => {
                tx.rollback().await?;
                match self.abort_change(change, &reason).await? {
                    // Somebody else flipped or aborted it between our rollback and our abort.
                    AbortOutcome::NotAbortable(phase) => Ok(FlipOutcome::NotSealed(phase)),
                    AbortOutcome::Aborted | AbortOutcome::Unknown => Ok(FlipOutcome::Refused(reason)),
                }
            }
        }
    }
}

async fn attempt(tx: &mut Session, id: ChangeId) -> Result<Attempt, OriginError> {
    tx.command(LOCK_RING).await?;
    let taken = tx.row::<(bool,)>(query_as(TAKE_PHASE).bind(id.0)).await?;
    let Some(change) = change_in(tx, id).await? else {
        return Err(OriginError::Refused { code: format!("there is no change {id}") });
    };
    if taken.is_none() {
        return Ok(Attempt::NotSealed(change));
    }
    let epoch = newest_epoch(tx).await?.map_or(Epoch(0), |newest| newest.epoch);
    if epoch != change.from_epoch {
        return Ok(Attempt::Refused(format!("the ring is at epoch {epoch}, not {}", change.from_epoch)));
    }
    if let Err(reason) = rows::seal_covers_moves(&change.seal, &change.moves) {
        return Ok(Attempt::Refused(reason));
    }
    if let Err(reason) = rows::receivers_hold(&change.seal, &leased_receivers(tx, &change.seal).await?) {
        return Ok(Attempt::Refused(reason));
    }
    let (flip, expected) = match rows::leaving_user(&change.seal, &change.moves) {
        Err(reason) => return Ok(Attempt::Refused(reason)),
        Ok(None) => (move_slots(tx, &change.seal).await?, change.seal.len()),
        Ok(Some(leaving)) => (pin_user(tx, &leaving).await?, 2),
    };
    if flip.len() != expected {
        let moved = expected - flip.len();
        return Ok(Attempt::Refused(format!("{moved} of {expected} slots changed since the seal")));
    }
    for (slot, pool) in rows::new_pools(&change.moves) {
        tx.rows::<(bool,)>(query_as(SET_POOL).bind(rows::slot_number(slot)).bind(pool.as_str())).await?;
    }
    tx.rows::<(bool,)>(query_as(NEW_EPOCH).bind(id.0)).await?;
    tx.rows::<(bool,)>(query_as(RECORD_FLIP).bind(id.0).bind(rows::to_json(&flip))).await?;
    announce(tx).await?;
    Ok(Attempt::Flipped(change.to_epoch))
}

async fn leased_receivers(tx: &mut Session, seal: &[SealedSlot]) -> Result<Vec<(NodeId, Incarnation)>, OriginError> {
    let names: Vec<&str> = seal.iter().map(|line| line.receiver.as_str()).collect();
    let found = tx.rows::<(String, i64)>(query_as(RECEIVERS).bind(&names)).await?;
    found.into_iter().map(|(id, incarnation)| Ok((rows::node_id(id)?, Incarnation(incarnation)))).collect()
}

async fn move_slots(tx: &mut Session, seal: &[SealedSlot]) -> Result<Vec<(Slot, Tenure)>, OriginError> {
    let numbers: Vec<i32> = seal.iter().map(|line| rows::slot_number(line.slot)).collect();
    let owners: Vec<&str> = seal.iter().map(|line| line.owner.as_str()).collect();
    let tenures: Vec<i64> = seal.iter().map(|line| line.tenure.0).collect();
    let receivers: Vec<&str> = seal.iter().map(|line| line.receiver.as_str()).collect();
    let statement = query_as::<_, (i32, i64)>(MOVE).bind(&numbers).bind(&owners).bind(&tenures).bind(&receivers);
    let moved = tx.rows(statement).await?;
    rows::flip_list(moved)
}

async fn pin_user(tx: &mut Session, leaving: &LeavingUser<'_>) -> Result<Vec<(Slot, Tenure)>, OriginError> {
    let LeavingUser { home, user, pool } = leaving;
    let left = query_as::<_, (i32, i64)>(LEAVE_HOME)
        .bind(rows::slot_number(home.slot))
        .bind(home.owner.as_str())
        .bind(home.tenure.0)
        .bind(PinnedUsers::NONE.with(PinnedUser::clone(user)).to_string());
    let pinned = query_as::<_, (i32, i64)>(PIN)
        .bind(rows::slot_number(user.slot))
        .bind(home.receiver.as_str())
        .bind(pool.as_str());
    let mut moved = tx.rows(left).await?;
    moved.extend(tx.rows(pinned).await?);
    rows::flip_list(moved)
}
