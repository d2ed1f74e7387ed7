//! What each user makes the node do: requests, bytes and cost of the last minutes, of the users that cost most.
//!
//! Answers from L1, a microsecond each, are counted by a sample of one in [`limits::HITS_PER_SAMPLE`], drawn by chance and
//! counted as that many; all else, which takes far longer, is counted each time. Nothing of it is in a log or a metric.

mod cost;
mod sketch;
mod window;

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use placement::{Incarnation, NodeId};
use wire::users::{UserLoad, UsersReport};

use crate::clock::Moment;
use crate::limits;
use cost::Amount;
pub(crate) use cost::Work;
use sketch::{Counter, Sketch};
use window::{Due, Window};

/// The accounts of one node.
pub(crate) struct Accounting {
    counts: Mutex<Counts>,
}

struct Counts {
    sketch: Sketch,
    window: Window,
}

impl Accounting {
    pub(crate) fn new(now: Moment) -> Self {
        let (sketch, window) = (Sketch::new(limits::USER_COUNTERS), Window::begin(now));
        Self { counts: Mutex::new(Counts { sketch, window }) }
    }

    /// Counts an answer from L1, mostly by doing nothing. Never waits: a sample that meets another at the counters is left out,
    /// whosever it is.
    #[inline]
    pub(crate) fn hit(&self, user: &str, bytes: usize, now: Moment) {
        if rand::random::<u32>().is_multiple_of(limits::HITS_PER_SAMPLE) {
            self.sampled_hit(user, bytes, now);
        }
    }

    #[cold]
    fn sampled_hit(&self, user: &str, bytes: usize, now: Moment) {
        let mut counts = match self.counts.try_lock() {
            Ok(counts) => counts,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        counts.add(user, Amount::of_request(bytes as u64).times(u64::from(limits::HITS_PER_SAMPLE)), now);
    }

    /// Counts a request that was answered any other way, with the bytes of its body and its answer's.
    pub(crate) fn request(&self, user: &str, bytes: u64) {
        self.lock().add(user, Amount::of_request(bytes), Moment::now());
    }

    /// Counts what a request had done beside that.
    pub(crate) fn work(&self, user: &str, work: Work) {
        self.lock().add(user, Amount::of_work(work), Moment::now());
    }

    /// The users that cost most, first the one that costs most, at most `limit`.
    pub(crate) fn top(&self, node: NodeId, incarnation: Incarnation, limit: usize, now: Moment) -> UsersReport {
        let (mut counters, total, window) = {
            let mut counts = self.lock();
            counts.advance(now);
            (counts.sketch.counters().to_vec(), counts.sketch.total(), counts.window.length(now))
        };
        let users_counted = counters.len();
        counters.sort_by(|one, other| {
            other.certain_cost().cmp(&one.certain_cost()).then_with(|| one.user.cmp(&other.user))
        });
        counters.truncate(limit);
        UsersReport {
            node,
            incarnation,
            window_seconds: window.as_secs_f64(),
            requests_per_second: rate(total.requests, window),
            bytes_per_second: rate(total.bytes, window),
            cores: rate(total.cost_ns, window) / 1e9,
            users_counted,
            users: counters.iter().map(|counter| user_load(counter, total, window, now)).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn advance(&mut self, now: Moment) {
        match self.window.advance(now) {
            Due::Halvings(times) => (0..times).for_each(|_| self.sketch.halve()),
            Due::Clear => self.sketch.clear(),
        }
    }

    fn add(&mut self, user: &str, amount: Amount, now: Moment) {
        self.advance(now);
        self.sketch.add(user, amount, now);
    }
}

fn user_load(counter: &Counter, total: Amount, window: Duration, now: Moment) -> UserLoad {
    let share = |cost: u64| cost as f64 / total.cost_ns.max(1) as f64;
    UserLoad {
        user: counter.user.to_string(),
        requests_per_second: rate(counter.amount.requests, window),
        bytes_per_second: rate(counter.amount.bytes, window),
        cores: rate(counter.certain_cost(), window) / 1e9,
        share: share(counter.certain_cost()),
        share_at_most: share(counter.amount.cost_ns).min(1.0),
        counted_seconds: now.since(counter.since).as_secs(),
    }
}

fn rate(sum: u64, window: Duration) -> f64 {
    sum as f64 / window.as_secs_f64()
}

#[cfg(test)]
mod tests;
