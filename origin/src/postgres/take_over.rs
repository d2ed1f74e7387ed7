//! Takeover on Postgres (protocol L3): a dead node's slots get new owners and tenures in one transaction, or nothing does.
//!
//! Locks, in this order: the ring (as the flip does), the controller's row, the node's row, the receivers' rows by name, the
//! slots in slot order. A claim of the node takes its row and then its slots, so that one of the two waits and then misses.

use placement::ring::SlotMove;
use placement::{ChangeId, Epoch, NodeId, Phase, Slot, Tenure};
use sqlx::query_as;

use super::PostgresOrigin;
use super::change_journal::{ABORT, ACTIVE};
use super::flip::NEW_EPOCH;
use super::leases::{FENCE, announce};
use super::ring_ledger::{LOCK_RING, newest_epoch};
use super::session::Session;
use crate::controller::{TakeOver, TakeOverOutcome, Term};
use crate::error::OriginError;
use crate::pool::Lane;
use crate::rows::{self, ChangeRecord};

/// FOR SHARE: nobody begins a new term before we commit.
const TERM_LASTS: &str = "SELECT true FROM controller WHERE term = $1::bigint AND until > clock_timestamp() FOR SHARE";

/// FOR SHARE: a receiver cannot lose its lease to another process before we commit.
const RECEIVERS: &str = "SELECT id FROM nodes WHERE id = ANY($1::text[]) AND lease_until > clock_timestamp() \
    ORDER BY id FOR SHARE";

/// In slot order, as everywhere (see `slots`). l2space stays.
const MOVE: &str = "WITH wanted AS (SELECT * FROM unnest($2::int[], $3::text[]) AS t (slot, receiver)), \
    locked AS MATERIALIZED (SELECT slot FROM slots WHERE owner = $1::text ORDER BY slot FOR UPDATE) \
    UPDATE slots s SET owner = w.receiver, tenure = nextval('tenure_seq'), gained = nextval('tenure_seq') \
    FROM locked l JOIN wanted w ON w.slot = l.slot \
    WHERE s.slot = l.slot AND s.owner = $1::text RETURNING s.slot, s.tenure";

const STILL_OWNS: &str = "SELECT true FROM slots WHERE owner = $1::text LIMIT 1";

const JOURNAL: &str = "INSERT INTO ring_changes \
        (action, from_epoch, to_epoch, members, moves, phase, flip, operator, started_ms, ended_ms) \
    SELECT $1::text, $2::bigint, $3::bigint, $4::text, $5::text, 'done', $6::text, $7::text, t.ms, t.ms \
    FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms) AS t RETURNING id";

impl PostgresOrigin {
    /// See [`crate::Origin::take_over`].
    pub(crate) async fn take_over(&self, plan: &TakeOver) -> Result<TakeOverOutcome, OriginError> {
        let moves = plan.moves()?;
        let mut tx = self.begin(Lane::Control, "BEGIN").await?;
        let outcome = attempt(&mut tx, plan, &moves).await?;
        match outcome {
            TakeOverOutcome::Done { .. } => tx.commit().await?,
            _ => tx.rollback().await?,
        }
        Ok(outcome)
    }
}

async fn attempt(tx: &mut Session, plan: &TakeOver, moves: &[SlotMove]) -> Result<TakeOverOutcome, OriginError> {
    tx.command(LOCK_RING).await?;
    if let Some(Term(term)) = plan.term
        && tx.row::<(bool,)>(query_as(TERM_LASTS).bind(term)).await?.is_none()
    {
        return Ok(TakeOverOutcome::TermOver);
    }
    let epoch = newest_epoch(tx).await?.map_or(Epoch(0), |newest| newest.epoch);
    if epoch != plan.from_epoch || epoch == Epoch(0) {
        return Ok(TakeOverOutcome::StalePlan { epoch });
    }
    let active = tx.row::<ChangeRecord>(query_as(ACTIVE)).await?.map(rows::change_row).transpose()?;
    if let Some(flipped) = active.as_ref().filter(|change| change.phase == Phase::Flipped) {
        return Ok(TakeOverOutcome::Active(Box::new(flipped.clone())));
    }
    let fenced = tx.row::<(bool,)>(query_as(FENCE).bind(plan.node.as_str()).bind(plan.seen.0)).await?;
    if fenced.is_none() {
        return Ok(TakeOverOutcome::NodeIsBack);
    }
    if let Some(down) = receiver_down(tx, plan).await? {
        return Ok(TakeOverOutcome::ReceiverDown(down));
    }
    if let Some(change) = active {
        // No row: somebody has aborted it since we looked, and it cannot flip while we hold the ring.
        tx.row::<(bool,)>(query_as(ABORT).bind(change.id.0).bind(plan.abort_reason())).await?;
    }
    let flip = move_slots(tx, moves).await?;
    let left = tx.row::<(bool,)>(query_as(STILL_OWNS).bind(plan.node.as_str())).await?;
    if flip.len() != moves.len() || left.is_some() {
        return Ok(TakeOverOutcome::StalePlan { epoch });
    }
    let change = journal(tx, plan, moves, &flip).await?;
    announce(tx).await?;
    Ok(TakeOverOutcome::Done { change, epoch: epoch.next() })
}

/// The first receiver by name whose lease is over.
async fn receiver_down(tx: &mut Session, plan: &TakeOver) -> Result<Option<NodeId>, OriginError> {
    let receivers = plan.receivers();
    let names: Vec<&str> = receivers.iter().map(|id| id.as_str()).collect();
    let leased = tx.rows::<(String,)>(query_as(RECEIVERS).bind(&names)).await?;
    Ok(receivers.into_iter().find(|id| !leased.iter().any(|(name,)| name == id.as_str())).cloned())
}

async fn move_slots(tx: &mut Session, moves: &[SlotMove]) -> Result<Vec<(Slot, Tenure)>, OriginError> {
    let Some(first) = moves.first() else { return Ok(Vec::new()) };
    let numbers: Vec<i32> = moves.iter().map(|line| rows::slot_number(line.slot)).collect();
    let receivers: Vec<&str> = moves.iter().map(|line| line.to.as_str()).collect();
    let statement = query_as::<_, (i32, i64)>(MOVE).bind(first.from.as_str()).bind(&numbers).bind(&receivers);
    rows::flip_list(tx.rows(statement).await?)
}

async fn journal(
    tx: &mut Session,
    plan: &TakeOver,
    moves: &[SlotMove],
    flip: &[(Slot, Tenure)],
) -> Result<ChangeId, OriginError> {
    let insert = query_as::<_, (i64,)>(JOURNAL)
        .bind(&plan.action)
        .bind(rows::epoch_number(plan.from_epoch))
        .bind(rows::epoch_number(plan.from_epoch.next()))
        .bind(rows::to_json(&rows::sorted(plan.members.clone())))
        .bind(rows::to_json(moves))
        .bind(rows::to_json(flip))
        .bind(&plan.operator);
    let Some((id,)) = tx.row(insert).await? else {
        return Err(OriginError::Corrupt("an insert without its row".to_owned()));
    };
    tx.rows::<(bool,)>(query_as(NEW_EPOCH).bind(id)).await?;
    Ok(ChangeId(id))
}
