//! Statements inside a writing transaction. The transaction is IMMEDIATE: it has the file's only write lock from its start,
//! so what it reads stays true until it commits. This is the fence of protocol B6.

use std::time::{Duration, Instant};

use sqlx::query::QueryAs;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{FromRow, Sqlite, SqliteConnection, query_as};

use super::failure;
use crate::error::OriginError;

/// How often to look whether another process has let go of the write lock: SQLite's own handler looks ten times a second
/// at most and can miss a busy writer's gaps for seconds.
const BEGIN_RETRY: Duration = Duration::from_millis(2);

/// A statement with its arguments.
pub(super) type Statement<'q, T> = QueryAs<'q, Sqlite, T, SqliteArguments>;

/// How a control transaction ends.
pub(super) enum End<T> {
    /// Keep what was done.
    Commit(T),
    /// Undo it.
    Rollback(T),
}

/// Takes the write lock, waiting at most `patience`.
pub(super) async fn begin(connection: &mut SqliteConnection, patience: Duration) -> Result<(), OriginError> {
    let began = Instant::now();
    loop {
        match sqlx::query("BEGIN IMMEDIATE").execute(&mut *connection).await {
            Ok(_) => return Ok(()),
            Err(error) if failure::is_busy(&error) && began.elapsed() < patience => {}
            Err(error) => return Err(failure::of_statement(&error)),
        }
        tokio::time::sleep(BEGIN_RETRY).await;
    }
}

/// Whether the transaction is certainly undone. "No transaction is active" also says so, but then the connection is
/// replaced all the same.
pub(super) async fn rollback(connection: &mut SqliteConnection) -> bool {
    sqlx::query("ROLLBACK").execute(connection).await.is_ok()
}

pub(super) async fn rows<T>(
    connection: &mut SqliteConnection,
    statement: Statement<'_, T>,
) -> Result<Vec<T>, OriginError>
where
    T: for<'r> FromRow<'r, SqliteRow> + Send + Unpin,
{
    statement.fetch_all(connection).await.map_err(|error| failure::of_statement(&error))
}

/// At most one row.
pub(super) async fn row<T>(
    connection: &mut SqliteConnection,
    statement: Statement<'_, T>,
) -> Result<Option<T>, OriginError>
where
    T: for<'r> FromRow<'r, SqliteRow> + Send + Unpin,
{
    Ok(rows(connection, statement).await?.pop())
}

/// Takes `count` numbers of a sequence; the answer is the number before the first.
pub(super) async fn take_numbers(
    connection: &mut SqliteConnection,
    sequence: &'static str,
    count: usize,
) -> Result<i64, OriginError> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let take = query_as::<_, (i64,)>("UPDATE sequences SET value = value + ?2 WHERE name = ?1 RETURNING value");
    match row(connection, take.bind(sequence).bind(count)).await? {
        Some((last,)) => Ok(last - count),
        None => Err(OriginError::Corrupt("a sequence is missing".to_owned())),
    }
}
