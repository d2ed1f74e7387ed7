//! Slot rows on Postgres: the table read (protocol T1) and RENEW (protocol R3).

use placement::{Incarnation, NodeId, Slot, Tenure};
use sqlx::query_as;

use super::PostgresOrigin;
use crate::error::OriginError;
use crate::pool::Lane;
use crate::rows::{self, SlotColumns};
use crate::slots::{L2SpaceChange, SlotRow};

/// The whole table as one row of lists: a ring change has every node read it while writes wait, and thousands of rows cost
/// it ten times as much. NULLs when there are no slots, no row when the node is fenced: the two must not look alike.
const READ: &str = "SELECT array_agg(s.slot) FILTER (WHERE s.slot IS NOT NULL), array_agg(s.owner) FILTER (WHERE s.slot IS NOT NULL), \
        array_agg(s.tenure) FILTER (WHERE s.slot IS NOT NULL), array_agg(s.gained) FILTER (WHERE s.slot IS NOT NULL), \
        array_agg(s.l2space) FILTER (WHERE s.slot IS NOT NULL), array_agg(s.pinned) FILTER (WHERE s.slot IS NOT NULL), \
        array_agg(s.pool) FILTER (WHERE s.slot IS NOT NULL) \
    FROM nodes n LEFT JOIN slots s ON true WHERE n.id = $1::text AND n.incarnation = $2::bigint HAVING count(*) > 0";

/// Rows are locked in slot order, so that two renewals, or one and a flip, cannot deadlock. The lock waits for the writers
/// that hold the row FOR SHARE and sees the row they leave; whoever changed a slot meanwhile gave it another tenure.
const RENEW: &str = "WITH wanted AS (SELECT * FROM unnest($2::int[], $3::bigint[]) AS t (slot, tenure)), \
    locked AS MATERIALIZED (SELECT s.slot, s.tenure FROM slots s WHERE s.owner = $1::text AND s.slot = ANY($2::int[]) \
        ORDER BY s.slot FOR UPDATE) \
    UPDATE slots s SET tenure = nextval('tenure_seq'), l2space = CASE $4::text \
        WHEN 'keep' THEN s.l2space WHEN 'new' THEN $5::text || '/' || nextval('l2space_seq') END \
    FROM locked l JOIN wanted w ON w.slot = l.slot AND w.tenure = l.tenure \
    WHERE s.slot = l.slot AND s.owner = $1::text AND s.tenure = w.tenure \
    RETURNING s.slot, s.owner, s.tenure, s.gained, s.l2space, s.pinned, s.pool";

impl PostgresOrigin {
    /// See [`crate::Origin::read_slots`].
    pub(crate) async fn read_slots(
        &self,
        me: &NodeId,
        incarnation: Incarnation,
    ) -> Result<Option<Vec<SlotRow>>, OriginError> {
        let make = || query_as::<_, SlotColumns>(READ).bind(me.as_str()).bind(incarnation.0);
        self.read(Lane::Control, make).await?.pop().map(rows::slot_columns).transpose()
    }

    /// See [`crate::Origin::renew_tenure`].
    pub(crate) async fn renew_tenure(
        &self,
        me: &NodeId,
        slots: &[(Slot, Tenure)],
        l2_space: &L2SpaceChange,
    ) -> Result<Vec<SlotRow>, OriginError> {
        let numbers: Vec<i32> = slots.iter().map(|(slot, _)| rows::slot_number(*slot)).collect();
        let tenures: Vec<i64> = slots.iter().map(|(_, tenure)| tenure.0).collect();
        let (how, identity) = match l2_space {
            L2SpaceChange::Keep => ("keep", None),
            L2SpaceChange::Clear => ("clear", None),
            L2SpaceChange::New { identity } => ("new", Some(identity.as_str())),
        };
        let statement = query_as(RENEW).bind(me.as_str()).bind(&numbers).bind(&tenures).bind(how).bind(identity);
        rows::slot_rows(self.rows(Lane::Control, statement).await?)
    }
}
