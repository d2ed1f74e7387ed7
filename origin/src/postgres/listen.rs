//! The hint that the ring has changed: one LISTEN connection per process, reconnected with a bounded back-off.
//!
//! Only a hint (protocol B7): a lost connection, a silence and a fresh start all count as "look again".

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::CHANNEL;

/// The first pause after a failed connect; doubled up to [`BACK_OFF_MAX`].
const BACK_OFF_MIN: Duration = Duration::from_millis(100);
/// The longest pause between two attempts.
const BACK_OFF_MAX: Duration = Duration::from_secs(5);
/// The longest one attempt may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// A line silent for this long may be dead without our knowing: it is made anew.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Started by the first caller of [`Listener::changed`], ended when dropped.
pub(super) struct Listener {
    options: PgConnectOptions,
    changes: watch::Sender<u64>,
    task: Mutex<Task>,
}

enum Task {
    NotStarted,
    Running(JoinHandle<()>),
    Stopped,
}

impl Listener {
    pub(super) fn new(options: PgConnectOptions) -> Self {
        Self { options, changes: watch::Sender::new(0), task: Mutex::new(Task::NotStarted) }
    }

    /// Waits for the next hint; for ever once stopped.
    pub(super) async fn changed(&self) {
        let mut changes = self.changes.subscribe();
        self.start();
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn start(&self) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*task, Task::NotStarted) {
            *task = Task::Running(tokio::spawn(listen(self.options.clone(), self.changes.clone())));
        }
    }

    pub(super) fn stop(&self) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if let Task::Running(running) = std::mem::replace(&mut *task, Task::Stopped) {
            running.abort();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn listen(options: PgConnectOptions, changes: watch::Sender<u64>) {
    let mut back_off = BACK_OFF_MIN;
    loop {
        let Ok(Ok(mut listener)) = tokio::time::timeout(CONNECT_LIMIT, connect(options.clone())).await else {
            tokio::time::sleep(back_off).await;
            back_off = (back_off * 2).min(BACK_OFF_MAX);
            continue;
        };
        back_off = BACK_OFF_MIN;
        // What was announced before we listened is lost.
        bump(&changes);
        while let Ok(Ok(Some(_))) = tokio::time::timeout(SILENCE_MAX, listener.try_recv()).await {
            bump(&changes);
        }
    }
}

fn bump(changes: &watch::Sender<u64>) {
    changes.send_modify(|count| *count += 1);
}

async fn connect(options: PgConnectOptions) -> Result<PgListener, sqlx::Error> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(CONNECT_LIMIT)
        .max_lifetime(None)
        .idle_timeout(None)
        .connect_lazy_with(options);
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.ignore_pool_close_event(true);
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    Ok(listener)
}
