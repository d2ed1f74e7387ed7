//! The database layer on an SQLite file: WAL, one writer with group commit, a few readers (protocol B6).

mod change_journal;
mod controller;
mod entries;
mod failure;
mod flip;
mod leases;
mod reader;
mod ring_ledger;
mod schema;
mod slots;
mod take_over;
mod transaction;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection};

use crate::OpenOptions;
use crate::error::OriginError;
use crate::pool::{Pool, PoolSettings};
use writer::Writer;

/// Readers beyond this many would only fight for the page cache.
const READERS_MAX: u32 = 8;
/// SQLite's own patience with a lock; ours, which looks far more often, is on top of it (see `transaction`).
const BUSY_TIMEOUT: Duration = Duration::from_millis(20);
/// What the client waits for a statement beyond its time-out.
const ANSWER_GRACE: Duration = Duration::from_millis(500);

/// SQLite behind [`crate::Origin`].
#[derive(Clone)]
pub struct SqliteOrigin {
    shared: Arc<Shared>,
}

struct Shared {
    readers: Arc<Pool<SqliteConnection>>,
    writer: Writer,
    options: SqliteConnectOptions,
    statement_limit: Duration,
}

impl std::fmt::Debug for SqliteOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SqliteOrigin")
    }
}

impl SqliteOrigin {
    /// Opens the file on first use; only [`crate::Origin::migrate`] makes it.
    pub(crate) fn open(path: &Path, limits: OpenOptions) -> Result<Self, OriginError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            .disable_statement_logging();
        let statement_limit = limits.statement_timeout + ANSWER_GRACE;
        let readers = Pool::new(PoolSettings {
            // Not opened read-only: a reader may be the one that has to rebuild the shared index of the write-ahead log.
            options: options.clone().pragma("query_only", "ON"),
            greeting: reader::greet,
            explain: failure::of_statement,
            max_connections: limits.max_connections.min(READERS_MAX),
            acquire_timeout: limits.acquire_timeout,
        });
        let writer = Writer::new(options.clone(), limits.acquire_timeout, statement_limit);
        Ok(Self { shared: Arc::new(Shared { readers, writer, options, statement_limit }) })
    }

    /// Finishes the writes under way and closes all connections.
    pub(crate) async fn close(&self) {
        self.shared.writer.close().await;
        self.shared.readers.close().await;
    }

    /// No hints on SQLite: callers poll.
    pub(crate) async fn ring_changed(&self) {
        std::future::pending::<()>().await;
    }

    /// Jobs waiting for the writer, and callers for a reader.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.writer.waiting() + self.shared.readers.waiting()
    }
}
