//! One connection in use: every statement bounded in time, none sent twice, nothing reused that may still be under way.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::QueryAs;
use sqlx::{Executor, FromRow, PgConnection, Postgres, SqlSafeStr};

use super::PostgresOrigin;
use super::failure;
use crate::error::{OriginError, WriteError};
use crate::pool::{Checkout, Lane};

/// A statement with its arguments.
pub(super) type Statement<'q, T> = QueryAs<'q, Postgres, T, PgArguments>;

/// A connection in use.
pub(super) struct Session {
    checkout: Checkout<PgConnection>,
    in_transaction: bool,
    limit: Duration,
}

/// On every new connection: no reads from a standby, no commit that a crash can lose (protocol A1).
pub(super) fn greet(connection: &mut PgConnection) -> BoxFuture<'_, Result<(), OriginError>> {
    const SQL: &str = "SELECT pg_is_in_recovery(), CASE WHEN current_setting('synchronous_commit') = 'off' \
                       THEN set_config('synchronous_commit', 'on', false) END";
    async move {
        let (standby, _): (bool, Option<String>) =
            sqlx::query_as(SQL).fetch_one(connection).await.map_err(|error| failure::of_statement(&error))?;
        if standby { Err(OriginError::Unreachable("the server is a standby")) } else { Ok(()) }
    }
    .boxed()
}

impl PostgresOrigin {
    pub(super) async fn session(&self, lane: Lane) -> Result<Session, OriginError> {
        let checkout = self.shared.pool.acquire(lane).await?;
        Ok(Session { checkout, in_transaction: false, limit: self.shared.statement_limit })
    }

    /// One statement on a connection of its own.
    pub(super) async fn rows<T>(&self, lane: Lane, statement: Statement<'_, T>) -> Result<Vec<T>, OriginError>
    where
        T: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        self.session(lane).await?.rows(statement).await
    }

    /// A pure read: if a pooled connection turns out to be dead, it is read again, once, on another.
    pub(super) async fn read<'q, T>(
        &self,
        lane: Lane,
        make: impl Fn() -> Statement<'q, T>,
    ) -> Result<Vec<T>, OriginError>
    where
        T: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        let mut session = self.session(lane).await?;
        let answer = session.rows(make()).await;
        let reused = !session.checkout.is_fresh();
        drop(session);
        match answer {
            Err(OriginError::Unreachable(_)) if reused => self.session(lane).await?.rows(make()).await,
            answer => answer,
        }
    }

    /// A transaction; dropped before its commit, it is rolled back with its connection.
    pub(super) async fn begin(&self, lane: Lane, how: &'static str) -> Result<Session, OriginError> {
        let mut session = self.session(lane).await?;
        session.in_transaction = true;
        session.command(how).await?;
        Ok(session)
    }
}

impl Session {
    /// Runs a statement to the end of its answer, `ReadyForQuery` included: only then has an autocommit statement committed.
    pub(super) async fn rows<T>(&mut self, statement: Statement<'_, T>) -> Result<Vec<T>, OriginError>
    where
        T: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        let answer = tokio::time::timeout(self.limit, statement.fetch_all(self.checkout.start())).await;
        self.settle(answer)
    }

    /// At most one row.
    pub(super) async fn row<T>(&mut self, statement: Statement<'_, T>) -> Result<Option<T>, OriginError>
    where
        T: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        Ok(self.rows(statement).await?.pop())
    }

    /// A statement without arguments or rows.
    pub(super) async fn command(&mut self, sql: &'static str) -> Result<(), OriginError> {
        let answer = tokio::time::timeout(self.limit, sqlx::query(sql).execute(self.checkout.start())).await;
        self.settle(answer).map(|_| ())
    }

    /// Ends the transaction; an error leaves its outcome unknown.
    pub(super) async fn commit(mut self) -> Result<(), OriginError> {
        self.in_transaction = false;
        self.command("COMMIT").await
    }

    /// Undoes the transaction.
    pub(super) async fn rollback(mut self) -> Result<(), OriginError> {
        self.in_transaction = false;
        self.command("ROLLBACK").await
    }

    /// The one row of a write, told apart by what is known of its execution. Prepared first, so that a connection which
    /// died before it was used for this statement is found out while nothing has been sent.
    pub(super) async fn write_row<T>(&mut self, sql: &'static str, statement: Statement<'_, T>) -> Result<T, WriteError>
    where
        T: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        let row = self.write_rows(sql, statement).await?.pop();
        // It has one whatever it does; without it nobody knows what it has done.
        row.ok_or_else(|| WriteError::Unknown(OriginError::Corrupt("a write without an answer".to_owned())))
    }

    /// The rows of a write, as [`Session::write_row`].
    pub(super) async fn write_rows<T>(
        &mut self,
        sql: &'static str,
        statement: Statement<'_, T>,
    ) -> Result<Vec<T>, WriteError>
    where
        T: for<'r> FromRow<'r, PgRow> + Send + Unpin,
    {
        let prepared = tokio::time::timeout(self.limit, self.checkout.start().prepare(sql.into_sql_str())).await;
        self.settle(prepared).map_err(WriteError::NotExecuted)?;
        match tokio::time::timeout(self.limit, statement.fetch_all(self.checkout.start())).await {
            Err(_) => {
                self.checkout.broken();
                Err(WriteError::Unknown(OriginError::Timeout))
            }
            Ok(Err(error)) => {
                let why = failure::of_write(&error);
                self.settle::<Vec<T>>(Ok(Err(error))).map_err(|_| why)
            }
            Ok(Ok(rows)) => {
                self.checkout.reusable();
                Ok(rows)
            }
        }
    }

    /// Decides what becomes of the connection.
    fn settle<T>(
        &mut self,
        answer: Result<Result<T, sqlx::Error>, tokio::time::error::Elapsed>,
    ) -> Result<T, OriginError> {
        match answer {
            Ok(Ok(value)) => {
                if !self.in_transaction {
                    self.checkout.reusable();
                }
                Ok(value)
            }
            Ok(Err(error)) => {
                if !failure::connection_survives(&error) {
                    self.checkout.broken();
                } else if !self.in_transaction {
                    self.checkout.reusable();
                }
                Err(failure::of_statement(&error))
            }
            Err(_) => {
                self.checkout.broken();
                Err(OriginError::Timeout)
            }
        }
    }
}
