//! Nodes and leases on SQLite, by the clock of the machine that all processes share (protocol section 4).

use std::time::Duration;

use placement::{Incarnation, NodeId, Pool, Weight};
use sqlx::{SqliteConnection, query_as};

use super::SqliteOrigin;
use super::transaction::{End, row, rows, take_numbers};
use crate::error::OriginError;
use crate::leases::{ClaimOutcome, NodeRow};
use crate::pool::Lane;
use crate::rows::{self, NodeTuple, SlotTuple};

const ADDRESS_OWNER: &str = "SELECT id FROM nodes WHERE addr = ?1 AND id <> ?2 \
    AND lease_until > CAST(unixepoch('subsec') * 1000 AS INTEGER) ORDER BY id LIMIT 1";

/// Registers, or takes over from an incarnation whose lease is over (L4).
const CLAIM: &str = "INSERT INTO nodes (id, addr, weight, pool, incarnation, lease_until) \
    VALUES (?1, ?2, ?3, ?5, 1, CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?4) \
    ON CONFLICT (id) DO UPDATE SET addr = excluded.addr, weight = excluded.weight, pool = excluded.pool, \
        incarnation = nodes.incarnation + 1, lease_until = excluded.lease_until, leaving = 0 \
    WHERE nodes.lease_until < CAST(unixepoch('subsec') * 1000 AS INTEGER) RETURNING incarnation";

const LEASE_LEFT: &str =
    "SELECT max(0, lease_until - CAST(unixepoch('subsec') * 1000 AS INTEGER)) FROM nodes WHERE id = ?1";

const OWNED: &str = "SELECT count(*) FROM slots WHERE owner = ?1";

/// `?2`: the number before the first; two per slot.
const REGAIN: &str = "UPDATE slots SET tenure = ?2 + 2 * w.n - 1, gained = ?2 + 2 * w.n \
    FROM (SELECT slot, row_number() OVER (ORDER BY slot) AS n FROM slots WHERE owner = ?1) AS w \
    WHERE slots.slot = w.slot RETURNING slot, owner, tenure, gained, l2space, pinned, pool";

const RENEW: &str = "UPDATE nodes SET lease_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?3 \
    WHERE id = ?1 AND incarnation = ?2 RETURNING 1";

const RELEASE: &str = "UPDATE nodes SET lease_until = 0 WHERE id = ?1 AND incarnation = ?2 RETURNING 1";

const LEAVE: &str = "UPDATE nodes SET leaving = 1 WHERE id = ?1 AND incarnation = ?2 RETURNING 1";

pub(super) const FENCE: &str = "UPDATE nodes SET incarnation = incarnation + 1 WHERE id = ?1 AND incarnation = ?2 \
    AND lease_until < CAST(unixepoch('subsec') * 1000 AS INTEGER) RETURNING 1";

pub(super) const NODES: &str = "SELECT id, addr, weight, incarnation, \
    max(0, lease_until - CAST(unixepoch('subsec') * 1000 AS INTEGER)), leaving, pool FROM nodes ORDER BY id";

/// A time as the statements take it.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl SqliteOrigin {
    /// See [`crate::Origin::claim_node`].
    pub(crate) async fn claim_node(
        &self,
        id: &NodeId,
        address: &str,
        weight: Weight,
        pool: &Pool,
        lease_ttl: Duration,
    ) -> Result<ClaimOutcome, OriginError> {
        let claiming =
            Claim { id: id.clone(), address: address.to_owned(), weight, pool: pool.clone(), ttl: millis(lease_ttl) };
        self.shared.writer.transact(move |connection| Box::pin(claim(connection, claiming))).await
    }

    /// See [`crate::Origin::renew_lease`].
    pub(crate) async fn renew_lease(
        &self,
        id: &NodeId,
        incarnation: Incarnation,
        lease_ttl: Duration,
    ) -> Result<bool, OriginError> {
        self.update_node(RENEW, id, incarnation, Some(millis(lease_ttl))).await
    }

    /// See [`crate::Origin::release_lease`].
    pub(crate) async fn release_lease(&self, id: &NodeId, incarnation: Incarnation) -> Result<bool, OriginError> {
        self.update_node(RELEASE, id, incarnation, None).await
    }

    /// See [`crate::Origin::fence_node`].
    pub(crate) async fn fence_node(&self, id: &NodeId, seen: Incarnation) -> Result<bool, OriginError> {
        self.update_node(FENCE, id, seen, None).await
    }

    /// See [`crate::Origin::announce_leaving`].
    pub(crate) async fn announce_leaving(&self, id: &NodeId, incarnation: Incarnation) -> Result<bool, OriginError> {
        self.update_node(LEAVE, id, incarnation, None).await
    }

    /// One update of a node's row while it has this incarnation; whether it hit.
    async fn update_node(
        &self,
        sql: &'static str,
        id: &NodeId,
        incarnation: Incarnation,
        ttl: Option<i64>,
    ) -> Result<bool, OriginError> {
        let id = id.clone();
        self.shared
            .writer
            .transact(move |connection| {
                Box::pin(async move {
                    let mut statement = query_as::<_, (i64,)>(sql).bind(id.as_str()).bind(incarnation.0);
                    if let Some(ttl) = ttl {
                        statement = statement.bind(ttl);
                    }
                    Ok(End::Commit(row(connection, statement).await?.is_some()))
                })
            })
            .await
    }

    /// See [`crate::Origin::nodes`].
    pub(crate) async fn nodes(&self) -> Result<Vec<NodeRow>, OriginError> {
        rows::node_rows(self.read(Lane::Control, query_as::<_, NodeTuple>(NODES)).await?)
    }
}

/// What a process says of the node that it wants to be.
struct Claim {
    id: NodeId,
    address: String,
    weight: Weight,
    pool: Pool,
    ttl: i64,
}

async fn claim(connection: &mut SqliteConnection, claiming: Claim) -> Result<End<ClaimOutcome>, OriginError> {
    let Claim { id, address, weight, pool, ttl } = claiming;
    let owner = query_as::<_, (String,)>(ADDRESS_OWNER).bind(address.as_str()).bind(id.as_str());
    if let Some((by,)) = row(connection, owner).await? {
        return Ok(End::Rollback(ClaimOutcome::AddressTaken { by: rows::node_id(by)? }));
    }
    let claim = query_as::<_, (i64,)>(CLAIM)
        .bind(id.as_str())
        .bind(address.as_str())
        .bind(i64::from(weight.get()))
        .bind(ttl)
        .bind(pool.as_str());
    let Some((incarnation,)) = row(connection, claim).await? else {
        let left = row(connection, query_as::<_, (i64,)>(LEASE_LEFT).bind(id.as_str())).await?;
        let left_ms = left.map_or(0, |(left,)| u64::try_from(left).unwrap_or(0));
        return Ok(End::Rollback(ClaimOutcome::LeaseHeld { left_ms }));
    };
    let owned = row(connection, query_as::<_, (i64,)>(OWNED).bind(id.as_str())).await?.map_or(0, |(count,)| count);
    let numbers = take_numbers(connection, "tenure", usize::try_from(owned).unwrap_or(0) * 2).await?;
    let regained = rows(connection, query_as::<_, SlotTuple>(REGAIN).bind(id.as_str()).bind(numbers)).await?;
    let slots = rows::slot_rows(regained)?;
    Ok(End::Commit(ClaimOutcome::Claimed { incarnation: Incarnation(incarnation), slots }))
}
