//! The failure controller's post on Postgres, by the database's clock. What it does to a dead node: `take_over`.

use std::time::Duration;

use sqlx::query_as;

use super::PostgresOrigin;
use super::leases::millis;
use crate::controller::{Control, ControllerRow, Term};
use crate::error::OriginError;
use crate::pool::Lane;
use crate::rows::{self, ControllerTuple};

/// A term that lasts is never taken, also not by a holder of the same name: that may be another process. The clock is read
/// again under the row's lock, since waiting for the lock may have used up the time.
const TAKE: &str = "INSERT INTO controller AS c (one, holder, term, until, note) \
    VALUES (true, $1::text, 1, clock_timestamp() + $2::bigint * interval '1 millisecond', '') \
    ON CONFLICT (one) DO UPDATE SET holder = EXCLUDED.holder, term = c.term + 1, \
        until = clock_timestamp() + $2::bigint * interval '1 millisecond', note = '' \
    WHERE c.until < clock_timestamp() RETURNING term";

/// A term that is over stays over.
const KEEP: &str = "UPDATE controller SET until = clock_timestamp() + $2::bigint * interval '1 millisecond', note = $3::text \
    WHERE term = $1::bigint AND until > clock_timestamp() RETURNING true";

const RELEASE: &str = "UPDATE controller SET until = '-infinity' WHERE term = $1::bigint RETURNING true";

const ROW: &str = "SELECT holder, term, CASE WHEN until > clock_timestamp() \
    THEN ceil(extract(epoch FROM until - clock_timestamp()) * 1000)::bigint ELSE 0 END, note FROM controller";

impl PostgresOrigin {
    /// See [`crate::Origin::take_control`].
    pub(crate) async fn take_control(&self, holder: &str, ttl: Duration) -> Result<Control, OriginError> {
        let mut tx = self.begin(Lane::Control, "BEGIN").await?;
        let taken = tx.row::<(i64,)>(query_as(TAKE).bind(holder).bind(millis(ttl))).await?;
        let held = match taken {
            Some(_) => None,
            None => tx.row::<ControllerTuple>(query_as(ROW)).await?.map(rows::controller_row),
        };
        tx.commit().await?;
        match (taken, held) {
            (Some((term,)), _) => Ok(Control::Ours(Term(term))),
            (None, Some(row)) => Ok(Control::Held { by: row.holder, left_ms: row.left_ms }),
            (None, None) => Err(OriginError::Corrupt("a controller's row that is there and is not".to_owned())),
        }
    }

    /// See [`crate::Origin::keep_control`].
    pub(crate) async fn keep_control(&self, term: Term, ttl: Duration, note: &str) -> Result<bool, OriginError> {
        let statement = query_as::<_, (bool,)>(KEEP).bind(term.0).bind(millis(ttl)).bind(note);
        Ok(!self.rows(Lane::Control, statement).await?.is_empty())
    }

    /// See [`crate::Origin::release_control`].
    pub(crate) async fn release_control(&self, term: Term) -> Result<bool, OriginError> {
        let statement = query_as::<_, (bool,)>(RELEASE).bind(term.0);
        Ok(!self.rows(Lane::Control, statement).await?.is_empty())
    }

    /// See [`crate::Origin::controller`].
    pub(crate) async fn controller(&self) -> Result<Option<ControllerRow>, OriginError> {
        let found = self.read(Lane::Control, || query_as::<_, ControllerTuple>(ROW)).await?.pop();
        Ok(found.map(rows::controller_row))
    }
}
