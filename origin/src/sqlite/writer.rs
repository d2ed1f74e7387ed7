//! The one writer of a process: a task that owns the writing connection and commits writes in groups (protocol B6).
//!
//! A write is a job in a bounded queue. From the moment it is started nothing but its commit or rollback ends it, also when
//! its caller is gone; before that, a caller who has waited too long takes it back, and it is certainly not executed.
//! Control jobs (heartbeats, slots, ring) have a queue of their own, and go first.

mod batch;

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::failure;
use super::transaction::{End, begin, rollback};
use crate::entries::{FencedWrite, WriteAnswer};
use crate::error::{OriginError, WriteError};

/// Writes waiting; beyond it they are refused at once.
const WRITES_MAX: usize = 512;
/// Control jobs waiting.
const CONTROL_MAX: usize = 128;
/// After writing for this long without a gap, other processes get one.
const TURN: Duration = Duration::from_millis(50);
/// The gap: longer than another process' pause between two looks.
const GAP: Duration = Duration::from_millis(4);

const WAITING: u8 = 0;
const STARTED: u8 = 1;
const TAKEN_BACK: u8 = 2;

/// Who decides whether a job runs: the writer by starting it, or its caller by taking it back.
#[derive(Default)]
struct Ticket(AtomicU8);

impl Ticket {
    fn start(&self) -> bool {
        self.0.compare_exchange(WAITING, STARTED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn take_back(&self) -> bool {
        self.0.compare_exchange(WAITING, TAKEN_BACK, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn is_waiting(&self) -> bool {
        self.0.load(Ordering::Acquire) == WAITING
    }
}

struct WriteJob {
    write: FencedWrite,
    ticket: Arc<Ticket>,
    reply: oneshot::Sender<Result<WriteAnswer, WriteError>>,
}

/// Runs a whole transaction and answers its caller; says whether the connection is still good.
type ControlJob = Box<dyn for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, bool> + Send>;

/// The way to the writer task, which is started by the first job.
pub(super) struct Writer {
    options: SqliteConnectOptions,
    patience: Duration,
    statement_limit: Duration,
    waiting: Arc<AtomicUsize>,
    state: Mutex<State>,
}

enum State {
    NotStarted,
    Running(Queues, JoinHandle<()>),
    Closed,
}

#[derive(Clone)]
struct Queues {
    writes: mpsc::Sender<WriteJob>,
    control: mpsc::Sender<ControlJob>,
}

/// A place in a queue, counted.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(waiting: &Arc<AtomicUsize>) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(waiting))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Writer {
    pub(super) fn new(options: SqliteConnectOptions, patience: Duration, statement_limit: Duration) -> Self {
        Self { options, patience, statement_limit, waiting: Arc::default(), state: Mutex::new(State::NotStarted) }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn queues(&self) -> Result<Queues, OriginError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Running(queues, _) => Ok(queues.clone()),
            State::Closed => Err(OriginError::Unreachable("the connections are closed")),
            State::NotStarted => {
                let (writes, write_jobs) = mpsc::channel(WRITES_MAX);
                let (control, control_jobs) = mpsc::channel(CONTROL_MAX);
                let queues = Queues { writes, control };
                let task = WriterTask { options: self.options.clone(), patience: self.patience, connection: None };
                let running = tokio::spawn(task.run(write_jobs, control_jobs));
                *state = State::Running(queues.clone(), running);
                Ok(queues)
            }
        }
    }

    /// Queues a write and waits for its commit.
    pub(super) async fn write(&self, write: FencedWrite) -> Result<WriteAnswer, WriteError> {
        let queues = self.queues().map_err(WriteError::NotExecuted)?;
        let ticket = Arc::new(Ticket::default());
        let (reply, mut answer) = oneshot::channel();
        let _place = Place::take(&self.waiting);
        let job = WriteJob { write, ticket: Arc::clone(&ticket), reply };
        if queues.writes.try_send(job).is_err() {
            return Err(WriteError::NotExecuted(OriginError::Unreachable("the queue of writes is full")));
        }
        let ended = OriginError::Unreachable("the writer ended");
        let lost = || Err(if ticket.take_back() { WriteError::NotExecuted(ended) } else { WriteError::Unknown(ended) });
        if let Ok(outcome) = tokio::time::timeout(self.patience, &mut answer).await {
            return outcome.unwrap_or_else(|_| lost());
        }
        if ticket.take_back() {
            return Err(WriteError::NotExecuted(OriginError::Timeout));
        }
        match tokio::time::timeout(self.statement_limit, answer).await {
            Ok(outcome) => outcome.unwrap_or_else(|_| lost()),
            Err(_) => Err(WriteError::Unknown(OriginError::Timeout)),
        }
    }

    /// Runs `work` in a transaction of its own; once started it runs to its end whatever becomes of the caller.
    pub(super) async fn transact<T, F>(&self, work: F) -> Result<T, OriginError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<End<T>, OriginError>> + Send + 'static,
    {
        let queues = self.queues()?;
        let (reply, answer) = oneshot::channel();
        let patience = self.patience;
        let _place = Place::take(&self.waiting);
        let job: ControlJob = Box::new(move |connection| {
            Box::pin(async move {
                // Nobody waits any more, and it has not begun: let it be.
                if reply.is_closed() {
                    return true;
                }
                let (outcome, good) = run_transaction(connection, patience, work).await;
                let _ = reply.send(outcome);
                good
            })
        });
        if queues.control.try_send(job).is_err() {
            return Err(OriginError::Unreachable("the queue of control statements is full"));
        }
        // In the queue behind others, then for the lock, then the transaction itself.
        match tokio::time::timeout(patience + self.statement_limit, answer).await {
            Ok(outcome) => outcome.unwrap_or(Err(OriginError::Unreachable("the database file cannot be opened"))),
            Err(_) => Err(OriginError::Timeout),
        }
    }

    /// Lets the queued jobs finish and ends the task.
    pub(super) async fn close(&self) {
        let state = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, State::Closed)
        };
        if let State::Running(queues, mut task) = state {
            drop(queues);
            let limit = self.patience + self.statement_limit;
            if tokio::time::timeout(limit, &mut task).await.is_err() {
                task.abort();
            }
        }
    }
}

async fn run_transaction<T, F>(
    connection: &mut SqliteConnection,
    patience: Duration,
    work: F,
) -> (Result<T, OriginError>, bool)
where
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<End<T>, OriginError>>,
{
    if let Err(error) = begin(connection, patience).await {
        let good = error == OriginError::Timeout;
        return (Err(error), good);
    }
    match work(connection).await {
        Ok(End::Commit(value)) => match sqlx::query("COMMIT").execute(connection).await {
            Ok(_) => (Ok(value), true),
            Err(error) => (Err(failure::of_statement(&error)), false),
        },
        Ok(End::Rollback(value)) => {
            let good = rollback(connection).await;
            (Ok(value), good)
        }
        Err(error) => {
            let good = rollback(connection).await;
            (Err(error), good)
        }
    }
}

struct WriterTask {
    options: SqliteConnectOptions,
    patience: Duration,
    connection: Option<SqliteConnection>,
}

impl WriterTask {
    /// Ends when both queues are empty and nobody can add to them.
    async fn run(mut self, mut writes: mpsc::Receiver<WriteJob>, mut control: mpsc::Receiver<ControlJob>) {
        let mut turn_began = Instant::now();
        loop {
            let idle = writes.is_empty() && control.is_empty();
            if idle {
                turn_began = Instant::now();
            } else if turn_began.elapsed() >= TURN {
                tokio::time::sleep(GAP).await;
                turn_began = Instant::now();
            }
            tokio::select! {
                biased;
                Some(job) = control.recv() => self.control(job).await,
                Some(job) = writes.recv() => self.write(job, &mut writes).await,
                else => break,
            }
        }
    }

    async fn connected(&mut self) -> Result<&mut SqliteConnection, OriginError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.options.connect().await.map_err(|error| failure::of_statement(&error))?,
        };
        Ok(self.connection.insert(connection))
    }

    async fn control(&mut self, job: ControlJob) {
        // Without a connection the job is dropped, and its caller told by the closed channel.
        if let Ok(connection) = self.connected().await
            && !job(connection).await
        {
            self.connection = None;
        }
    }

    async fn write(&mut self, first: WriteJob, queue: &mut mpsc::Receiver<WriteJob>) {
        if !first.ticket.is_waiting() {
            return;
        }
        let patience = self.patience;
        let connection = match self.connected().await {
            Ok(connection) => connection,
            Err(error) => return refuse(first, error),
        };
        match begin(connection, patience).await {
            Ok(()) => {
                if !batch::run(connection, patience, batch::collect(first, queue)).await {
                    self.connection = None;
                }
            }
            Err(error) => {
                if error != OriginError::Timeout {
                    self.connection = None;
                }
                refuse(first, error);
            }
        }
    }
}

/// Answers a job that has not been started.
fn refuse(job: WriteJob, error: OriginError) {
    if job.ticket.start() {
        let _ = job.reply.send(Err(WriteError::NotExecuted(error)));
    }
}
