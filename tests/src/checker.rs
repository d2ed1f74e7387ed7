//! Clients beside what a test does: that each key stays a register, told in a few words.
//!
//! [`crate::clients`] has clients of any other mix, [`crate::linearizable`] what judges them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clients::{Clients, ClientsOptions};
use crate::door::Door;
use crate::linearizable::check;

/// Four that write and eight that read, so that reads go on while writes wait.
const CLIENTS: u32 = 12;
const READERS: u32 = 8;
/// Each with one key: so many slots are under way.
const USERS: u32 = 48;
/// Between two requests of one client, so that clients and servers fit on a small machine.
const THINK: Duration = Duration::from_millis(4);
/// Errors of writes that may have been executed all the same.
const IN_DOUBT: [&str; 3] = ["write_outcome_unknown", "broken", "timeout"];

/// What the clients have seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Reads answered with a value or "none".
    pub reads: u64,
    /// Writes acknowledged.
    pub writes: u64,
    /// Writes answered "unknown" or not at all.
    pub unknown: u64,
    /// Codes of answers to reads that were neither a value nor "none".
    pub read_errors: Vec<String>,
    /// Codes of answers to writes that said "not executed".
    pub write_errors: Vec<String>,
    /// What no register could have answered so, or nothing documented explains.
    pub violations: Vec<String>,
}

/// Clients at work until they are asked what they have seen.
pub struct Checker(Clients);

impl Checker {
    /// Starts them on a mix of these doors; what they do follows from the seed.
    pub fn start(doors: Vec<Door>, seed: u64) -> Self {
        let options = ClientsOptions {
            clients: CLIENTS,
            readers: READERS,
            users: USERS,
            keys_per_user: 1,
            writes_percent: 100,
            mget_keys: 0,
            think: THINK,
            ..ClientsOptions::default()
        };
        Self(Clients::start(doors, options, seed))
    }

    /// Waits until so many reads and writes more have been made: before, between or after changes.
    pub async fn goes_on(&self, requests: u64) {
        self.0.goes_on(requests).await;
    }

    /// Ends them.
    pub async fn finish(self) -> Seen {
        let recorded = self.0.finish().await;
        let mut seen = Seen {
            read_errors: one_by_one(&recorded.read_errors),
            write_errors: one_by_one(&recorded.write_errors),
            violations: recorded.protocol_errors,
            ..Seen::default()
        };
        seen.write_errors.retain(|code| !IN_DOUBT.contains(&code.as_str()));
        match check(&recorded.history) {
            Ok(checked) => {
                let counts = [checked.reads, checked.writes, checked.unknown];
                [seen.reads, seen.writes, seen.unknown] = counts.map(|count| count as u64);
            }
            Err(violation) => seen.violations.push(violation.to_string()),
        }
        seen
    }
}

fn one_by_one(counts: &BTreeMap<String, u64>) -> Vec<String> {
    counts.iter().flat_map(|(code, count)| (0..*count).map(|_| code.clone())).collect()
}
