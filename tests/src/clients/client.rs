//! One client: a request at a time, drawn by chance, and written down with what came of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Method, RequestBuilder};
use tokio::time::{sleep, timeout};

use super::answers::{self, Failure, Seen};
use super::{Action, Log, Operation, Outcome, Run};
use crate::door::Door;
use crate::http::{Answer, send};

/// The latest that a client hangs up: most requests take a few milliseconds, and most that hang up do so before.
const HANG_UP: Duration = Duration::from_millis(40);

/// A client and what it has seen.
pub(super) struct Client {
    run: Arc<Run>,
    number: u32,
    chance: SmallRng,
    log: Log,
}

impl Client {
    pub(super) fn new(run: Arc<Run>, number: u32) -> Self {
        let chance = SmallRng::seed_from_u64(run.seed.wrapping_mul(1 << 16).wrapping_add(number.into()));
        Self { run, number, chance, log: Log::default() }
    }

    /// Sends requests until the run is stopped.
    pub(super) async fn work(mut self) -> Log {
        let think = self.run.options.think * 2;
        while !self.run.stop.load(Ordering::Relaxed) {
            let door = self.run.doors[self.chance.random_range(0..self.run.doors.len())].clone();
            self.request(&door).await;
            sleep(think.mul_f64(self.chance.random())).await;
        }
        self.log
    }

    /// What it has seen.
    pub(super) fn log(self) -> Log {
        self.log
    }

    async fn request(&mut self, door: &Door) {
        let run = Arc::clone(&self.run);
        let options = &run.options;
        if self.number >= options.readers && self.chances(options.writes_percent) {
            let key = run.keys().draw(&mut self.chance);
            let delete = self.chances(options.deletes_percent);
            self.write(door, key, if delete { Action::Delete } else { Action::Put(run.next_value()) }).await;
        } else if options.mget_keys > 0 && self.chance.random_range(0..3) == 0 {
            let mut keys = run.keys().draw_together(options.mget_keys, &mut self.chance);
            keys.sort_unstable();
            self.read_together(door, &keys).await;
        } else {
            let old = self.chances(options.old_reads_percent);
            let old = if old { run.keys().draw_old(&mut self.chance) } else { None };
            let key = old.unwrap_or_else(|| run.keys().draw(&mut self.chance));
            self.read(door, key).await;
        }
    }

    pub(super) async fn write(&mut self, door: &Door, key: u32, action: Action) {
        let (user, path) = self.entry(key);
        let request = match action {
            Action::Put(value) => door.request(Method::PUT, &user, &path).body(self.run.body(value)),
            Action::Get | Action::Delete => door.request(Method::DELETE, &user, &path),
        };
        let begun = self.run.started.elapsed();
        let answer = self.answer(request).await;
        let (outcome, failure) = match answer {
            Some(answer) => answers::of_write(action, answer),
            None => (Outcome::Unknown, None),
        };
        match failure {
            Some(Failure::Code(code)) => self.log.write_failed(&code),
            Some(Failure::Strange(what)) => self.log.strange(format!("{action:?}: {what}")),
            None => {}
        }
        self.record(key, action, outcome, begun);
    }

    pub(super) async fn read(&mut self, door: &Door, key: u32) {
        let (user, path) = self.entry(key);
        let request = door.request(Method::GET, &user, &path);
        let begun = self.run.started.elapsed();
        let Some(answer) = self.answer(request).await else {
            self.log.unanswered_reads += 1;
            return;
        };
        let seen = answers::of_get(&self.run, answer).map(|seen| vec![seen]);
        self.record_reads(&[key], seen, begun);
    }

    /// A multi-get of keys of one user: a read of each, all with the same begin and end.
    pub(super) async fn read_together(&mut self, door: &Door, keys: &[u32]) {
        let (user, names) = {
            let all = self.run.keys();
            let names: Vec<_> = keys.iter().map(|key| all.names()[*key as usize].key.clone()).collect();
            (all.names()[keys[0] as usize].user.clone(), names)
        };
        let request = door.request(Method::POST, &user, "/v1/entries:mget");
        let request = request.json(&serde_json::json!({ "keys": names }));
        let begun = self.run.started.elapsed();
        let Some(answer) = self.answer(request).await else {
            self.log.unanswered_reads += keys.len() as u64;
            return;
        };
        let seen = answers::of_mget(&self.run, &names, answer);
        self.record_reads(keys, seen, begun);
    }

    /// `None` when the client hung up.
    async fn answer(&mut self, request: RequestBuilder) -> Option<Result<Answer, reqwest::Error>> {
        // The last reads of a run belong to nobody who hangs up.
        let hangs_up = self.number < self.run.options.clients && self.chances(self.run.options.hang_ups_percent);
        if !hangs_up {
            return Some(send(request).await);
        }
        let patience: f64 = self.chance.random();
        let answer = timeout(HANG_UP.mul_f64(patience * patience), send(request)).await.ok();
        self.log.hung_up += u64::from(answer.is_none());
        answer
    }

    fn record_reads(&mut self, keys: &[u32], seen: Result<Vec<Seen>, Failure>, begun: Duration) {
        match seen {
            Ok(seen) => {
                for (key, seen) in keys.iter().zip(seen) {
                    let (value, version) = seen.unzip();
                    self.record(*key, Action::Get, Outcome::Read { value, version }, begun);
                }
            }
            Err(Failure::Code(code)) => self.log.read_failed(&code, keys.len() as u64),
            Err(Failure::Strange(what)) => {
                self.log.unanswered_reads += keys.len() as u64;
                self.log.strange(format!("read of {} keys: {what}", keys.len()));
            }
        }
    }

    fn record(&mut self, key: u32, action: Action, outcome: Outcome, begun: Duration) {
        if matches!(outcome, Outcome::Read { .. } | Outcome::Done { .. }) {
            self.run.answered.fetch_add(1, Ordering::Relaxed);
        }
        let ended = self.run.started.elapsed();
        self.log.operations.push(Operation { client: self.number, key, action, outcome, begun, ended });
    }

    fn entry(&self, key: u32) -> (String, String) {
        let keys = self.run.keys();
        let name = &keys.names()[key as usize];
        (name.user.clone(), format!("/v1/entries/{}", name.key))
    }

    fn chances(&mut self, percent: u32) -> bool {
        self.chance.random_range(0..100) < percent
    }
}
