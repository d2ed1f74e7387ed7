//! Ring epochs and the ring as a whole on Postgres.

use placement::{Ring, Slot};
use sqlx::query_as;

use super::PostgresOrigin;
use super::change_journal::ACTIVE;
use super::leases::{NODES, announce};
use super::session::Session;
use crate::error::OriginError;
use crate::pool::Lane;
use crate::ring_ledger::{EpochRow, InitOutcome, RingDigest, RingState};
use crate::rows::{self, DigestTuple, EpochTuple};

/// Whatever moves the ring from one epoch to the next, or starts a change from one, does it alone.
pub(super) const LOCK_RING: &str = "SELECT pg_advisory_xact_lock(hashtextextended('shardcache.ring', 0))";

const DIGEST: &str = "SELECT coalesce((SELECT max(epoch) FROM ring_epochs), 0)::bigint, \
    coalesce((SELECT sum(gained) FROM slots), 0)::bigint, coalesce((SELECT sum(incarnation) FROM nodes), 0)::bigint, \
    c.id, c.phase FROM (SELECT 1) AS one LEFT JOIN (SELECT id, phase FROM ring_changes ORDER BY id DESC LIMIT 1) AS c ON true";

/// One row of lists, as for nodes (see `slots`).
const SLOTS: &str = "SELECT array_agg(slot), array_agg(owner), array_agg(tenure), array_agg(gained), array_agg(l2space), array_agg(pinned), \
    array_agg(pool) FROM slots";

const EPOCHS: &str =
    "SELECT epoch, members, change_id, created_ms FROM ring_epochs ORDER BY epoch DESC LIMIT $1::bigint";

const UNREGISTERED: &str = "SELECT m.id FROM unnest($1::text[]) AS m (id) LEFT JOIN nodes n ON n.id = m.id \
    WHERE n.id IS NULL ORDER BY m.id LIMIT 1";

const FIRST_SLOTS: &str = "INSERT INTO slots (slot, owner, tenure, gained) \
    SELECT t.slot, t.owner, nextval('tenure_seq'), nextval('tenure_seq') FROM unnest($1::int[], $2::text[]) AS t (slot, owner) \
    RETURNING true";

const FIRST_EPOCH: &str = "INSERT INTO ring_epochs (epoch, members, created_ms) \
    VALUES (1, $1::text, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) RETURNING true";

impl PostgresOrigin {
    /// See [`crate::Origin::ring_digest`].
    pub(crate) async fn ring_digest(&self) -> Result<RingDigest, OriginError> {
        let found = self.read(Lane::Control, || query_as::<_, DigestTuple>(DIGEST)).await?.pop();
        found.map_or_else(|| Ok(RingDigest::default()), rows::digest)
    }

    /// See [`crate::Origin::ring_state`].
    pub(crate) async fn ring_state(&self) -> Result<Option<RingState>, OriginError> {
        match self.ring_state_once().await {
            // A pure read, so once more in case a pooled connection had died.
            Err(OriginError::Unreachable(_)) => self.ring_state_once().await,
            outcome => outcome,
        }
    }

    async fn ring_state_once(&self) -> Result<Option<RingState>, OriginError> {
        let mut tx = self.begin(Lane::Control, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let digest = tx.row::<DigestTuple>(query_as(DIGEST)).await?;
        let Some(epoch) = newest_epoch(&mut tx).await? else {
            tx.commit().await?;
            return Ok(None);
        };
        let slots = tx.row(query_as(SLOTS)).await?.map(rows::slot_columns).transpose()?;
        let nodes = tx.rows(query_as(NODES)).await?;
        let change = tx.row(query_as(ACTIVE)).await?;
        tx.commit().await?;
        Ok(Some(RingState {
            digest: digest.map_or_else(|| Ok(RingDigest::default()), rows::digest)?,
            members: epoch.members,
            slots: rows::whole(slots.unwrap_or_default())?,
            nodes: rows::node_rows(nodes)?,
            change: change.map(rows::change_row).transpose()?,
        }))
    }

    /// See [`crate::Origin::init_ring`].
    pub(crate) async fn init_ring(&self, ring: &Ring) -> Result<InitOutcome, OriginError> {
        let mut tx = self.begin(Lane::Control, "BEGIN").await?;
        tx.command(LOCK_RING).await?;
        if let Some(newest) = newest_epoch(&mut tx).await? {
            tx.rollback().await?;
            return Ok(InitOutcome::Exists { epoch: newest.epoch, members: newest.members });
        }
        let names: Vec<&str> = ring.members().iter().map(|member| member.id.as_str()).collect();
        let unknown = tx.row::<(String,)>(query_as(UNREGISTERED).bind(&names)).await?;
        if let Some((name,)) = unknown {
            tx.rollback().await?;
            return Err(OriginError::Refused { code: format!("node {name} is not registered") });
        }
        let numbers: Vec<i32> = Slot::all().map(rows::slot_number).collect();
        let owners: Vec<&str> = Slot::all().map(|slot| ring.owner(slot).as_str()).collect();
        tx.rows::<(bool,)>(query_as(FIRST_SLOTS).bind(&numbers).bind(&owners)).await?;
        tx.rows::<(bool,)>(query_as(FIRST_EPOCH).bind(rows::to_json(ring.members()))).await?;
        announce(&mut tx).await?;
        tx.commit().await?;
        Ok(InitOutcome::Created)
    }

    /// See [`crate::Origin::epochs`].
    pub(crate) async fn epochs(&self, limit: u32) -> Result<Vec<EpochRow>, OriginError> {
        let make = || query_as::<_, EpochTuple>(EPOCHS).bind(i64::from(limit));
        self.read(Lane::Control, make).await?.into_iter().map(rows::epoch_row).collect()
    }
}

pub(super) async fn newest_epoch(tx: &mut Session) -> Result<Option<EpochRow>, OriginError> {
    tx.row::<EpochTuple>(query_as(EPOCHS).bind(1_i64)).await?.map(rows::epoch_row).transpose()
}
