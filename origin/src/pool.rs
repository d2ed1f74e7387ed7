//! Connections of one process: how many, who may use which share of them, and when one may be used again.
//!
//! An own pool, because sqlx's pings the server each time a connection comes back and cannot say "this one may still have
//! a statement under way". Here a connection comes back only when its user marks it reusable; dropped in any other state,
//! also by a cancelled future, it is closed. Nothing is ever re-sent (protocol A4): a connection that may have died while
//! idle is pinged *before* it is handed out, and a ping is no statement.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use sqlx::{ConnectOptions, Connection};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::error::OriginError;

/// A connection idle for longer is pinged before use: the server may have gone and come back.
const PING_AFTER_IDLE: Duration = Duration::from_secs(1);
/// The most callers that may wait for a connection of one lane; more would time out anyway.
const WAITERS_MAX: usize = 4096;
/// How soon to try again after the server refused the connection; it may be starting.
const CONNECT_RETRY: Duration = Duration::from_millis(50);
/// How many connections for entries are made at the same time. A handshake is mostly computing (SCRAM): made all at once
/// they finish late together, callers give up on them, and a flood of entry statements on a slow machine never gets one.
/// One may be made for a caller who has got another meanwhile: a pool can hold one connection over its bound.
const ENTRY_CONNECTS_AT_ONCE: usize = 2;
/// How many times the longest wait of a caller making a connection for entries may take.
const CONNECT_WAITS: u32 = 2;

/// Shares of the connections, so that a flood of entry statements never delays a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Reads and writes of entries.
    Entries,
    /// Slots, ring and changes.
    Control,
    /// Heartbeats only.
    Lease,
}

/// What to do with a connection just made.
pub(crate) type Greeting<C> = for<'c> fn(&'c mut C) -> BoxFuture<'c, Result<(), OriginError>>;

/// A bounded set of connections.
pub(crate) struct Pool<C: Connection> {
    options: C::Options,
    greeting: Greeting<C>,
    explain: fn(&sqlx::Error) -> OriginError,
    acquire_timeout: Duration,
    idle: Mutex<Vec<Idle<C>>>,
    /// When a connection was last found broken: those idle since before then are suspects.
    last_break: Mutex<Option<Instant>>,
    closed: AtomicBool,
    entries: Arc<Semaphore>,
    control: Arc<Semaphore>,
    lease: Arc<Semaphore>,
    /// Turns to connect for entries.
    connects: Arc<Semaphore>,
    /// Told of each connection that becomes idle: whoever waits for a turn may have it.
    came_back: Notify,
    waiting: AtomicUsize,
}

struct Idle<C> {
    connection: C,
    since: Instant,
}

/// How a pool is set up.
pub(crate) struct PoolSettings<C: Connection> {
    /// How to connect.
    pub(crate) options: C::Options,
    /// Run on every new connection.
    pub(crate) greeting: Greeting<C>,
    /// Says what a driver error means.
    pub(crate) explain: fn(&sqlx::Error) -> OriginError,
    /// The most connections; at least one per lane.
    pub(crate) max_connections: u32,
    /// The longest wait for one.
    pub(crate) acquire_timeout: Duration,
}

/// A connection in use. Dropped without [`Checkout::reusable`], it is closed.
pub(crate) struct Checkout<C: Connection + 'static> {
    connection: Option<C>,
    reusable: bool,
    fresh: bool,
    pool: Arc<Pool<C>>,
    _permit: OwnedSemaphorePermit,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: Connection + 'static> Pool<C> {
    /// No connection is made before the first use.
    pub(crate) fn new(settings: PoolSettings<C>) -> Arc<Self> {
        let total = settings.max_connections.max(3) as usize;
        let control = (total / 4).max(1);
        Arc::new(Self {
            options: settings.options,
            greeting: settings.greeting,
            explain: settings.explain,
            acquire_timeout: settings.acquire_timeout,
            idle: Mutex::new(Vec::with_capacity(total)),
            last_break: Mutex::new(None),
            closed: AtomicBool::new(false),
            entries: Arc::new(Semaphore::new(total - control - 1)),
            control: Arc::new(Semaphore::new(control)),
            lease: Arc::new(Semaphore::new(1)),
            connects: Arc::new(Semaphore::new(ENTRY_CONNECTS_AT_ONCE)),
            came_back: Notify::new(),
            waiting: AtomicUsize::new(0),
        })
    }

    /// How to connect, for a connection outside the pool.
    pub(crate) fn options(&self) -> &C::Options {
        &self.options
    }

    /// A connection, within the acquire timeout.
    pub(crate) async fn acquire(self: &Arc<Self>, lane: Lane) -> Result<Checkout<C>, OriginError> {
        match tokio::time::timeout(self.acquire_timeout, self.acquire_unbounded(lane)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(OriginError::Timeout),
        }
    }

    async fn acquire_unbounded(self: &Arc<Self>, lane: Lane) -> Result<Checkout<C>, OriginError> {
        let permit = self.permit(lane).await?;
        loop {
            if self.closed.load(Ordering::Acquire) {
                return Err(OriginError::Unreachable("the connections are closed"));
            }
            let Some(idle) = self.pop_idle() else {
                match self.connect_in_turn(lane).await? {
                    Some(connection) => return Ok(self.check_out(connection, true, permit)),
                    None => continue,
                }
            };
            let mut connection = idle.connection;
            if !self.is_suspect(idle.since) {
                return Ok(self.check_out(connection, false, permit));
            }
            match connection.ping().await {
                Ok(()) => return Ok(self.check_out(connection, false, permit)),
                Err(_) => self.note_break(),
            }
        }
    }

    async fn permit(&self, lane: Lane) -> Result<OwnedSemaphorePermit, OriginError> {
        let semaphore = match lane {
            Lane::Entries => &self.entries,
            Lane::Control => &self.control,
            Lane::Lease => &self.lease,
        };
        if let Ok(permit) = Arc::clone(semaphore).try_acquire_owned() {
            return Ok(permit);
        }
        let Some(_place) = Waiting::enter(&self.waiting) else {
            return Err(OriginError::Unreachable("too many callers wait for a connection"));
        };
        Arc::clone(semaphore).acquire_owned().await.map_err(|_| OriginError::Unreachable("the connections are closed"))
    }

    /// A new connection, or `None` when there may be an idle one by now.
    ///
    /// For entries a task of its own connects: a caller whose time is over leaves the work to the next, or a machine too
    /// slow for one handshake within one caller's time would never have a connection.
    async fn connect_in_turn(self: &Arc<Self>, lane: Lane) -> Result<Option<C>, OriginError> {
        if lane != Lane::Entries {
            return self.connect().await.map(Some);
        }
        tokio::select! {
            turn = Arc::clone(&self.connects).acquire_owned() => {
                let turn = turn.map_err(|_| OriginError::Unreachable("the connections are closed"))?;
                if !lock(&self.idle).is_empty() {
                    return Ok(None);
                }
                let connecting = tokio::spawn(Arc::clone(self).add_connection(turn));
                tokio::select! {
                    added = connecting => added.unwrap_or(Err(OriginError::Unreachable("connecting failed"))).map(|()| None),
                    () = self.came_back.notified() => Ok(None),
                }
            }
            () = self.came_back.notified() => Ok(None),
        }
    }

    /// Makes an idle connection, whoever will use it.
    async fn add_connection(self: Arc<Self>, _turn: OwnedSemaphorePermit) -> Result<(), OriginError> {
        let connecting = tokio::time::timeout(self.acquire_timeout * CONNECT_WAITS, self.connect());
        let connection = connecting.await.map_err(|_| OriginError::Timeout)??;
        self.put_idle(connection);
        Ok(())
    }

    fn put_idle(&self, connection: C) {
        if !self.closed.load(Ordering::Acquire) {
            lock(&self.idle).push(Idle { connection, since: Instant::now() });
            // Kept for the next to wait if nobody does, so that none is missed between looking and waiting.
            self.came_back.notify_one();
        }
    }

    /// Connects; while the server refuses, it may be starting, so this goes on until the caller's time is over.
    async fn connect(&self) -> Result<C, OriginError> {
        loop {
            match self.options.connect().await {
                Ok(mut connection) => {
                    (self.greeting)(&mut connection).await?;
                    return Ok(connection);
                }
                Err(sqlx::Error::Io(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err((self.explain)(&error)),
            }
            tokio::time::sleep(CONNECT_RETRY).await;
        }
    }

    fn pop_idle(&self) -> Option<Idle<C>> {
        lock(&self.idle).pop()
    }

    fn is_suspect(&self, idle_since: Instant) -> bool {
        idle_since.elapsed() > PING_AFTER_IDLE || lock(&self.last_break).is_some_and(|at| idle_since <= at)
    }

    /// A connection broke: the others that are idle now have to prove themselves.
    pub(crate) fn note_break(&self) {
        *lock(&self.last_break) = Some(Instant::now());
    }

    fn check_out(self: &Arc<Self>, connection: C, fresh: bool, permit: OwnedSemaphorePermit) -> Checkout<C> {
        let pool = Arc::clone(self);
        Checkout { connection: Some(connection), reusable: false, fresh, pool, _permit: permit }
    }

    /// Callers waiting for a connection now.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Closes idle connections and lets nobody have another.
    pub(crate) async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for semaphore in [&self.entries, &self.control, &self.lease] {
            semaphore.close();
        }
        self.connects.close();
        let idle = std::mem::take(&mut *lock(&self.idle));
        for idle in idle {
            // A connection that cannot say goodbye in time is closed by being dropped.
            let _ = tokio::time::timeout(self.acquire_timeout, idle.connection.close()).await;
        }
    }
}

/// A place among the bounded number of waiters.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Option<Self> {
        let place = Self(count);
        let before = count.fetch_add(1, Ordering::Relaxed);
        (before < WAITERS_MAX).then_some(place)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<C: Connection + 'static> Checkout<C> {
    /// The connection, from now on not reusable until [`Checkout::reusable`] says so.
    pub(crate) fn start(&mut self) -> &mut C {
        self.reusable = false;
        self.connection.as_mut().expect("it is taken in drop only")
    }

    /// Nothing is under way on it: it goes back when dropped.
    pub(crate) fn reusable(&mut self) {
        self.reusable = true;
    }

    /// Whether it was connected for this use.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// It is broken: closed when dropped, and the idle ones become suspects.
    pub(crate) fn broken(&mut self) {
        self.reusable = false;
        self.pool.note_break();
    }
}

impl<C: Connection + 'static> Drop for Checkout<C> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take().filter(|_| self.reusable) {
            self.pool.put_idle(connection);
        }
    }
}
