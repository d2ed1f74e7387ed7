//! Making the file and bringing its schema up to date, in one writing transaction whose lock only waits so long.

use std::time::Instant;

use sqlx::sqlite::SqliteJournalMode;
use sqlx::{ConnectOptions, Connection, Executor, SqliteConnection, query_as};

use super::{SqliteOrigin, failure};
use crate::error::OriginError;
use crate::schema::{LOCK_RETRY, LOCK_WAIT_LOUD, LOCK_WAIT_MAX, SQLITE, outstanding};

const VERSION_TABLE: &str =
    "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY, applied_ms INTEGER NOT NULL) STRICT";
const VERSION: &str = "SELECT coalesce(max(version), 0) FROM schema_version";
const RECORD: &str = "INSERT INTO schema_version (version, applied_ms) \
    VALUES (?1, CAST(unixepoch('subsec') * 1000 AS INTEGER)) RETURNING version";

impl SqliteOrigin {
    /// See [`crate::Origin::migrate`].
    pub(crate) async fn migrate(&self) -> Result<(), OriginError> {
        if let Some(directory) = self.shared.options.get_filename().parent() {
            let made = tokio::fs::create_dir_all(directory).await;
            made.map_err(|_| OriginError::Unreachable("the directory of the database file cannot be made"))?;
        }
        let began = Instant::now();
        let mut told = false;
        loop {
            match self.migrate_once().await {
                Err(OriginError::Timeout) => {}
                outcome => return outcome,
            }
            if began.elapsed() >= LOCK_WAIT_MAX {
                let message = "another process has held the database file's lock for 30 s".to_owned();
                return Err(OriginError::Schema(message));
            }
            if !told && began.elapsed() >= LOCK_WAIT_LOUD {
                told = true;
                let limit_s = LOCK_WAIT_MAX.as_secs();
                tracing::warn!(limit_s, "waiting for the database file's lock that another process holds");
            }
            tokio::time::sleep(LOCK_RETRY).await;
        }
    }

    /// Fails with [`OriginError::Timeout`] while another process is at it: nothing has happened then.
    async fn migrate_once(&self) -> Result<(), OriginError> {
        let options = self.shared.options.clone().create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
        let mut connection = options.connect().await.map_err(explain)?;
        let outcome = apply(&mut connection).await;
        connection.close().await.map_err(explain)?;
        outcome
    }
}

async fn apply(connection: &mut SqliteConnection) -> Result<(), OriginError> {
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await.map_err(explain)?;
    tx.execute(VERSION_TABLE).await.map_err(explain)?;
    let (version,): (i64,) = query_as(VERSION).fetch_one(&mut *tx).await.map_err(explain)?;
    for (number, sql) in outstanding(&SQLITE, version)? {
        tx.execute(sqlx::raw_sql(sql)).await.map_err(explain)?;
        let _: (i64,) = query_as(RECORD).bind(number).fetch_one(&mut *tx).await.map_err(explain)?;
        tracing::info!(version = number, "schema brought up to date");
    }
    tx.commit().await.map_err(explain)
}

fn explain(error: sqlx::Error) -> OriginError {
    failure::of_statement(&error)
}
