//! Ring epochs and the ring as a whole on SQLite.

use placement::{Epoch, Ring, Slot};
use sqlx::{SqliteConnection, query_as};

use super::SqliteOrigin;
use super::change_journal::ACTIVE;
use super::leases::NODES;
use super::transaction::{End, row, rows, take_numbers};
use crate::error::OriginError;
use crate::pool::Lane;
use crate::ring_ledger::{EpochRow, InitOutcome, RingDigest, RingState};
use crate::rows::{self, ChangeRecord, DigestTuple, EpochTuple, NodeTuple, SlotTuple};

const DIGEST: &str = "SELECT coalesce((SELECT max(epoch) FROM ring_epochs), 0), coalesce((SELECT sum(gained) FROM slots), 0), \
    coalesce((SELECT sum(incarnation) FROM nodes), 0), c.id, c.phase \
    FROM (SELECT 1) AS one LEFT JOIN (SELECT id, phase FROM ring_changes ORDER BY id DESC LIMIT 1) AS c ON true";

const SLOTS: &str = "SELECT slot, owner, tenure, gained, l2space, pinned, pool FROM slots";

const EPOCHS: &str = "SELECT epoch, members, change_id, created_ms FROM ring_epochs ORDER BY epoch DESC LIMIT ?1";

const UNREGISTERED: &str =
    "SELECT value FROM json_each(?1) WHERE value NOT IN (SELECT id FROM nodes) ORDER BY value LIMIT 1";

/// `?1`: the owners in slot order; `?2`: the number before the first.
const FIRST_SLOTS: &str = "INSERT INTO slots (slot, owner, tenure, gained) \
    SELECT key, value, ?2 + 2 * key + 1, ?2 + 2 * key + 2 FROM json_each(?1) WHERE true RETURNING 1";

const FIRST_EPOCH: &str = "INSERT INTO ring_epochs (epoch, members, created_ms) \
    VALUES (1, ?1, CAST(unixepoch('subsec') * 1000 AS INTEGER)) RETURNING 1";

impl SqliteOrigin {
    /// See [`crate::Origin::ring_digest`].
    pub(crate) async fn ring_digest(&self) -> Result<RingDigest, OriginError> {
        let found = self.read(Lane::Control, query_as::<_, DigestTuple>(DIGEST)).await?.pop();
        found.map_or_else(|| Ok(RingDigest::default()), rows::digest)
    }

    /// See [`crate::Origin::ring_state`]. The first read fixes the snapshot of the transaction.
    pub(crate) async fn ring_state(&self) -> Result<Option<RingState>, OriginError> {
        let mut reader = self.shared.readers.acquire(Lane::Control).await?;
        let command = |sql: &'static str| query_as::<_, (i64,)>(sql);
        self.read_on(&mut reader, command("BEGIN")).await?;
        let digest = self.read_on(&mut reader, query_as::<_, DigestTuple>(DIGEST)).await?.pop();
        let epoch = self.read_on(&mut reader, query_as::<_, EpochTuple>(EPOCHS).bind(1_i64)).await?.pop();
        let slots = self.read_on(&mut reader, query_as::<_, SlotTuple>(SLOTS)).await?;
        let nodes = self.read_on(&mut reader, query_as::<_, NodeTuple>(NODES)).await?;
        let change = self.read_on(&mut reader, query_as::<_, ChangeRecord>(ACTIVE)).await?.pop();
        self.read_on(&mut reader, command("COMMIT")).await?;
        reader.reusable();
        let Some(epoch) = epoch.map(rows::epoch_row).transpose()? else { return Ok(None) };
        Ok(Some(RingState {
            digest: digest.map_or_else(|| Ok(RingDigest::default()), rows::digest)?,
            members: epoch.members,
            slots: rows::whole_slot_table(slots)?,
            nodes: rows::node_rows(nodes)?,
            change: change.map(rows::change_row).transpose()?,
        }))
    }

    /// See [`crate::Origin::init_ring`].
    pub(crate) async fn init_ring(&self, ring: &Ring) -> Result<InitOutcome, OriginError> {
        let ring = ring.clone();
        self.shared.writer.transact(move |connection| Box::pin(init(connection, ring))).await
    }

    /// See [`crate::Origin::epochs`].
    pub(crate) async fn epochs(&self, limit: u32) -> Result<Vec<EpochRow>, OriginError> {
        let statement = query_as::<_, EpochTuple>(EPOCHS).bind(i64::from(limit));
        self.read(Lane::Control, statement).await?.into_iter().map(rows::epoch_row).collect()
    }
}

pub(super) async fn newest_epoch(connection: &mut SqliteConnection) -> Result<Option<EpochRow>, OriginError> {
    row(connection, query_as::<_, EpochTuple>(EPOCHS).bind(1_i64)).await?.map(rows::epoch_row).transpose()
}

pub(super) async fn epoch_number(connection: &mut SqliteConnection) -> Result<Epoch, OriginError> {
    Ok(newest_epoch(connection).await?.map_or(Epoch(0), |newest| newest.epoch))
}

async fn init(connection: &mut SqliteConnection, ring: Ring) -> Result<End<InitOutcome>, OriginError> {
    if let Some(newest) = newest_epoch(connection).await? {
        return Ok(End::Rollback(InitOutcome::Exists { epoch: newest.epoch, members: newest.members }));
    }
    let names: Vec<&str> = ring.members().iter().map(|member| member.id.as_str()).collect();
    let unknown = query_as::<_, (String,)>(UNREGISTERED).bind(rows::to_json(&names));
    if let Some((name,)) = row(connection, unknown).await? {
        return Err(OriginError::Refused { code: format!("node {name} is not registered") });
    }
    let owners: Vec<&str> = Slot::all().map(|slot| ring.owner(slot).as_str()).collect();
    let numbers = take_numbers(connection, "tenure", owners.len() * 2).await?;
    let slots = query_as::<_, (i64,)>(FIRST_SLOTS).bind(rows::to_json(&owners)).bind(numbers);
    rows(connection, slots).await?;
    let epoch = query_as::<_, (i64,)>(FIRST_EPOCH).bind(rows::to_json(ring.members()));
    rows(connection, epoch).await?;
    Ok(End::Commit(InitOutcome::Created))
}
