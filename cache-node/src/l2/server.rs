//! One Redis server: a session with it while it is well, and the breaker that ends the session when it is not.
//!
//! Upholds R1 (one identity per session) and A4 (nothing is sent twice: the connection never reconnects by itself).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, ServerErrorKind, Value,
    from_redis_value,
};
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
    /// Whether an answer to `INFO replication` is that of the server that the session began with.
    fn is_with(&self, replication: &str) -> bool {
        let replid = replication.lines().find_map(|line| line.strip_prefix("master_replid:"));
        self.identity.rsplit_once('/').is_some_and(|(_, ours)| replid == Some(ours))
    }

    #[cfg(not(feature = "old-bugs"))]
    fn connection(&self) -> MultiplexedConnection {
        self.connection.clone()
    }

    #[cfg(feature = "old-bugs")]
    fn connection(self: &Arc<Self>) -> crate::old_bugs::OutOfStep<MultiplexedConnection> {
        crate::old_bugs::OutOfStep { connection: self.connection.clone(), session: Arc::as_ptr(self).addr() }
    }
}

/// What a key holds.
pub(super) type Held = Option<Vec<u8>>;

/// Why a command has no answer that is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// None in time, or a broken connection: it may be carried out at any later time, once, or never.
    NoAnswer,
    /// The server answered with an error.
    Refused,
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

    /// One command, once, within its deadline.
    pub(super) async fn run<T: FromRedisValue>(&self, session: &Arc<Session>, command: &Cmd) -> Result<T, Failure> {
        let mut connection = session.connection();
        let answer = bounded(limits::L2_COMMAND, command.query_async(&mut connection)).await;
        self.settle(session, answer.as_ref().err());
        answer.map_err(|error| if error.kind() == ErrorKind::Io { Failure::NoAnswer } else { Failure::Refused })
    }

    /// What the keys of these commands hold, in one pipeline, within the deadline of one command; `None` for what was refused, and
    /// for all of it unless the server still is what the session began with (R1).
    ///
    /// The server carries out the commands of a connection in their order, so that its identity, last of the pipeline, is read
    /// after every value. A server that has taken over another's data since the session began, or was made a primary, has another
    /// by then, though it may have kept its clients: if it has the same, no value was read from such a server.
    pub(super) async fn read(&self, session: &Arc<Session>, commands: Vec<Cmd>) -> Vec<Option<Held>> {
        let asked = commands.len();
        let mut pipeline = Pipeline::with_capacity(asked + 1);
        pipeline.ignore_errors();
        for command in commands {
            pipeline.add_command(command);
        }
        if !is_back(OldBug::LateReply) {
            pipeline.cmd("INFO").arg("replication");
        }
        self.metrics.l2_pipelines.inc();
        let mut connection = session.connection();
        let replies = bounded(limits::L2_COMMAND, pipeline.query_async::<Vec<RedisResult<Value>>>(&mut connection));
        let mut replies = match replies.await {
            Ok(replies) => replies,
            Err(error) => {
                self.settle(session, Some(&error));
                return vec![None; asked];
            }
        };
        self.settle(session, replies.iter().find_map(|reply| reply.as_ref().err()));
        if !is_back(OldBug::LateReply) && !replies.pop().is_some_and(|reply| is_of(session, reply)) {
            self.end_session(session);
            return vec![None; asked];
        }
        let mut held: Vec<_> = replies.into_iter().map(|reply| from_redis_value(reply.ok()?).ok()).collect();
        held.resize(asked, None);
        held
    }

    /// Counts how a command or pipeline ended, and ends the session if that says that the server is not to be used.
    fn settle(&self, session: &Arc<Session>, error: Option<&RedisError>) {
        let Some(error) = error else {
            self.failures_in_a_row.store(0, Ordering::Relaxed);
            return;
        };
        self.metrics.l2_errors.inc();
        let failures = self.failures_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        let ends = match error.kind() {
            // No answer in time, too: all commands share one connection in their order, so that those behind it are as late; its
            // reply is still to come, and nobody shall depend on its being told from the next (R1); and a connection that leads
            // nowhere would not break for long. The next session has the same identity: no space is lost.
            ErrorKind::Io => !is_back(OldBug::LateReply),
            // A server that has become a replica may come back as a primary with older data: not to be missed.
            ErrorKind::Server(ServerErrorKind::ReadOnly) => true,
            // It may have no room for this value, or no time just now.
            _ => failures >= limits::L2_BREAKER_FAILURES,
        };
        if ends {
            self.end_session(session);
        }
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

/// Whether the last reply of a pipeline says that the server still is what the session began with.
fn is_of(session: &Session, reply: RedisResult<Value>) -> bool {
    reply.ok().and_then(|reply| from_redis_value::<String>(reply).ok()).is_some_and(|info| session.is_with(&info))
}

async fn bounded<T>(
    limit: std::time::Duration,
    answer: impl Future<Output = Result<T, RedisError>>,
) -> Result<T, RedisError> {
    tokio::time::timeout(limit, answer)
        .await
        .unwrap_or_else(|_| Err(RedisError::from((ErrorKind::Io, "no answer in time"))))
}
