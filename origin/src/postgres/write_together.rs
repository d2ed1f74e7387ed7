//! Many fenced writes in one statement (protocol W3): one round trip and one commit for those that ask for nothing but a new value.
//!
//! Upholds I1 for each write by itself: its slot's row is locked as by the statement for one write, and it is written only if
//! the tenure read from the locked row is its own. They commit together, and have an unknown outcome together.

use std::collections::HashMap;

use sqlx::query_as;
use wire::entries::Version;

use super::PostgresOrigin;
use super::entries::upsert;
use crate::entries::{FencedWrite, Precondition, WriteAnswer, WriteKind};
use crate::error::WriteError;
use crate::pool::Lane;
use crate::rows;

/// A larger value is written by a statement of its own: there a round trip is the least of it, and the others do not wait.
const VALUE_MAX: usize = 16 << 10;

/// Each array as a sub-select: a list whose length the planner sees is planned anew each time, which takes longer than to carry
/// it out. SKIP LOCKED: a slot whose tenure is being changed just now holds up nobody but the writes of its own, which go alone; and
/// a statement that waits for no slot can be in no deadlock over them. The locked row is the newest version of it, so that
/// the tenure compared is the one in force until we commit.
const PUT_MANY: &str = concat!(
    "WITH g AS MATERIALIZED (SELECT slot, tenure FROM slots WHERE slot = ANY((SELECT $1::int[])::int[]) FOR SHARE SKIP LOCKED) ",
    upsert!(
        "a.usr, a.key, a.value, a.content_type, a.cache_control, nextval('version_seq'), \
         floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint \
         FROM unnest((SELECT $1::int[]), (SELECT $2::bigint[]), (SELECT $3::text[]), (SELECT $4::text[]), (SELECT $5::bytea[]), \
              (SELECT $6::text[]), (SELECT $7::text[])) AS a (slot, tenure, usr, key, value, content_type, cache_control) \
         JOIN g ON g.slot = a.slot AND g.tenure = a.tenure"
    ),
    "RETURNING e.usr, e.key, e.version, (e.xmax = 0)"
);

/// `usr, key, version, created`: what was written.
type WrittenTuple = (String, String, i64, bool);

/// Whether it asks for nothing but a new value, of a size that may share a statement.
pub(crate) fn may_put_together(write: &FencedWrite) -> bool {
    let small = matches!(&write.kind, WriteKind::Put { value, .. } if value.len() <= VALUE_MAX);
    small && write.precondition == Precondition::None
}

impl PostgresOrigin {
    /// See [`crate::Origin::put_together`].
    pub(crate) async fn put_together(&self, writes: &[&FencedWrite]) -> Result<Vec<Option<WriteAnswer>>, WriteError> {
        let puts = || {
            writes.iter().filter_map(|write| match &write.kind {
                WriteKind::Put { value, content_type, cache_control } => Some((value, content_type, cache_control)),
                WriteKind::Delete => None,
            })
        };
        let statement = query_as::<_, WrittenTuple>(PUT_MANY)
            .bind(writes.iter().map(|write| rows::slot_number(write.slot)).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.tenure.0).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.user.as_str()).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.key.as_str()).collect::<Vec<_>>())
            .bind(puts().map(|(value, _, _)| &value[..]).collect::<Vec<_>>())
            .bind(puts().map(|(_, content_type, _)| content_type.as_str()).collect::<Vec<_>>())
            .bind(puts().map(|(_, _, cache_control)| cache_control.as_deref()).collect::<Vec<_>>());
        let mut session = self.session(Lane::Entries).await.map_err(WriteError::NotExecuted)?;
        let written = session.write_rows(PUT_MANY, statement).await?;
        let answer =
            |version, created| if created { WriteAnswer::Created(version) } else { WriteAnswer::Replaced(version) };
        let of_row = |(user, key, version, created): &WrittenTuple| {
            ((user.clone(), key.clone()), answer(Version(*version), *created))
        };
        let mut answers: HashMap<_, _> = written.iter().map(of_row).collect();
        let name = |write: &FencedWrite| (write.user.as_str().to_owned(), write.key.as_str().to_owned());
        Ok(writes.iter().map(|write| answers.remove(&name(write))).collect())
    }
}
