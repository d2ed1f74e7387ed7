//! Clients of a cluster in trouble: each key is a register with one writer, and no read may be older than what was
//! acknowledged or read before it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use tests::cluster::Cluster;
use tests::http::{self, Answer, send};
use tests::poll::eventually;
use tokio::task::JoinHandle;

use crate::support::HEALED;

/// Keys, each with a writer and a reader.
const KEYS: usize = 12;
/// Between two requests of one client, so that clients and servers fit on a small machine.
const THINK: Duration = Duration::from_millis(5);

/// One key: its writes are numbered from 1.
#[derive(Default)]
struct Register {
    started: u64,
    /// The newest write acknowledged or read.
    floor: u64,
    /// May land at any later time, once.
    unknown: BTreeSet<u64>,
    /// Said to be not executed.
    refused: BTreeSet<u64>,
}

/// What the clients have seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Answers that were neither a value nor an acknowledgement.
    pub(crate) errors: Vec<String>,
    /// What a register cannot do.
    pub(crate) violations: Vec<String>,
}

struct Shared {
    http: reqwest::Client,
    gateways: Vec<String>,
    registers: Vec<Mutex<Register>>,
    seen: Mutex<Seen>,
    answered: AtomicU64,
    stop: AtomicBool,
}

/// Clients at work until they are asked what they have seen.
pub(crate) struct Clients {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Clients {
    pub(crate) fn start(cluster: &Cluster) -> Self {
        let shared = Arc::new(Shared {
            http: http::client(),
            gateways: cluster.gateways.iter().map(|gateway| gateway.url()).collect(),
            registers: (0..KEYS).map(|_| Mutex::default()).collect(),
            seen: Mutex::default(),
            answered: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let writers = (0..KEYS).map(|key| tokio::spawn(Arc::clone(&shared).write(key)));
        let readers = (0..KEYS).map(|key| tokio::spawn(Arc::clone(&shared).read(key)));
        let tasks = writers.chain(readers).collect();
        Self { shared, tasks }
    }

    /// Waits until so many requests more have been answered well.
    pub(crate) async fn go_on(&self, requests: u64) {
        let goal = self.shared.answered.load(Ordering::Relaxed) + requests;
        eventually("the clients are served", HEALED, async || self.shared.answered.load(Ordering::Relaxed) >= goal)
            .await;
    }

    /// What they have seen, and how many answers were good.
    pub(crate) async fn finish(self) -> (Seen, u64) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("a client");
        }
        (lock(&self.shared.seen).clone(), self.shared.answered.load(Ordering::Relaxed))
    }
}

impl Shared {
    fn request(&self, method: Method, key: usize, number: u64) -> RequestBuilder {
        let gateway = &self.gateways[(key + number as usize) % self.gateways.len()];
        self.http.request(method, format!("{gateway}/v1/entries/k")).header("X-User-ID", format!("client-{key}"))
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    async fn write(self: Arc<Self>, key: usize) {
        while self.goes_on() {
            let number = {
                let mut register = lock(&self.registers[key]);
                register.started += 1;
                register.started
            };
            let answer = send(self.request(Method::PUT, key, number).body(number.to_string())).await;
            {
                let mut register = lock(&self.registers[key]);
                match &answer {
                    Ok(answer) if matches!(answer.status, 201 | 204) => {
                        register.floor = register.floor.max(number);
                        self.answered.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(refused) if refused.code() != "write_outcome_unknown" => {
                        register.refused.insert(number);
                        self.erred("PUT", &answer);
                    }
                    _ => {
                        register.unknown.insert(number);
                        self.erred("PUT", &answer);
                    }
                }
            }
            tokio::time::sleep(THINK).await;
        }
    }

    async fn read(self: Arc<Self>, key: usize) {
        let mut turn = 0;
        while self.goes_on() {
            turn += 1;
            let floor = lock(&self.registers[key]).floor;
            let answer = send(self.request(Method::GET, key, turn)).await;
            match &answer {
                Ok(read) if matches!(read.status, 200 | 404) => self.check(key, floor, read),
                _ => self.erred("GET", &answer),
            }
            tokio::time::sleep(THINK).await;
        }
    }

    fn check(&self, key: usize, floor: u64, answer: &Answer) {
        let mut register = lock(&self.registers[key]);
        let number: u64 = if answer.status == 404 { 0 } else { answer.text().parse().expect("a number") };
        let late = register.unknown.contains(&number);
        if register.refused.contains(&number) || number > register.started || (number < floor && !late) {
            let started = register.started;
            let line = format!("key {key}: read {number}, newest before {floor}, started {started}: {answer:?}");
            lock(&self.seen).violations.push(line);
        }
        register.floor = register.floor.max(number);
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    fn erred(&self, verb: &str, answer: &Result<Answer, reqwest::Error>) {
        let said = match answer {
            Ok(answer) => format!("{verb}: {} {}", answer.status, answer.text()),
            Err(error) => format!("{verb}: no answer: {error}"),
        };
        lock(&self.seen).errors.push(said);
    }
}
