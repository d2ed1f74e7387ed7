//! The versions of the schema, embedded; what the two databases share about bringing it up to date.

use std::time::Duration;

use crate::error::OriginError;

/// How long to wait for another process that is at it.
pub(crate) const LOCK_WAIT_MAX: Duration = Duration::from_secs(30);
/// How long to wait before saying so in the log.
pub(crate) const LOCK_WAIT_LOUD: Duration = Duration::from_secs(2);
/// How often to try for the lock.
pub(crate) const LOCK_RETRY: Duration = Duration::from_millis(100);

/// The migrations of Postgres: version 1 first.
pub(crate) const POSTGRES: [&str; 3] = [
    include_str!("../../migrations/postgres/0001_initial.sql"),
    include_str!("../../migrations/postgres/0002_controller.sql"),
    include_str!("../../migrations/postgres/0003_pools.sql"),
];
/// The migrations of SQLite: version 1 first.
pub(crate) const SQLITE: [&str; 3] = [
    include_str!("../../migrations/sqlite/0001_initial.sql"),
    include_str!("../../migrations/sqlite/0002_controller.sql"),
    include_str!("../../migrations/sqlite/0003_pools.sql"),
];

/// The migrations still to do, each with its version, for a schema at `version`.
pub(crate) fn outstanding(all: &'static [&'static str], version: i64) -> Result<Vec<(i64, &'static str)>, OriginError> {
    let known = all.len() as i64;
    if version > known || version < 0 {
        let message = format!("the database's schema is version {version}, this program knows up to {known}");
        return Err(OriginError::Schema(message));
    }
    Ok((1..).zip(all.iter().copied()).filter(|(number, _)| *number > version).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_newer_migrations_are_outstanding_and_a_newer_schema_is_refused() {
        let all: &[&str] = &["one", "two"];
        assert_eq!(outstanding(all, 0), Ok(vec![(1, "one"), (2, "two")]));
        assert_eq!(outstanding(all, 1), Ok(vec![(2, "two")]));
        assert_eq!(outstanding(all, 2), Ok(vec![]));
        assert!(matches!(outstanding(all, 3), Err(OriginError::Schema(_))));
    }
}
