//! One run: preload, then arrivals on schedule, each a task of its own under a cap of requests in flight.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::arrivals::Arrivals;
use super::options::{DEFAULT_DURATION, Options};
use super::register::{Register, Seen, WriteEnd};
use super::report::Report;
use super::tally::{Tally, Wrong, error_class, record};
use super::trace::{self, TraceError};
use super::value::{Stamp, decode, encode};
use super::workload::{Draw, KeySpace, numbered, replayed};
use crate::gateway_client::{Client, ClientError, Entry, Precondition};

/// How long one request may take before it counts as failed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const CONTENT_TYPE: &str = "application/octet-stream";

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The trace cannot be used.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// No client for the target.
    #[error(transparent)]
    Client(ClientError),
    /// A write of the preload failed: what the reads should return would not be known.
    #[error("the preload stopped: a write failed with {0}")]
    Preload(&'static str),
}

/// What the requests of a run share.
struct Shared {
    client: Client,
    keys: KeySpace,
    registers: Vec<Mutex<Register>>,
    tally: Mutex<Tally>,
    run: u64,
    value_bytes: usize,
}

/// Makes one run and returns what it counted.
pub async fn run(options: &Options) -> Result<Report, LoadError> {
    let seed = options.seed.unwrap_or_else(rand::random);
    let (keys, draw, trace_length) = workload(options)?;
    let arrivals = arrivals(options, trace_length);
    let shared = Arc::new(Shared {
        client: Client::new(&options.target, REQUEST_TIMEOUT).map_err(LoadError::Client)?,
        registers: (0..keys.len()).map(|_| Mutex::default()).collect(),
        keys,
        tally: Mutex::new(Tally::new()),
        // Not of the seed: a value of an earlier run with the same seed must not pass for one of this run.
        run: rand::random(),
        value_bytes: options.value_bytes.bytes() as usize,
    });
    eprintln!(
        "seed {seed}: {} requests at {}/s over {} keys of {} users",
        arrivals.count(),
        options.rate,
        shared.keys.len(),
        options.users
    );
    if options.preload {
        preload(&shared, options.connections as usize).await?;
    }
    let dispatcher = Dispatcher {
        shared: Arc::clone(&shared),
        arrivals,
        draw,
        rng: SmallRng::seed_from_u64(seed),
        write_share: options.writes / 100.0,
        permits: Arc::new(Semaphore::new(options.connections as usize)),
        cap: options.connections,
    };
    let runtime = Handle::current();
    // A thread of its own: tokio's timers are too coarse for a schedule of thousands a second.
    let took =
        tokio::task::spawn_blocking(move || dispatcher.run(&runtime)).await.expect("the dispatcher does not panic");
    let tally = lock(&shared.tally);
    Ok(Report::new(seed, options.rate, took, &tally))
}

/// The keys, their order, and how long the trace is if there is one.
fn workload(options: &Options) -> Result<(KeySpace, Draw, Option<u64>), LoadError> {
    match (&options.trace, options.zipf) {
        (Some(path), _) => {
            let trace = trace::read(path)?;
            let (keys, draw) = replayed(&trace, options.users);
            Ok((keys, draw, Some(trace.len() as u64)))
        }
        (None, mix) => {
            let mix = mix.expect("the command line has a trace or a mix");
            let zipf = Zipf::new(f64::from(mix.keys), mix.theta).expect("the command line has bounded both numbers");
            let (keys, draw) = numbered(mix.keys, zipf, options.users);
            Ok((keys, draw, None))
        }
    }
}

fn arrivals(options: &Options, trace_length: Option<u64>) -> Arrivals {
    match (options.requests.or(trace_length.filter(|_| options.duration.is_none())), options.duration) {
        (Some(count), _) => Arrivals::of_count(options.rate, count),
        (None, Some(duration)) => Arrivals::of_duration(options.rate, duration.get()),
        (None, None) => Arrivals::of_duration(options.rate, DEFAULT_DURATION),
    }
}

/// Writes every key once; the first failure ends it.
async fn preload(shared: &Arc<Shared>, connections: usize) -> Result<(), LoadError> {
    stream::iter((0..shared.keys.len()).map(|index| {
        let shared = Arc::clone(shared);
        async move {
            // Nobody else writes yet.
            let Some(sequence) = shared.register(index).begin_write() else { return Ok(()) };
            shared.write(index, sequence).await.map_err(|error| LoadError::Preload(error_class(&error)))
        }
    }))
    .buffer_unordered(connections)
    .try_collect()
    .await
}

/// Lets requests arrive on schedule.
struct Dispatcher {
    shared: Arc<Shared>,
    arrivals: Arrivals,
    draw: Draw,
    rng: SmallRng,
    write_share: f64,
    permits: Arc<Semaphore>,
    cap: u32,
}

impl Dispatcher {
    /// Returns how long it took from the first arrival to the last answer.
    fn run(mut self, runtime: &Handle) -> Duration {
        let start = Instant::now();
        for number in 0..self.arrivals.count() {
            let due = start + self.arrivals.due(number);
            let index = self.draw.next(&mut self.rng);
            let write = self.rng.random_bool(self.write_share);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let permit =
                runtime.block_on(Arc::clone(&self.permits).acquire_owned()).expect("the semaphore is never closed");
            let shared = Arc::clone(&self.shared);
            runtime.spawn(async move {
                shared.request(index, write, due).await;
                drop(permit);
            });
        }
        // All permits back: no request is in flight.
        drop(runtime.block_on(self.permits.acquire_many(self.cap)));
        start.elapsed()
    }
}

impl Shared {
    /// One arrival: a read, or a write unless the key is just being written.
    async fn request(&self, index: u32, write: bool, due: Instant) {
        let sequence = if write { self.register(index).begin_write() } else { None };
        match sequence {
            Some(sequence) => {
                let result = self.write(index, sequence).await;
                let latency = due.elapsed();
                let mut tally = lock(&self.tally);
                match result {
                    Ok(()) => record(&mut tally.writes, latency),
                    Err(error) => tally.error(&error),
                }
            }
            None => self.read(index, due).await,
        }
    }

    /// Writes a value and tells the register how that ended.
    async fn write(&self, index: u32, sequence: u32) -> Result<(), ClientError> {
        let (user, key) = self.keys.name(index);
        let value = encode(self.stamp(index, sequence), self.value_bytes);
        let result = self.client.put(user, &key, value, CONTENT_TYPE, Precondition::None).await;
        self.register(index).end_write(match &result {
            Ok(_) => WriteEnd::Acknowledged,
            Err(error) if error.may_have_happened() => WriteEnd::Unknown,
            Err(_) => WriteEnd::Refused,
        });
        result.map(drop)
    }

    async fn read(&self, index: u32, due: Instant) {
        let (user, key) = self.keys.name(index);
        let floor = self.register(index).begin_read();
        let result = self.client.get(user, &key).await;
        let latency = due.elapsed();
        let verdict = match &result {
            Ok(entry) => self
                .seen(index, entry.as_ref())
                .and_then(|seen| self.register(index).end_read(floor, seen).map_err(Wrong::Violation)),
            Err(_) => Ok(()),
        };
        let mut tally = lock(&self.tally);
        match result {
            Err(error) => return tally.error(&error),
            Ok(Some(entry)) => tally.hit(entry.tier),
            Ok(None) => tally.absent += 1,
        }
        record(&mut tally.reads, latency);
        if let Err(wrong) = verdict {
            tally.wrong(wrong);
        }
    }

    /// What a body says it is, if it is whole and of this entry.
    fn seen(&self, index: u32, entry: Option<&Entry>) -> Result<Seen, Wrong> {
        let Some(entry) = entry else { return Ok(Seen::Absent) };
        let stamp = decode(&entry.value).ok_or(Wrong::Damaged)?;
        let mine = self.stamp(index, stamp.sequence);
        if (stamp.user, stamp.key) != (mine.user, mine.key) {
            return Err(Wrong::OtherEntry);
        }
        Ok(if stamp.run == self.run { Seen::Write(stamp.sequence) } else { Seen::EarlierRun })
    }

    fn stamp(&self, index: u32, sequence: u32) -> Stamp {
        Stamp { run: self.run, sequence, user: self.keys.user_number(index), key: self.keys.number(index) }
    }

    fn register(&self, index: u32) -> MutexGuard<'_, Register> {
        lock(&self.registers[index as usize])
    }
}

/// What a panicked request has left is still a whole count.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
