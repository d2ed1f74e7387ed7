//! Bringing the schema up to date on Postgres, under an advisory lock that only waits so long.

use std::time::{Duration, Instant};

use sqlx::postgres::PgArguments;
use sqlx::query::QueryAs;
use sqlx::{ConnectOptions, Connection, Executor, FromRow, PgConnection, Postgres};

use super::{PostgresOrigin, failure};
use crate::error::OriginError;
use crate::schema::{LOCK_RETRY, LOCK_WAIT_LOUD, LOCK_WAIT_MAX, POSTGRES, outstanding};

/// Of the session, so a crash releases it. The number is "shardcac" in ASCII, to be recognised in `pg_locks`.
const LOCK_KEY: i64 = 0x7368_6172_6463_6163;
/// What connecting or one small statement may take.
const STEP_LIMIT: Duration = Duration::from_secs(5);
/// What one migration may take.
const MIGRATION_LIMIT: Duration = Duration::from_secs(300);

const TRY_LOCK: &str = "SELECT pg_try_advisory_lock($1::bigint)";
const HOLDER: &str = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 \
    AND classid::bigint = ($1::bigint >> 32) AND objid::bigint = ($1::bigint & 4294967295) \
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) LIMIT 1";
const VERSION_TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_version (version bigint PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())";
const VERSION: &str = "SELECT coalesce(max(version), 0) FROM schema_version";
const RECORD: &str = "INSERT INTO schema_version (version) VALUES ($1::bigint) RETURNING version";

impl PostgresOrigin {
    /// See [`crate::Origin::migrate`]. On a connection of its own, which is closed at the end, and the lock with it.
    pub(crate) async fn migrate(&self) -> Result<(), OriginError> {
        let options = self.shared.pool.options().clone().options([("statement_timeout", "0")]);
        let mut connection = bounded(STEP_LIMIT, options.connect()).await?;
        let outcome = migrate_on(&mut connection).await;
        // The server notices a dropped connection as well; nothing hangs on the goodbye.
        let _ = tokio::time::timeout(STEP_LIMIT, connection.close()).await;
        outcome
    }
}

async fn migrate_on(connection: &mut PgConnection) -> Result<(), OriginError> {
    wait_for_lock(connection).await?;
    bounded(STEP_LIMIT, connection.execute(VERSION_TABLE)).await?;
    let (version,): (i64,) = one(connection, sqlx::query_as(VERSION)).await?;
    for (number, sql) in outstanding(&POSTGRES, version)? {
        let mut tx = bounded(STEP_LIMIT, connection.begin()).await?;
        bounded(MIGRATION_LIMIT, tx.execute(sqlx::raw_sql(sql))).await?;
        let _: (i64,) = one(&mut tx, sqlx::query_as(RECORD).bind(number)).await?;
        bounded(STEP_LIMIT, tx.commit()).await?;
        tracing::info!(version = number, "schema brought up to date");
    }
    Ok(())
}

async fn wait_for_lock(connection: &mut PgConnection) -> Result<(), OriginError> {
    let began = Instant::now();
    let mut told = false;
    loop {
        let (got,): (bool,) = one(connection, sqlx::query_as(TRY_LOCK).bind(LOCK_KEY)).await?;
        if got {
            return Ok(());
        }
        if began.elapsed() >= LOCK_WAIT_MAX {
            let message = "another process has held the schema lock (an advisory lock) for 30 s".to_owned();
            return Err(OriginError::Schema(message));
        }
        if !told && began.elapsed() >= LOCK_WAIT_LOUD {
            told = true;
            let holder = bounded(
                STEP_LIMIT,
                sqlx::query_as::<_, (i32,)>(HOLDER).bind(LOCK_KEY).fetch_optional(&mut *connection),
            );
            let pid = holder.await?.map(|(pid,)| pid);
            tracing::warn!(
                backend_pid = pid,
                limit_s = LOCK_WAIT_MAX.as_secs(),
                "waiting for the schema lock (advisory lock) that another process holds"
            );
        }
        tokio::time::sleep(LOCK_RETRY).await;
    }
}

async fn one<T>(connection: &mut PgConnection, query: QueryAs<'_, Postgres, T, PgArguments>) -> Result<T, OriginError>
where
    T: for<'r> FromRow<'r, sqlx::postgres::PgRow> + Send + Unpin,
{
    bounded(STEP_LIMIT, query.fetch_one(connection)).await
}

async fn bounded<T>(limit: Duration, step: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, OriginError> {
    match tokio::time::timeout(limit, step).await {
        Ok(outcome) => outcome.map_err(|error| failure::of_statement(&error)),
        Err(_) => Err(OriginError::Timeout),
    }
}
