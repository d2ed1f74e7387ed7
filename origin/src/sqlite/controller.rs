//! The failure controller's post on SQLite, by the machine's clock. What it does to a dead node: `take_over`.

use std::time::Duration;

use sqlx::{SqliteConnection, query_as};

use super::SqliteOrigin;
use super::leases::millis;
use super::transaction::{End, row};
use crate::controller::{Control, ControllerRow, Term};
use crate::error::OriginError;
use crate::pool::Lane;
use crate::rows::{self, ControllerTuple};

/// A term that lasts is never taken, also not by a holder of the same name: that may be another process.
const TAKE: &str = "INSERT INTO controller (one, holder, term, until, note) \
    VALUES (1, ?1, 1, CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?2, '') \
    ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, term = controller.term + 1, \
        until = excluded.until, note = '' \
    WHERE controller.until < CAST(unixepoch('subsec') * 1000 AS INTEGER) RETURNING term";

/// A term that is over stays over.
const KEEP: &str = "UPDATE controller SET until = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?2, note = ?3 \
    WHERE term = ?1 AND until > CAST(unixepoch('subsec') * 1000 AS INTEGER) RETURNING 1";

const RELEASE: &str = "UPDATE controller SET until = 0 WHERE term = ?1 RETURNING 1";

const ROW: &str =
    "SELECT holder, term, max(0, until - CAST(unixepoch('subsec') * 1000 AS INTEGER)), note FROM controller";

impl SqliteOrigin {
    /// See [`crate::Origin::take_control`].
    pub(crate) async fn take_control(&self, holder: &str, ttl: Duration) -> Result<Control, OriginError> {
        let (holder, ttl) = (holder.to_owned(), millis(ttl));
        self.shared.writer.transact(move |connection| Box::pin(take(connection, holder, ttl))).await
    }

    /// See [`crate::Origin::keep_control`].
    pub(crate) async fn keep_control(&self, term: Term, ttl: Duration, note: &str) -> Result<bool, OriginError> {
        let (note, ttl) = (note.to_owned(), millis(ttl));
        self.shared
            .writer
            .transact(move |connection| {
                Box::pin(async move {
                    let statement = query_as::<_, (i64,)>(KEEP).bind(term.0).bind(ttl).bind(note);
                    Ok(End::Commit(row(connection, statement).await?.is_some()))
                })
            })
            .await
    }

    /// See [`crate::Origin::release_control`].
    pub(crate) async fn release_control(&self, term: Term) -> Result<bool, OriginError> {
        self.shared
            .writer
            .transact(move |connection| {
                Box::pin(async move {
                    let statement = query_as::<_, (i64,)>(RELEASE).bind(term.0);
                    Ok(End::Commit(row(connection, statement).await?.is_some()))
                })
            })
            .await
    }

    /// See [`crate::Origin::controller`].
    pub(crate) async fn controller(&self) -> Result<Option<ControllerRow>, OriginError> {
        let found = self.read(Lane::Control, query_as::<_, ControllerTuple>(ROW)).await?.pop();
        Ok(found.map(rows::controller_row))
    }
}

async fn take(connection: &mut SqliteConnection, holder: String, ttl: i64) -> Result<End<Control>, OriginError> {
    let statement = query_as::<_, (i64,)>(TAKE).bind(holder).bind(ttl);
    if let Some((term,)) = row(connection, statement).await? {
        return Ok(End::Commit(Control::Ours(Term(term))));
    }
    let held = row(connection, query_as::<_, ControllerTuple>(ROW)).await?.map(rows::controller_row);
    match held {
        Some(row) => Ok(End::Rollback(Control::Held { by: row.holder, left_ms: row.left_ms })),
        None => Err(OriginError::Corrupt("a controller's row that is there and is not".to_owned())),
    }
}
