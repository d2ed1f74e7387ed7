//! Concurrent clients of any number of gateways, each key a register: no read is older than what was acknowledged or
//! read before it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinHandle;

use crate::door::Door;
use crate::http::{Answer, send};
use crate::poll::eventually;

const KEYS: usize = 48;
const WRITERS: usize = 4;
const READERS: usize = 8;
/// Between two requests of one client, so that clients and servers fit on a small machine.
const THINK: Duration = Duration::from_millis(4);

/// The writes of one key, numbered from 1 by its only writer, and what has been seen of them.
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
pub struct Seen {
    /// Reads answered with a value or "none".
    pub reads: u64,
    /// Writes acknowledged.
    pub writes: u64,
    /// Writes answered "unknown" or not at all.
    pub unknown: u64,
    /// Answers to reads that were neither a value nor "none".
    pub read_errors: Vec<String>,
    /// Answers to writes that said "not executed".
    pub write_errors: Vec<String>,
    /// Reads that no register could have answered so.
    pub violations: Vec<String>,
}

struct Shared {
    doors: Vec<Door>,
    registers: Vec<Mutex<Register>>,
    seen: Mutex<Seen>,
    stop: AtomicBool,
}

/// Clients at work until they are asked what they have seen.
pub struct Checker {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Checker {
    /// Starts them on a mix of these doors; what they do follows from the seed.
    pub fn start(doors: Vec<Door>, seed: u64) -> Self {
        let registers = (0..KEYS).map(|_| Mutex::default()).collect();
        let shared = Arc::new(Shared { doors, registers, seen: Mutex::default(), stop: AtomicBool::new(false) });
        let clients = (0..WRITERS + READERS).map(|client| {
            let (shared, rng) = (Arc::clone(&shared), SmallRng::seed_from_u64(seed + client as u64));
            tokio::spawn(shared.client(client, rng))
        });
        let clients = clients.collect();
        Self { shared, clients }
    }

    /// Waits until so many reads and writes more have been made: before, between or after changes.
    pub async fn goes_on(&self, requests: u64) {
        let made = || {
            let seen = lock(&self.shared.seen);
            seen.reads + seen.writes
        };
        let goal = made() + requests;
        eventually("the clients are served", Duration::from_secs(30), async || made() >= goal).await;
    }

    /// Ends them.
    pub async fn finish(self) -> Seen {
        self.shared.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.expect("a client");
        }
        lock(&self.shared.seen).clone()
    }
}

impl Shared {
    async fn client(self: Arc<Self>, number: usize, mut rng: SmallRng) {
        while !self.stop.load(Ordering::Relaxed) {
            let key = rng.random_range(0..KEYS);
            let door = &self.doors[rng.random_range(0..self.doors.len())];
            if number < WRITERS {
                // One writer for each key.
                self.write(door, key - key % WRITERS + number).await;
            } else {
                self.read(door, key).await;
            }
            tokio::time::sleep(THINK).await;
        }
    }

    async fn write(&self, door: &Door, key: usize) {
        let number = {
            let mut register = lock(&self.registers[key]);
            register.started += 1;
            register.started
        };
        let request = door.request(reqwest::Method::PUT, &format!("checked-{key}"), "/v1/entries/k");
        let answer = send(request.body(number.to_string())).await;
        let mut register = lock(&self.registers[key]);
        let mut seen = lock(&self.seen);
        match answer {
            Ok(answer) if matches!(answer.status, 201 | 204) => {
                register.floor = register.floor.max(number);
                seen.writes += 1;
            }
            Ok(answer) if answer.code() != "write_outcome_unknown" => {
                register.refused.insert(number);
                seen.write_errors.push(said(&answer));
            }
            _ => {
                register.unknown.insert(number);
                seen.unknown += 1;
            }
        }
    }

    async fn read(&self, door: &Door, key: usize) {
        let floor = lock(&self.registers[key]).floor;
        let answer = send(door.request(reqwest::Method::GET, &format!("checked-{key}"), "/v1/entries/k")).await;
        let mut register = lock(&self.registers[key]);
        let mut seen = lock(&self.seen);
        let answer = match answer {
            Ok(answer) if matches!(answer.status, 200 | 404) => answer,
            Ok(answer) => return seen.read_errors.push(said(&answer)),
            Err(error) => return seen.read_errors.push(format!("no answer: {error}")),
        };
        seen.reads += 1;
        let number: u64 = if answer.status == 404 { 0 } else { answer.text().parse().expect("a number") };
        let late = register.unknown.contains(&number);
        if register.refused.contains(&number) || number > register.started || (number < floor && !late) {
            let Register { started, .. } = *register;
            seen.violations
                .push(format!("key {key}: read {number}, newest before {floor}, started {started}: {answer:?}"));
        }
        register.floor = register.floor.max(number);
    }
}

fn said(answer: &Answer) -> String {
    format!("{} {}", answer.status, answer.text())
}
