//! Reads on SQLite: each in a fresh autocommit snapshot, on one of a few query-only connections.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, SqliteConnection};

use super::transaction::Statement;
use super::{SqliteOrigin, failure};
use crate::error::OriginError;
use crate::pool::{Checkout, Lane};

/// Nothing to ask of a file just opened.
pub(super) fn greet(_connection: &mut SqliteConnection) -> BoxFuture<'_, Result<(), OriginError>> {
    std::future::ready(Ok(())).boxed()
}

impl SqliteOrigin {
    /// One statement.
    pub(super) async fn read<T>(&self, lane: Lane, statement: Statement<'_, T>) -> Result<Vec<T>, OriginError>
    where
        T: for<'r> FromRow<'r, SqliteRow> + Send + Unpin,
    {
        let mut reader = self.shared.readers.acquire(lane).await?;
        let rows = self.read_on(&mut reader, statement).await?;
        reader.reusable();
        Ok(rows)
    }

    /// One statement of several; the reader is not reusable before the caller says so.
    pub(super) async fn read_on<T>(
        &self,
        reader: &mut Checkout<SqliteConnection>,
        statement: Statement<'_, T>,
    ) -> Result<Vec<T>, OriginError>
    where
        T: for<'r> FromRow<'r, SqliteRow> + Send + Unpin,
    {
        match tokio::time::timeout(self.shared.statement_limit, statement.fetch_all(reader.start())).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => Err(failure::of_statement(&error)),
            Err(_) => Err(OriginError::Timeout),
        }
    }
}
