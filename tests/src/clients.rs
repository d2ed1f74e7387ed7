//! Concurrent clients that write and read the same keys through any number of gateways, and record what they are answered.
//!
//! What they do follows from a seed; how it mixes does not. [`crate::linearizable`] judges what they recorded.

mod answers;
mod client;
mod keys;
mod served;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::door::Door;
use crate::history::{Action, EntryName, History, Operation, Outcome};
use crate::poll::eventually;
use client::Client;
use keys::Keys;

/// How long [`Clients::goes_on`] waits.
const GOES_ON_BOUND: Duration = Duration::from_secs(60);
/// Keys of one request of [`Recorded::read_every_key`].
const READ_TOGETHER: usize = 64;
/// The most protocol errors that are told; one is too many.
const PROTOCOL_ERRORS_TOLD: usize = 100;

/// Who does what, and how much of it.
#[derive(Clone, Debug)]
pub struct ClientsOptions {
    /// Clients, each with one request at a time.
    pub clients: u32,
    /// Those of them that only read, and go on while writes wait.
    pub readers: u32,
    /// Users, the first ones asked for far more often than the last.
    pub users: u32,
    /// Keys of each user that are in use at a time.
    pub keys_per_user: u32,
    /// Writes among the requests of the others.
    pub writes_percent: u32,
    /// Deletes among the writes.
    pub deletes_percent: u32,
    /// The most keys of a multi-get, which every third read is; 0 = never.
    pub mget_keys: usize,
    /// Requests that the client gives up after a short time, its connection with them.
    pub hang_ups_percent: u32,
    /// Between two requests of a client, on average.
    pub think: Duration,
    /// After so many operations another key takes a key's place, so that each history stays small enough to be judged.
    pub operations_per_key: u64,
    /// Reads of keys that are no longer in use: what was left in a cache long ago shows there.
    pub old_reads_percent: u32,
}

impl Default for ClientsOptions {
    fn default() -> Self {
        Self {
            clients: 16,
            readers: 6,
            users: 12,
            keys_per_user: 3,
            writes_percent: 50,
            deletes_percent: 15,
            mget_keys: 4,
            hang_ups_percent: 0,
            think: Duration::from_millis(4),
            operations_per_key: 300,
            old_reads_percent: 3,
        }
    }
}

/// What the clients have seen.
#[derive(Debug)]
pub struct Recorded {
    /// Every answered read and every write.
    pub history: History,
    /// Reads that were not answered, by error code, or `not_connected`, `broken`, `timeout`.
    pub read_errors: BTreeMap<String, u64>,
    /// The same of writes, whether executed or not.
    pub write_errors: BTreeMap<String, u64>,
    /// Requests given up by their clients.
    pub hung_up: u64,
    /// Answers that nothing documented explains, such as a 500, a body of the wrong shape, or a value of nobody.
    pub protocol_errors: Vec<String>,
    run: Arc<Run>,
}

/// What all clients share.
#[derive(Debug)]
struct Run {
    seed: u64,
    doors: Vec<Door>,
    options: ClientsOptions,
    started: Instant,
    keys: Mutex<Keys>,
    last_value: AtomicU64,
    answered: AtomicU64,
    stop: AtomicBool,
}

/// What one client has seen.
#[derive(Debug, Default)]
struct Log {
    operations: Vec<Operation>,
    unanswered_reads: u64,
    read_errors: BTreeMap<String, u64>,
    write_errors: BTreeMap<String, u64>,
    hung_up: u64,
    protocol_errors: Vec<String>,
}

/// Clients at work. Dropping them ends them.
pub struct Clients {
    run: Arc<Run>,
    tasks: JoinSet<Log>,
}

impl Clients {
    /// Starts them; each request goes through a door drawn by chance.
    pub fn start(doors: Vec<Door>, options: ClientsOptions, seed: u64) -> Self {
        let keys = Mutex::new(Keys::new(&options));
        let run = Arc::new(Run {
            seed,
            doors,
            options,
            started: Instant::now(),
            keys,
            last_value: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let mut tasks = JoinSet::new();
        for number in 0..run.options.clients {
            tasks.spawn(Client::new(Arc::clone(&run), number).work());
        }
        Self { run, tasks }
    }

    /// Reads answered and writes acknowledged so far; each key of a multi-get counts.
    pub fn answered(&self) -> u64 {
        self.run.answered.load(Ordering::Relaxed)
    }

    /// Waits until so many more are answered: before, between or after changes.
    pub async fn goes_on(&self, more: u64) {
        let goal = self.answered() + more;
        eventually("the clients are served", GOES_ON_BOUND, async || self.answered() >= goal).await;
    }

    /// Has each client end its request, and puts together what they have seen.
    pub async fn finish(mut self) -> Recorded {
        self.run.stop.store(true, Ordering::Relaxed);
        let mut recorded = Recorded {
            history: History::default(),
            read_errors: BTreeMap::new(),
            write_errors: BTreeMap::new(),
            hung_up: 0,
            protocol_errors: Vec::new(),
            run: Arc::clone(&self.run),
        };
        while let Some(log) = self.tasks.join_next().await {
            recorded.take(log.expect("a client does not panic"));
        }
        recorded.history.names = self.run.keys().names().to_vec();
        recorded
    }
}

impl Recorded {
    /// Reads every key of the run once through each door, and adds that to the history; how many reads got no answer.
    pub async fn read_every_key(&mut self, doors: &[Door]) -> u64 {
        let before = self.history.unanswered_reads;
        let mut users: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (number, EntryName { user, .. }) in (0..).zip(&self.history.names) {
            users.entry(user.clone()).or_default().push(number);
        }
        let mut client = Client::new(Arc::clone(&self.run), self.run.options.clients);
        for door in doors {
            for keys in users.values().flat_map(|keys| keys.chunks(READ_TOGETHER)) {
                client.read_together(door, keys).await;
            }
        }
        self.take(client.log());
        self.history.unanswered_reads - before
    }

    fn take(&mut self, log: Log) {
        self.history.operations.extend(log.operations);
        self.history.unanswered_reads += log.unanswered_reads;
        for (sum, counts) in [(&mut self.read_errors, log.read_errors), (&mut self.write_errors, log.write_errors)] {
            for (code, count) in counts {
                *sum.entry(code).or_default() += count;
            }
        }
        self.hung_up += log.hung_up;
        self.protocol_errors.extend(log.protocol_errors);
        self.protocol_errors.truncate(PROTOCOL_ERRORS_TOLD);
    }
}

impl Run {
    fn keys(&self) -> std::sync::MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_value(&self) -> u64 {
        self.last_value.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A body that says whose it is.
    fn body(&self, value: u64) -> String {
        format!("{}:{value}", self.seed)
    }

    /// The value of a body of this run.
    fn value(&self, body: &str) -> Option<u64> {
        body.strip_prefix(&self.seed.to_string())?.strip_prefix(':')?.parse().ok()
    }
}

impl Log {
    fn read_failed(&mut self, code: &str, keys: u64) {
        self.unanswered_reads += keys;
        *self.read_errors.entry(code.to_owned()).or_default() += keys;
    }

    fn write_failed(&mut self, code: &str) {
        *self.write_errors.entry(code.to_owned()).or_default() += 1;
    }

    fn strange(&mut self, what: String) {
        if self.protocol_errors.len() < PROTOCOL_ERRORS_TOLD {
            self.protocol_errors.push(what);
        }
    }
}

#[cfg(test)]
mod tests;
