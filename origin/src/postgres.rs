//! The database layer on Postgres. Statements: one file per noun below; connections and failures: `session`.

mod change_journal;
mod controller;
mod entries;
mod failure;
mod flip;
mod leases;
mod listen;
mod ring_ledger;
mod schema;
mod session;
mod slots;
mod take_over;
mod write_together;

use std::sync::Arc;
use std::time::Duration;

use sqlx::{ConnectOptions, PgConnection};

use crate::OpenOptions;
use crate::database_url::postgres_options;
use crate::error::OriginError;
use crate::pool::{Pool, PoolSettings};
use listen::Listener;
pub(crate) use write_together::may_put_together;

/// What the client waits for an answer beyond the server's own statement timeout: a clean "cancelled" beats a cut line.
const ANSWER_GRACE: Duration = Duration::from_millis(500);
/// The server ends a transaction whose client has gone silent for this long, with its locks.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(5);
/// Every change of the ring is announced on this channel (protocol B7: a hint).
const CHANNEL: &str = "shardcache_ring";

/// Postgres behind [`crate::Origin`].
#[derive(Clone)]
pub struct PostgresOrigin {
    shared: Arc<Shared>,
}

struct Shared {
    pool: Arc<Pool<PgConnection>>,
    listener: Listener,
    /// What a statement may take, with its answer on the way.
    statement_limit: Duration,
}

impl std::fmt::Debug for PostgresOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PostgresOrigin")
    }
}

impl PostgresOrigin {
    /// Connects on first use.
    pub(crate) fn open(url: &str, options: OpenOptions) -> Result<Self, OriginError> {
        let millis = |duration: Duration| format!("{}ms", duration.as_millis().max(1));
        let connect = postgres_options(url)
            .map_err(|_| OriginError::Unreachable("the database URL is not valid"))?
            .application_name("shardcache")
            .options([
                ("statement_timeout", millis(options.statement_timeout)),
                ("idle_in_transaction_session_timeout", millis(IDLE_IN_TRANSACTION)),
            ])
            .disable_statement_logging();
        let listener = Listener::new(connect.clone());
        let pool = Pool::new(PoolSettings {
            options: connect,
            greeting: session::greet,
            explain: failure::of_statement,
            max_connections: options.max_connections,
            acquire_timeout: options.acquire_timeout,
        });
        let statement_limit = options.statement_timeout + ANSWER_GRACE;
        Ok(Self { shared: Arc::new(Shared { pool, listener, statement_limit }) })
    }

    /// Closes all connections.
    pub(crate) async fn close(&self) {
        self.shared.listener.stop();
        self.shared.pool.close().await;
    }

    /// Waits for the database's hint that the ring has changed.
    pub(crate) async fn ring_changed(&self) {
        self.shared.listener.changed().await;
    }

    /// Callers waiting for a connection.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.pool.waiting()
    }
}
