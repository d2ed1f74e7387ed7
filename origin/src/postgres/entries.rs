//! Entries on Postgres: reads in fresh autocommit snapshots, and the fenced write statement (protocol W3).

use placement::{EntryKey, UserId};
use sqlx::query_as;
use wire::entries::{EntryInfo, Version};

use super::PostgresOrigin;
use crate::entries::{FencedWrite, ListRequest, Precondition, StoredEntry, WriteAnswer, WriteKind};
use crate::error::{OriginError, WriteError};
use crate::listing::{cut_at_prefix, list_start};
use crate::pool::Lane;
use crate::rows;
use crate::verdict::Demand;

const READ_ONE: &str =
    "SELECT value, content_type, cache_control, version FROM entries WHERE usr = $1::text AND key = $2::text";

/// LATERAL with OFFSET 0: one look into the index for each name, whatever the planner thinks of the table's size. The arrays
/// as sub-selects: lists whose length it sees are planned anew each time.
const READ_MANY: &str = "SELECT asked.place, e.value, e.content_type, e.cache_control, e.version \
    FROM unnest((SELECT $1::text[]), (SELECT $2::text[])) WITH ORDINALITY AS asked (usr, key, place) CROSS JOIN LATERAL \
    (SELECT value, content_type, cache_control, version FROM entries WHERE usr = asked.usr AND key = asked.key OFFSET 0) AS e";

const LIST: &str = "SELECT key, version, octet_length(value)::bigint, content_type, updated_ms FROM entries \
    WHERE usr = $1::text AND key >= $2::text AND key <> $3::text ORDER BY key LIMIT $4::bigint";

/// The rows of a write's answer: whether the fence held, the version written or deleted, whether the entry is new, and,
/// when nothing was written, the present version as of the statement's snapshot.
type WriteTuple = (bool, Option<i64>, Option<bool>, Option<i64>);

/// The fence and the answer, around the part that differs. `FOR SHARE` and not `FOR KEY SHARE`: it must block the update of
/// the tenure. MATERIALIZED: locked once, whoever reads it. `xmax = 0` only on a row that the statement inserted.
macro_rules! fenced {
    ($write:expr) => {
        concat!(
            "WITH g AS MATERIALIZED (SELECT slot FROM slots WHERE slot = $1::int AND tenure = $2::bigint FOR SHARE), w AS (",
            $write,
            ") SELECT EXISTS (SELECT 1 FROM g), (SELECT version FROM w), (SELECT created FROM w), ",
            "CASE WHEN EXISTS (SELECT 1 FROM w) THEN NULL ",
            "ELSE (SELECT version FROM entries WHERE usr = $3::text AND key = $4::text) END"
        )
    };
}

/// What a PUT does, from where a fence `g` and its values are: a new row, or all of the old one but its name.
macro_rules! upsert {
    ($values:literal) => {
        concat!(
            "INSERT INTO entries AS e (usr, key, value, content_type, cache_control, version, updated_ms) SELECT ",
            $values,
            " ON CONFLICT (usr, key) DO UPDATE SET value = EXCLUDED.value, content_type = EXCLUDED.content_type, \
              cache_control = EXCLUDED.cache_control, version = nextval('version_seq'), updated_ms = EXCLUDED.updated_ms "
        )
    };
}

pub(super) use upsert;

/// Creates, or replaces what `$8..$10` allow.
const PUT: &str = fenced!(concat!(
    upsert!(
        "$3::text, $4::text, $8::bytea, $9::text, $10::text, nextval('version_seq'), \
         floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM g"
    ),
    "WHERE ($5::bool OR e.version = ANY($6::bigint[])) = $7::bool RETURNING e.version, (e.xmax = 0) AS created"
));

/// The same, whatever is there: one row if the fence held, else none. Nothing else has to be asked for, and most writes are such.
const PUT_ANYWAY: &str = concat!(
    "WITH g AS MATERIALIZED (SELECT slot FROM slots WHERE slot = $1::int AND tenure = $2::bigint FOR SHARE) ",
    upsert!(
        "$3::text, $4::text, $5::bytea, $6::text, $7::text, nextval('version_seq'), \
         floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM g"
    ),
    "RETURNING e.version, (e.xmax = 0)"
);

/// Replaces only: an `If-Match` must not create, not even when the entry is deleted meanwhile.
const REPLACE: &str = fenced!(
    "UPDATE entries AS e SET value = $8::bytea, content_type = $9::text, cache_control = $10::text, \
            version = nextval('version_seq'), updated_ms = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint \
     FROM g WHERE e.usr = $3::text AND e.key = $4::text AND ($5::bool OR e.version = ANY($6::bigint[])) = $7::bool \
     RETURNING e.version, false AS created"
);

const DELETE: &str = fenced!(
    "DELETE FROM entries AS e USING g WHERE e.usr = $3::text AND e.key = $4::text \
       AND ($5::bool OR e.version = ANY($6::bigint[])) = $7::bool \
     RETURNING e.version, false AS created"
);

impl PostgresOrigin {
    /// See [`crate::Origin::read_entry`].
    pub(crate) async fn read_entry(&self, user: &UserId, key: &EntryKey) -> Result<Option<StoredEntry>, OriginError> {
        let make = || query_as(READ_ONE).bind(user.as_str()).bind(key.as_str());
        Ok(self.read(Lane::Entries, make).await?.pop().map(rows::entry))
    }

    /// See [`crate::Origin::read_entries`].
    pub(crate) async fn read_entries(
        &self,
        names: &[(&UserId, &EntryKey)],
    ) -> Result<Vec<Option<StoredEntry>>, OriginError> {
        let (users, keys): (Vec<_>, Vec<_>) = names.iter().map(|(user, key)| (user.as_str(), key.as_str())).unzip();
        let make = || query_as(READ_MANY).bind(&users).bind(&keys);
        // PostgreSQL counts from 1.
        rows::at_their_places(names.len(), 1, self.read(Lane::Entries, make).await?)
    }

    /// See [`crate::Origin::list_entries`].
    pub(crate) async fn list_entries(
        &self,
        user: &UserId,
        request: &ListRequest,
    ) -> Result<Vec<EntryInfo>, OriginError> {
        let Some(start) = list_start(request) else { return Ok(Vec::new()) };
        let limit = i64::from(request.limit);
        let make = || query_as(LIST).bind(user.as_str()).bind(&start.from).bind(&start.except).bind(limit);
        let page = self.read(Lane::Entries, make).await?.into_iter().map(rows::entry_info).collect();
        Ok(cut_at_prefix(page, &request.prefix))
    }

    /// See [`crate::Origin::write_entry`].
    pub(crate) async fn write_entry(&self, write: &FencedWrite) -> Result<WriteAnswer, WriteError> {
        if let (WriteKind::Put { value, content_type, cache_control }, Precondition::None) =
            (&write.kind, &write.precondition)
        {
            return self.put_anyway(write, value, content_type, cache_control.as_deref()).await;
        }
        let demand = Demand::of(&write.precondition);
        let sql = match &write.kind {
            WriteKind::Put { .. } if demand.absent_ok => PUT,
            WriteKind::Put { .. } => REPLACE,
            WriteKind::Delete => DELETE,
        };
        let mut statement = query_as::<_, WriteTuple>(sql)
            .bind(rows::slot_number(write.slot))
            .bind(write.tenure.0)
            .bind(write.user.as_str())
            .bind(write.key.as_str())
            .bind(demand.all)
            .bind(&demand.versions)
            .bind(demand.wanted);
        if let WriteKind::Put { value, content_type, cache_control } = &write.kind {
            statement = statement.bind(&value[..]).bind(content_type).bind(cache_control);
        }
        let mut session = self.session(Lane::Entries).await.map_err(WriteError::NotExecuted)?;
        Ok(answer(write, &demand, session.write_row(sql, statement).await?))
    }

    async fn put_anyway(
        &self,
        write: &FencedWrite,
        value: &[u8],
        content_type: &str,
        cache_control: Option<&str>,
    ) -> Result<WriteAnswer, WriteError> {
        let statement = query_as::<_, (i64, bool)>(PUT_ANYWAY)
            .bind(rows::slot_number(write.slot))
            .bind(write.tenure.0)
            .bind(write.user.as_str())
            .bind(write.key.as_str())
            .bind(value)
            .bind(content_type)
            .bind(cache_control);
        let mut session = self.session(Lane::Entries).await.map_err(WriteError::NotExecuted)?;
        Ok(match session.write_rows(PUT_ANYWAY, statement).await?.pop() {
            None => WriteAnswer::Fenced,
            Some((version, true)) => WriteAnswer::Created(Version(version)),
            Some((version, false)) => WriteAnswer::Replaced(Version(version)),
        })
    }
}

/// Reads the numbers of a write's answer.
fn answer(write: &FencedWrite, demand: &Demand, (owned, version, created, present): WriteTuple) -> WriteAnswer {
    if !owned {
        return WriteAnswer::Fenced;
    }
    match (&write.kind, version.map(Version)) {
        (WriteKind::Put { .. }, Some(version)) if created == Some(true) => WriteAnswer::Created(version),
        (WriteKind::Put { .. }, Some(version)) => WriteAnswer::Replaced(version),
        (WriteKind::Delete, Some(version)) => WriteAnswer::Deleted(version),
        (WriteKind::Put { .. }, None) => WriteAnswer::PreconditionFailed(present.map(Version)),
        (WriteKind::Delete, None) => match present {
            // Seen in the snapshot and deleted by another before we came to it.
            Some(_) if write.precondition == Precondition::None => WriteAnswer::Absent,
            None if demand.absent_ok => WriteAnswer::Absent,
            present => WriteAnswer::PreconditionFailed(present.map(Version)),
        },
    }
}
