//! Slot rows on SQLite: the table read (protocol T1) and RENEW (protocol R3).

use placement::{Incarnation, NodeId, Slot, Tenure};
use sqlx::{SqliteConnection, query_as};

use super::SqliteOrigin;
use super::transaction::{End, rows, take_numbers};
use crate::error::OriginError;
use crate::pool::Lane;
use crate::rows::{self, SlotTuple};
use crate::slots::{L2SpaceChange, SlotRow};

/// One row of NULLs when the node has no slots, none at all when it is fenced: the two must not look alike.
const READ: &str = "SELECT s.slot, s.owner, s.tenure, s.gained, s.l2space, s.pinned, s.pool FROM nodes n LEFT JOIN slots s ON true \
    WHERE n.id = ?1 AND n.incarnation = ?2";

/// `?2`: [[slot, tenure], …]; `?3` and `?4`: the numbers before the first new tenure and L2 space.
const RENEW: &str = "UPDATE slots SET tenure = ?3 + 1 + w.n, l2space = CASE ?5 \
        WHEN 'keep' THEN l2space WHEN 'new' THEN ?6 || '/' || (?4 + 1 + w.n) END \
    FROM (SELECT j.key AS n, j.value ->> 0 AS slot, j.value ->> 1 AS tenure FROM json_each(?2) AS j) AS w \
    WHERE slots.slot = w.slot AND slots.tenure = w.tenure AND slots.owner = ?1 \
    RETURNING slot, owner, tenure, gained, l2space, pinned, pool";

type MaybeSlotTuple =
    (Option<i32>, Option<String>, Option<i64>, Option<i64>, Option<String>, Option<String>, Option<String>);

impl SqliteOrigin {
    /// See [`crate::Origin::read_slots`].
    pub(crate) async fn read_slots(
        &self,
        me: &NodeId,
        incarnation: Incarnation,
    ) -> Result<Option<Vec<SlotRow>>, OriginError> {
        let statement = query_as::<_, MaybeSlotTuple>(READ).bind(me.as_str()).bind(incarnation.0);
        let found = self.read(Lane::Control, statement).await?;
        if found.is_empty() {
            return Ok(None);
        }
        let whole =
            |row: MaybeSlotTuple| -> Option<SlotTuple> { Some((row.0?, row.1?, row.2?, row.3?, row.4, row.5, row.6)) };
        rows::slot_rows(found.into_iter().filter_map(whole).collect()).map(Some)
    }

    /// See [`crate::Origin::renew_tenure`].
    pub(crate) async fn renew_tenure(
        &self,
        me: &NodeId,
        slots: &[(Slot, Tenure)],
        l2_space: &L2SpaceChange,
    ) -> Result<Vec<SlotRow>, OriginError> {
        let (me, slots, l2_space) = (me.clone(), slots.to_vec(), l2_space.clone());
        self.shared.writer.transact(move |connection| Box::pin(renew(connection, me, slots, l2_space))).await
    }
}

async fn renew(
    connection: &mut SqliteConnection,
    me: NodeId,
    slots: Vec<(Slot, Tenure)>,
    l2_space: L2SpaceChange,
) -> Result<End<Vec<SlotRow>>, OriginError> {
    let tenures = take_numbers(connection, "tenure", slots.len()).await?;
    let (how, identity, spaces) = match l2_space {
        L2SpaceChange::Keep => ("keep", None, 0),
        L2SpaceChange::Clear => ("clear", None, 0),
        L2SpaceChange::New { identity } => {
            ("new", Some(identity), take_numbers(connection, "l2space", slots.len()).await?)
        }
    };
    let statement = query_as::<_, SlotTuple>(RENEW)
        .bind(me.as_str())
        .bind(rows::to_json(&slots))
        .bind(tenures)
        .bind(spaces)
        .bind(how)
        .bind(identity);
    let renewed = rows(connection, statement).await?;
    Ok(End::Commit(rows::slot_rows(renewed)?))
}
