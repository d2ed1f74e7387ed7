//! Takeover on SQLite (protocol L3): a dead node's slots get new owners and tenures in one transaction, or nothing does.

use placement::ring::SlotMove;
use placement::{ChangeId, Epoch, NodeId, Phase, Slot, Tenure};
use sqlx::{SqliteConnection, query_as};

use super::SqliteOrigin;
use super::change_journal::{ABORT, ACTIVE};
use super::flip::NEW_EPOCH;
use super::leases::FENCE;
use super::ring_ledger::epoch_number;
use super::transaction::{End, row, rows, take_numbers};
use crate::controller::{TakeOver, TakeOverOutcome, Term};
use crate::error::OriginError;
use crate::rows::{self, ChangeRecord};

const TERM_LASTS: &str =
    "SELECT 1 FROM controller WHERE term = ?1 AND until > CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/// `?1`: the names, sorted.
const RECEIVER_DOWN: &str = "SELECT value FROM json_each(?1) WHERE value NOT IN \
    (SELECT id FROM nodes WHERE lease_until > CAST(unixepoch('subsec') * 1000 AS INTEGER)) ORDER BY key LIMIT 1";

/// `?1`: the moves; `?2`: the number before the first; two per slot. l2space stays.
const MOVE: &str = "UPDATE slots SET owner = w.receiver, tenure = ?2 + 2 * w.n + 1, gained = ?2 + 2 * w.n + 2 \
    FROM (SELECT j.key AS n, j.value ->> 'slot' AS slot, j.value ->> 'from' AS owner, j.value ->> 'to' AS receiver \
        FROM json_each(?1) AS j) AS w \
    WHERE slots.slot = w.slot AND slots.owner = w.owner RETURNING slot, tenure";

const STILL_OWNS: &str = "SELECT 1 FROM slots WHERE owner = ?1 LIMIT 1";

const JOURNAL: &str = "INSERT INTO ring_changes \
        (action, from_epoch, to_epoch, members, moves, phase, flip, operator, started_ms, ended_ms) \
    SELECT ?1, ?2, ?3, ?4, ?5, 'done', ?6, ?7, t.ms, t.ms \
    FROM (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS ms) AS t RETURNING id";

impl SqliteOrigin {
    /// See [`crate::Origin::take_over`].
    pub(crate) async fn take_over(&self, plan: &TakeOver) -> Result<TakeOverOutcome, OriginError> {
        let moves = plan.moves()?;
        let plan = plan.clone();
        self.shared.writer.transact(move |connection| Box::pin(take_over(connection, plan, moves))).await
    }
}

async fn take_over(
    connection: &mut SqliteConnection,
    plan: TakeOver,
    moves: Vec<SlotMove>,
) -> Result<End<TakeOverOutcome>, OriginError> {
    Ok(match attempt(connection, &plan, &moves).await? {
        done @ TakeOverOutcome::Done { .. } => End::Commit(done),
        other => End::Rollback(other),
    })
}

async fn attempt(
    connection: &mut SqliteConnection,
    plan: &TakeOver,
    moves: &[SlotMove],
) -> Result<TakeOverOutcome, OriginError> {
    if let Some(Term(term)) = plan.term
        && row(connection, query_as::<_, (i64,)>(TERM_LASTS).bind(term)).await?.is_none()
    {
        return Ok(TakeOverOutcome::TermOver);
    }
    let epoch = epoch_number(connection).await?;
    if epoch != plan.from_epoch || epoch == Epoch(0) {
        return Ok(TakeOverOutcome::StalePlan { epoch });
    }
    let active = row(connection, query_as::<_, ChangeRecord>(ACTIVE)).await?.map(rows::change_row).transpose()?;
    if let Some(flipped) = active.as_ref().filter(|change| change.phase == Phase::Flipped) {
        return Ok(TakeOverOutcome::Active(Box::new(flipped.clone())));
    }
    let fence = query_as::<_, (i64,)>(FENCE).bind(plan.node.as_str()).bind(plan.seen.0);
    if row(connection, fence).await?.is_none() {
        return Ok(TakeOverOutcome::NodeIsBack);
    }
    if let Some(down) = receiver_down(connection, plan).await? {
        return Ok(TakeOverOutcome::ReceiverDown(down));
    }
    if let Some(change) = active {
        rows(connection, query_as::<_, (i64,)>(ABORT).bind(change.id.0).bind(plan.abort_reason())).await?;
    }
    let flip = move_slots(connection, moves).await?;
    let left = row(connection, query_as::<_, (i64,)>(STILL_OWNS).bind(plan.node.as_str())).await?;
    if flip.len() != moves.len() || left.is_some() {
        return Ok(TakeOverOutcome::StalePlan { epoch });
    }
    let change = journal(connection, plan, moves, &flip).await?;
    Ok(TakeOverOutcome::Done { change, epoch: epoch.next() })
}

/// The first receiver by name whose lease is over.
async fn receiver_down(connection: &mut SqliteConnection, plan: &TakeOver) -> Result<Option<NodeId>, OriginError> {
    let names: Vec<&str> = plan.receivers().into_iter().map(NodeId::as_str).collect();
    let down = row(connection, query_as::<_, (String,)>(RECEIVER_DOWN).bind(rows::to_json(&names))).await?;
    down.map(|(name,)| rows::node_id(name)).transpose()
}

async fn move_slots(connection: &mut SqliteConnection, moves: &[SlotMove]) -> Result<Vec<(Slot, Tenure)>, OriginError> {
    let numbers = take_numbers(connection, "tenure", moves.len() * 2).await?;
    let statement = query_as::<_, (i32, i64)>(MOVE).bind(rows::to_json(moves)).bind(numbers);
    rows::flip_list(rows(connection, statement).await?)
}

async fn journal(
    connection: &mut SqliteConnection,
    plan: &TakeOver,
    moves: &[SlotMove],
    flip: &[(Slot, Tenure)],
) -> Result<ChangeId, OriginError> {
    let insert = query_as::<_, (i64,)>(JOURNAL)
        .bind(plan.action.as_str())
        .bind(rows::epoch_number(plan.from_epoch))
        .bind(rows::epoch_number(plan.from_epoch.next()))
        .bind(rows::to_json(&rows::sorted(plan.members.clone())))
        .bind(rows::to_json(moves))
        .bind(rows::to_json(flip))
        .bind(plan.operator.as_str());
    let Some((id,)) = row(connection, insert).await? else {
        return Err(OriginError::Corrupt("an insert without its row".to_owned()));
    };
    rows(connection, query_as::<_, (i64,)>(NEW_EPOCH).bind(id)).await?;
    Ok(ChangeId(id))
}
