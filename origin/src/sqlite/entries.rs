//! Entries on SQLite. The fenced write itself is in `writer::batch`.

use placement::{EntryKey, UserId};
use sqlx::query_as;
use wire::entries::EntryInfo;

use super::SqliteOrigin;
use crate::entries::{FencedWrite, ListRequest, StoredEntry, WriteAnswer};
use crate::error::{OriginError, WriteError};
use crate::listing::{cut_at_prefix, list_start};
use crate::pool::Lane;
use crate::rows;

const READ_ONE: &str = "SELECT value, content_type, cache_control, version FROM entries WHERE usr = ?1 AND key = ?2";

/// CROSS JOIN: SQLite then looks each name up in the index, and never the other way round.
const READ_MANY: &str = "SELECT asked.key, e.value, e.content_type, e.cache_control, e.version \
    FROM json_each(?1) AS asked CROSS JOIN entries AS e WHERE e.usr = asked.value ->> 0 AND e.key = asked.value ->> 1";

const LIST: &str = "SELECT key, version, length(value), content_type, updated_ms FROM entries \
    WHERE usr = ?1 AND key >= ?2 AND key <> ?3 ORDER BY key LIMIT ?4";

impl SqliteOrigin {
    /// See [`crate::Origin::read_entry`].
    pub(crate) async fn read_entry(&self, user: &UserId, key: &EntryKey) -> Result<Option<StoredEntry>, OriginError> {
        let statement = query_as(READ_ONE).bind(user.as_str()).bind(key.as_str());
        Ok(self.read(Lane::Entries, statement).await?.pop().map(rows::entry))
    }

    /// See [`crate::Origin::read_entries`].
    pub(crate) async fn read_entries(
        &self,
        names: &[(&UserId, &EntryKey)],
    ) -> Result<Vec<Option<StoredEntry>>, OriginError> {
        let pairs: Vec<_> = names.iter().map(|(user, key)| [user.as_str(), key.as_str()]).collect();
        let statement = query_as(READ_MANY).bind(rows::to_json(&pairs));
        // `json_each` counts from 0.
        rows::at_their_places(names.len(), 0, self.read(Lane::Entries, statement).await?)
    }

    /// See [`crate::Origin::list_entries`].
    pub(crate) async fn list_entries(
        &self,
        user: &UserId,
        request: &ListRequest,
    ) -> Result<Vec<EntryInfo>, OriginError> {
        let Some(start) = list_start(request) else { return Ok(Vec::new()) };
        let statement =
            query_as(LIST).bind(user.as_str()).bind(start.from).bind(start.except).bind(i64::from(request.limit));
        let page = self.read(Lane::Entries, statement).await?.into_iter().map(rows::entry_info).collect();
        Ok(cut_at_prefix(page, &request.prefix))
    }

    /// See [`crate::Origin::write_entry`].
    pub(crate) async fn write_entry(&self, write: &FencedWrite) -> Result<WriteAnswer, WriteError> {
        self.shared.writer.write(write.clone()).await
    }
}
