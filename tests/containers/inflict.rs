//! Faults as they happen: each target has its own one after the other, at the planned times. One whose time has passed
//! before the last is over, for the engine takes its time too, is left out.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::future::{join_all, try_join_all};
use tests::chaos::schedule::Planned;
use tests::poll::until;
use tokio::time::sleep;

use crate::change::Change;
use crate::engine::{Ended, docker};
use crate::fault::{Fault, Target, Who};
use crate::stack::Stack;

/// How long Redis may take until it can be flushed.
const FLUSH_BOUND: Duration = Duration::from_secs(10);
/// How late a fault may begin.
const LATE_MAX: Duration = Duration::from_secs(2);

/// What was done, and what went wrong with doing it.
#[derive(Debug, Default)]
pub(crate) struct Inflicted {
    /// In words, with the time since the start.
    lines: Mutex<Vec<(Duration, String)>>,
    /// Faults by kind.
    made: Mutex<BTreeMap<&'static str, usize>>,
    /// Faults that could not be made or ended: the run did not test what it says.
    troubles: Mutex<Vec<String>>,
    /// What migrators have printed.
    migrators: Mutex<String>,
}

/// Makes every fault and ends it; returns when all have ended.
pub(crate) async fn inflict(stack: &Stack, faults: &[Planned<Fault>]) -> Inflicted {
    let inflicted = Inflicted::default();
    let started = Instant::now();
    let mut by_target: BTreeMap<Target, Vec<&Planned<Fault>>> = BTreeMap::new();
    for planned in faults {
        by_target.entry(planned.fault.target()).or_default().push(planned);
    }
    let target = async |faults: Vec<&Planned<Fault>>| {
        for (number, planned) in faults.into_iter().enumerate() {
            sleep(planned.at.saturating_sub(started.elapsed())).await;
            if started.elapsed() > planned.ends() + LATE_MAX {
                inflicted.say(started, format!("{:?} is left out", planned.fault));
                continue;
            }
            *lock(&inflicted.made).entry(planned.fault.kind()).or_default() += 1;
            inflicted.say(started, format!("{:?} for {:?}", planned.fault, planned.lasting));
            if let Err(error) = one(stack, &inflicted, number, planned).await {
                lock(&inflicted.troubles).push(format!("{:?}: {error:#}", planned.fault));
            }
            inflicted.say(started, format!("{:?} is over", planned.fault));
        }
    };
    join_all(by_target.into_values().map(target)).await;
    inflicted
}

impl Inflicted {
    /// What was done, a line each, in order.
    pub(crate) fn story(&self) -> String {
        let mut lines = lock(&self.lines).clone();
        lines.sort();
        lines.iter().map(|(at, what)| format!("{:8.3} s: {what}\n", at.as_secs_f64())).collect()
    }

    /// Faults by kind.
    pub(crate) fn made(&self) -> String {
        let made = lock(&self.made);
        made.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn troubles(&self) -> Vec<String> {
        lock(&self.troubles).clone()
    }

    /// What migrators have printed.
    pub(crate) fn migrators(&self) -> String {
        lock(&self.migrators).clone()
    }

    /// Keeps what a migrator has printed.
    pub(crate) fn keep(&self, verb: &str, ended: &Ended) {
        let how = if ended.well { "done" } else { "not done" };
        *lock(&self.migrators) += &format!("--- {verb}: {how}\n{}\n{}\n", ended.stdout, ended.stderr);
    }

    fn say(&self, started: Instant, what: String) {
        lock(&self.lines).push((started.elapsed(), what));
    }
}

async fn one(stack: &Stack, inflicted: &Inflicted, number: usize, planned: &Planned<Fault>) -> anyhow::Result<()> {
    match planned.fault {
        Fault::Change { verb, pick, ending } => {
            Change { verb, pick, ending, lasting: planned.lasting }.run(stack, inflicted, number).await
        }
        fault => {
            begin(stack, fault).await?;
            sleep(planned.lasting).await;
            end(stack, fault).await
        }
    }
}

async fn begin(stack: &Stack, fault: Fault) -> anyhow::Result<()> {
    match fault {
        Fault::Kill(who) => stack.act("kill", who).await,
        Fault::Pause(who) => stack.pause(who).await,
        Fault::Stop(who) => stack.act("stop", who).await,
        Fault::Restart(who) => stack.act("restart", who).await,
        Fault::Cut(who, network) => stack.disconnect(who, network).await,
        Fault::Isolate(who) => {
            try_join_all(who.networks().into_iter().map(|network| stack.disconnect(who, network))).await.map(drop)
        }
        Fault::Flush => flush(stack).await,
        Fault::Change { .. } => Ok(()),
    }
}

/// Of Valkey or Redis, which may have started a moment ago.
async fn flush(stack: &Stack) -> anyhow::Result<()> {
    let command = "valkey-cli flushall || redis-cli flushall";
    let flushed = until(FLUSH_BOUND, async || {
        docker(&["exec", stack.container(Who::Redis), "sh", "-c", command]).await.is_ok().then_some(())
    });
    flushed.await.context("no flush in time")
}

async fn end(stack: &Stack, fault: Fault) -> anyhow::Result<()> {
    match fault {
        Fault::Kill(who) | Fault::Stop(who) => stack.act("start", who).await,
        Fault::Pause(who) => stack.act("unpause", who).await,
        Fault::Cut(who, network) => stack.connect(who, network).await,
        Fault::Isolate(who) => {
            try_join_all(who.networks().into_iter().map(|network| stack.connect(who, network))).await.map(drop)
        }
        Fault::Restart(_) | Fault::Flush | Fault::Change { .. } => Ok(()),
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
