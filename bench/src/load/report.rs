//! What a run prints.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Answers in the measured time, each checked and right.
    pub answers: u64,
    /// The measured time.
    pub seconds: f64,
    /// Right answers a second.
    pub rps: f64,
    /// Half of the answers took at most so many microseconds.
    pub p50_us: f64,
    /// 99 of 100 did.
    pub p99_us: f64,
    /// 999 of 1000 did.
    pub p99_9_us: f64,
    /// All did, those before the measured time too.
    pub max_us: f64,
    /// The longest wait of the answers in each second of the whole run, from its first request on.
    pub max_us_by_second: Vec<f64>,
    /// Requests that failed or were answered wrongly in the whole run, by what happened.
    pub errors: BTreeMap<String, u64>,
    /// Processor time of the processes asked about over the measured time, in microseconds.
    pub cpu_us: Vec<f64>,
    /// The load generator's own.
    pub own_cpu_us: f64,
}

impl Report {
    /// Processor microseconds per answer of the `index`-th process asked about.
    pub fn cpu_us_per_answer(&self, index: usize) -> f64 {
        self.cpu_us.get(index).copied().unwrap_or_default() / self.answers.max(1) as f64
    }
}
