//! Nodes and leases on Postgres, by the database's clock (protocol section 4).

use std::time::Duration;

use placement::{Incarnation, NodeId, Pool, Weight};
use sqlx::query_as;

use super::PostgresOrigin;
use super::session::Session;
use crate::error::OriginError;
use crate::leases::{ClaimOutcome, NodeRow};
use crate::pool::Lane;
use crate::rows::{self, NodeTuple};

/// Claims come one at a time, so that two nodes cannot take one address side by side.
const LOCK_CLAIMS: &str = "SELECT pg_advisory_xact_lock(hashtextextended('shardcache.claims', 0))";

const ADDRESS_OWNER: &str = "SELECT id FROM nodes WHERE addr = $1::text AND id <> $2::text \
    AND lease_until > clock_timestamp() ORDER BY id LIMIT 1";

/// Registers, or takes over from an incarnation whose lease is over (L4).
const CLAIM: &str = "INSERT INTO nodes AS n (id, addr, weight, pool, incarnation, lease_until) \
    VALUES ($1::text, $2::text, $3::int, $5::text, 1, clock_timestamp() + $4::bigint * interval '1 millisecond') \
    ON CONFLICT (id) DO UPDATE SET addr = EXCLUDED.addr, weight = EXCLUDED.weight, pool = EXCLUDED.pool, \
        incarnation = n.incarnation + 1, lease_until = EXCLUDED.lease_until, leaving = false \
    WHERE n.lease_until < clock_timestamp() RETURNING incarnation";

const LEASE_LEFT: &str = "SELECT greatest(0, ceil(extract(epoch FROM lease_until - clock_timestamp()) * 1000))::bigint \
    FROM nodes WHERE id = $1::text AND lease_until > clock_timestamp()";

/// In slot order, as everywhere (see `slots`).
const REGAIN: &str = "WITH locked AS MATERIALIZED (SELECT slot FROM slots WHERE owner = $1::text ORDER BY slot FOR UPDATE) \
    UPDATE slots s SET tenure = nextval('tenure_seq'), gained = nextval('tenure_seq') FROM locked l \
    WHERE s.slot = l.slot AND s.owner = $1::text RETURNING s.slot, s.owner, s.tenure, s.gained, s.l2space, s.pinned, s.pool";

/// L1. One autocommit statement, so that now() is not before the caller's clock reading.
const RENEW: &str = "UPDATE nodes SET lease_until = now() + $3::bigint * interval '1 millisecond' \
    WHERE id = $1::text AND incarnation = $2::bigint RETURNING true";

const RELEASE: &str =
    "UPDATE nodes SET lease_until = '-infinity' WHERE id = $1::text AND incarnation = $2::bigint RETURNING true";

const LEAVE: &str = "UPDATE nodes SET leaving = true WHERE id = $1::text AND incarnation = $2::bigint RETURNING true";

pub(super) const FENCE: &str = "UPDATE nodes SET incarnation = incarnation + 1 WHERE id = $1::text AND incarnation = $2::bigint \
    AND lease_until < clock_timestamp() RETURNING true";

pub(super) const NODES: &str = "SELECT id, addr, weight, incarnation, CASE WHEN lease_until > clock_timestamp() \
    THEN ceil(extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint ELSE 0 END, leaving, pool \
    FROM nodes ORDER BY id";

/// A time as the statements take it.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl PostgresOrigin {
    /// See [`crate::Origin::claim_node`].
    pub(crate) async fn claim_node(
        &self,
        id: &NodeId,
        address: &str,
        weight: Weight,
        pool: &Pool,
        lease_ttl: Duration,
    ) -> Result<ClaimOutcome, OriginError> {
        let mut tx = self.begin(Lane::Control, "BEGIN").await?;
        tx.command(LOCK_CLAIMS).await?;
        let owner = tx.row::<(String,)>(query_as(ADDRESS_OWNER).bind(address).bind(id.as_str())).await?;
        if let Some((by,)) = owner {
            tx.rollback().await?;
            return Ok(ClaimOutcome::AddressTaken { by: rows::node_id(by)? });
        }
        let claim = query_as::<_, (i64,)>(CLAIM)
            .bind(id.as_str())
            .bind(address)
            .bind(i32::try_from(weight.get()).unwrap_or(i32::MAX))
            .bind(millis(lease_ttl))
            .bind(pool.as_str());
        let Some((incarnation,)) = tx.row(claim).await? else {
            let left = tx.row::<(i64,)>(query_as(LEASE_LEFT).bind(id.as_str())).await?;
            tx.rollback().await?;
            let left_ms = left.map_or(0, |(left,)| u64::try_from(left).unwrap_or(0));
            return Ok(ClaimOutcome::LeaseHeld { left_ms });
        };
        let slots = rows::slot_rows(tx.rows(query_as(REGAIN).bind(id.as_str())).await?)?;
        announce(&mut tx).await?;
        tx.commit().await?;
        Ok(ClaimOutcome::Claimed { incarnation: Incarnation(incarnation), slots })
    }

    /// See [`crate::Origin::renew_lease`].
    pub(crate) async fn renew_lease(
        &self,
        id: &NodeId,
        incarnation: Incarnation,
        lease_ttl: Duration,
    ) -> Result<bool, OriginError> {
        let statement = query_as::<_, (bool,)>(RENEW).bind(id.as_str()).bind(incarnation.0).bind(millis(lease_ttl));
        Ok(!self.rows(Lane::Lease, statement).await?.is_empty())
    }

    /// See [`crate::Origin::release_lease`].
    pub(crate) async fn release_lease(&self, id: &NodeId, incarnation: Incarnation) -> Result<bool, OriginError> {
        let statement = query_as::<_, (bool,)>(RELEASE).bind(id.as_str()).bind(incarnation.0);
        Ok(!self.rows(Lane::Lease, statement).await?.is_empty())
    }

    /// See [`crate::Origin::fence_node`].
    pub(crate) async fn fence_node(&self, id: &NodeId, seen: Incarnation) -> Result<bool, OriginError> {
        let statement = query_as::<_, (bool,)>(FENCE).bind(id.as_str()).bind(seen.0);
        Ok(!self.rows(Lane::Control, statement).await?.is_empty())
    }

    /// See [`crate::Origin::announce_leaving`].
    pub(crate) async fn announce_leaving(&self, id: &NodeId, incarnation: Incarnation) -> Result<bool, OriginError> {
        let mut tx = self.begin(Lane::Control, "BEGIN").await?;
        let statement = query_as::<_, (bool,)>(LEAVE).bind(id.as_str()).bind(incarnation.0);
        let hit = tx.row(statement).await?.is_some();
        if hit {
            announce(&mut tx).await?;
        }
        tx.commit().await?;
        Ok(hit)
    }

    /// See [`crate::Origin::nodes`].
    pub(crate) async fn nodes(&self) -> Result<Vec<NodeRow>, OriginError> {
        rows::node_rows(self.read(Lane::Control, || query_as::<_, NodeTuple>(NODES)).await?)
    }
}

/// Tells the listeners, when and if the transaction commits.
pub(super) async fn announce(tx: &mut Session) -> Result<(), OriginError> {
    tx.command("NOTIFY shardcache_ring").await
}
