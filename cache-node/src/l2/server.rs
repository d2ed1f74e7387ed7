//! One Redis server: a session with it while it is well, and the breaker that ends the session when it is not.
//!
//! Upholds R1 (one identity per session) and A4 (nothing is sent twice: the connection never reconnects by itself).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, FromRedisValue, RedisError, ServerErrorKind};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::config::RedisUrl;
use crate::limits;
use crate::metrics::Metrics;
use crate::old_bugs::{OldBug, is_back};

/// A connection and the identity of the server it leads to.
pub(super) struct Session {
    /// `<run_id>/<master_replid>`, as read on this very connection.
    pub(super) identity: Arc<str>,
    connection: MultiplexedConnection,
}

impl Session {
    fn has_replid(&self, replid: &str) -> bool {
        self.identity.rsplit_once('/').is_some_and(|(_, ours)| ours == replid)
    }
}

pub(super) struct Server {
    client: redis::Client,
    session: ArcSwapOption<Session>,
    failures_in_a_row: AtomicU32,
    ended: Notify,
    metrics: Arc<Metrics>,
}

impl Server {
    pub(super) fn new(url: &RedisUrl, metrics: Arc<Metrics>) -> Self {
        Self {
            client: url.client(),
            session: ArcSwapOption::empty(),
            failures_in_a_row: AtomicU32::new(0),
            ended: Notify::new(),
            metrics,
        }
    }

    pub(super) fn session(&self) -> Option<Arc<Session>> {
        self.session.load_full()
    }

    /// One command, once, within its deadline. A time-out counts as an [`ErrorKind::Io`] error.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        session: &Arc<Session>,
        command: &redis::Cmd,
    ) -> Result<T, RedisError> {
        let connection = session.connection.clone();
        #[cfg(feature = "old-bugs")]
        let connection = crate::old_bugs::OutOfStep { connection, session: Arc::as_ptr(session).addr() };
        let mut connection = connection;
        let answer = tokio::time::timeout(limits::L2_COMMAND, command.query_async(&mut connection)).await;
        let answer = answer.unwrap_or_else(|_| Err(RedisError::from((ErrorKind::Io, "no answer in time"))));
        match &answer {
            Ok(_) => self.failures_in_a_row.store(0, Ordering::Relaxed),
            Err(error) => {
                self.metrics.l2_errors.inc();
                let failures = self.failures_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
                // A server that has become a replica may come back as a primary with older data: not to be missed.
                let demoted = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly);
                let dropped = error.is_connection_dropped() && !is_back(OldBug::LateReply);
                if failures >= limits::L2_BREAKER_FAILURES || demoted || dropped {
                    self.end_session(session);
                }
            }
        }
        answer
    }

    /// Whether the server still is what the session began with; if not, the session ends. A server that is made a replica and a
    /// primary again between two commands keeps its clients, and may have older values by then; but its identity is new.
    pub(super) async fn is_still_itself(&self, session: &Arc<Session>) -> bool {
        if is_back(OldBug::LateReply) {
            return true;
        }
        let mut info = redis::cmd("INFO");
        info.arg("replication");
        let same = match self.run::<redis::InfoDict>(session, &info).await {
            Ok(info) => info.get::<String>("master_replid").is_some_and(|replid| session.has_replid(&replid)),
            Err(_) => false,
        };
        if !same {
            self.end_session(session);
        }
        same
    }

    /// Ends this session, if it is still the current one.
    pub(super) fn end_session(&self, session: &Arc<Session>) {
        let current = self.session.load();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            self.session.compare_and_swap(&current, None);
            self.ended.notify_one();
        }
    }

    /// Forms a session, watches over it, forms the next: until stopped.
    pub(super) async fn keep_session(self: Arc<Self>, stop: CancellationToken) {
        let mut was_well = true;
        while !stop.is_cancelled() {
            match self.connect().await {
                Ok(session) => {
                    tracing::info!("L2 server is in use");
                    was_well = true;
                    let session = Arc::new(session);
                    self.failures_in_a_row.store(0, Ordering::Relaxed);
                    self.session.store(Some(Arc::clone(&session)));
                    self.watch_over(&session, &stop).await;
                    self.session.store(None);
                    wait_until_unused(session).await;
                }
                Err(error) => {
                    self.metrics.l2_probe_failures.inc();
                    if was_well {
                        tracing::warn!(kind = ?error.kind(), "L2 server is not usable; reads and writes go without it");
                        was_well = false;
                    }
                }
            }
            let _ = tokio::time::timeout(limits::L2_PROBE_EVERY, stop.cancelled()).await;
        }
    }

    /// Returns when the session has ended.
    async fn watch_over(&self, session: &Arc<Session>, stop: &CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.ended.notified() => {}
                () = tokio::time::sleep(limits::L2_PROBE_EVERY) => {
                    let _ = self.run::<()>(session, &probe()).await;
                }
            }
            if !self.session.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
                return;
            }
        }
    }

    /// Connects, checks that it is a primary that takes writes in time, and reads its identity.
    async fn connect(&self) -> Result<Session, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(limits::L2_CONNECT))
            .set_response_timeout(Some(limits::L2_CONNECT))
            .set_pipeline_buffer_size(4096);
        let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = bounded(limits::L2_CONNECT, connecting).await?;
        let mut info = redis::cmd("INFO");
        info.arg("server");
        let server: redis::InfoDict = bounded(limits::L2_COMMAND, info.query_async(&mut connection)).await?;
        let mut info = redis::cmd("INFO");
        info.arg("replication");
        let replication: redis::InfoDict = bounded(limits::L2_COMMAND, info.query_async(&mut connection)).await?;
        let field = |dict: &redis::InfoDict, name: &str| dict.get::<String>(name);
        if field(&replication, "role").as_deref() != Some("master") {
            return Err(RedisError::from((ErrorKind::Client, "not a primary")));
        }
        let (Some(run_id), Some(replid)) = (field(&server, "run_id"), field(&replication, "master_replid")) else {
            return Err(RedisError::from((ErrorKind::Client, "the server does not tell its identity")));
        };
        bounded(limits::L2_COMMAND, probe().query_async::<()>(&mut connection)).await?;
        Ok(Session { identity: format!("{run_id}/{replid}").into(), connection })
    }
}

/// A write, so that a full or read-only server does not count as well.
fn probe() -> redis::Cmd {
    let mut probe = redis::cmd("SET");
    probe.arg("shardcache:probe").arg("1").arg("PX").arg(1000);
    probe
}

/// R1: the next session is formed after all use of the old connection has ended.
async fn wait_until_unused(session: Arc<Session>) {
    let waiting = async {
        while Arc::strong_count(&session) > 1 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let _ = tokio::time::timeout(limits::L2_OLD_SESSION, waiting).await;
}

async fn bounded<T>(
    limit: std::time::Duration,
    answer: impl Future<Output = Result<T, RedisError>>,
) -> Result<T, RedisError> {
    tokio::time::timeout(limit, answer)
        .await
        .unwrap_or_else(|_| Err(RedisError::from((ErrorKind::Io, "no answer in time"))))
}
