//! Which nodes are ejected: those that fail more than the others, for a while, and only as many as can be spared. Pure: decides
//! from counters and a time that are given.
//!
//! After Envoy's outlier detection, with two differences. A node is held against the *others*, not against all: among three
//! nodes one that always fails is never 1.9 standard deviations below the mean of all. And what is no fault of a node does not
//! count: a node that is found silent is asked again as soon as it answers, and time-outs that the others have too are the
//! origin's.

mod history;

use std::collections::HashMap;
use std::time::Duration;

use history::{History, Recent};

/// How long back the success rate looks.
const WINDOW: Duration = Duration::from_secs(10);
/// How many failures in a row are too many.
const IN_A_ROW_MAX: u32 = 5;
/// With fewer answers in the window a rate says nothing.
const VOLUME_MIN: u64 = 50;
/// How many standard deviations below the mean of the others is too low; and how much at least, or a hair would do.
const DEVIATIONS: f64 = 1.9;
const RATE_MARGIN: f64 = 0.15;
/// How many times the median of the others is too slow; and how much more at least: a millisecond against a fifth is no illness.
const SLOWER_TIMES: f64 = 3.0;
const SLOWER_MIN_US: f64 = 50_000.0;
/// For how long a node is ejected: so long the first time, so many times as long after so many, up to the longest.
const EJECTED_BASE: Duration = Duration::from_secs(10);
const EJECTED_MAX: Duration = Duration::from_secs(300);
/// After how long without an ejection one is forgiven.
const FORGIVEN_AFTER: Duration = Duration::from_secs(60);
/// The share of the nodes that may be ejected at a time, in percent, and at least one.
const EJECTED_PERCENT_MAX: usize = 30;

/// What is known of a node, counted since ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Tries that say it is well.
    pub(crate) good: u64,
    /// Tries that failed by its own fault.
    pub(crate) failed: u64,
    /// Tries that got no answer in good time.
    pub(crate) timed_out: u64,
    /// Failures and time-outs since the last good answer.
    pub(crate) in_a_row: u32,
    /// How often all before became worthless.
    pub(crate) lapses: u64,
    /// Reads of which the time is known.
    pub(crate) reads_timed: u64,
    /// Their times together, in microseconds.
    pub(crate) reads_us: u64,
}

/// A node as it is at a look.
#[derive(Clone, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) name: &'a str,
    pub(crate) counts: Counts,
    /// Whether its health route answers, as far as is known.
    pub(crate) answers: bool,
    /// Whether it is being probed just now: it is not judged before that is over.
    pub(crate) probed: bool,
}

/// Why a node is ejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Failures in a row.
    InARow,
    /// A success rate far below that of the others.
    SuccessRate,
    /// Far slower than the others.
    Latency,
}

/// What a look came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Nodes ejected by this look.
    pub(crate) ejected: Vec<(String, Reason)>,
    /// Nodes whose time is over.
    pub(crate) back: Vec<String>,
    /// Nodes that are not to be asked from now on: all that are ejected, or none in a panic.
    pub(crate) avoided: Vec<String>,
    /// Whether fewer than half the nodes would be left, so that the ejected ones are used all the same.
    pub(crate) panic: bool,
}

/// Decides look by look.
#[derive(Debug)]
pub(crate) struct Detector {
    by_latency: bool,
    nodes: HashMap<String, Judged>,
}

#[derive(Debug, Default)]
struct Judged {
    history: History,
    ejected_until: Option<Duration>,
    /// How many ejections are not forgiven.
    times: u32,
    /// Since when it has not been ejected, or the last forgiveness.
    good_since: Duration,
}

impl Detector {
    pub(crate) fn new(by_latency: bool) -> Self {
        Self { by_latency, nodes: HashMap::new() }
    }

    /// Judges all nodes at `now`, a time that never goes back.
    pub(crate) fn look(&mut self, now: Duration, nodes: &[Seen<'_>]) -> Verdict {
        self.nodes.retain(|name, _| nodes.iter().any(|node| node.name == name));
        let mut verdict = Verdict::default();
        for node in nodes {
            let judged = self.nodes.entry(node.name.to_owned()).or_default();
            judged.history.note(now, node.counts);
            if judged.ejected_until.is_some_and(|until| until <= now) {
                judged.ejected_until = None;
                judged.good_since = now;
                judged.history.forget(node.counts);
                verdict.back.push(node.name.to_owned());
            }
            judged.forgive(now);
        }
        let mut suspects = self.suspects(nodes);
        suspects.sort_by(|one, other| other.badness.total_cmp(&one.badness));
        let cap = (nodes.len() * EJECTED_PERCENT_MAX / 100).max(1);
        let ejected = self.nodes.values().filter(|judged| judged.ejected_until.is_some()).count();
        for suspect in suspects.into_iter().take(cap.saturating_sub(ejected)) {
            if let Some(judged) = self.nodes.get_mut(suspect.name) {
                judged.eject(now);
                verdict.ejected.push((suspect.name.to_owned(), suspect.reason));
            }
        }
        let is_ejected = |node: &&Seen<'_>| self.nodes.get(node.name).is_some_and(|of| of.ejected_until.is_some());
        let well = nodes.iter().filter(|node| node.answers && !is_ejected(node)).count();
        verdict.panic = well * 2 < nodes.len();
        if !verdict.panic {
            verdict.avoided = nodes.iter().filter(is_ejected).map(|node| node.name.to_owned()).collect();
        }
        verdict
    }

    fn suspects<'a>(&self, nodes: &[Seen<'a>]) -> Vec<Suspect<'a>> {
        let recent: Vec<Recent> = nodes
            .iter()
            .map(|node| self.nodes.get(node.name).map_or_else(Recent::default, |of| of.history.recent()))
            .collect();
        let mut suspects = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let free = self.nodes.get(node.name).is_some_and(|judged| judged.ejected_until.is_none());
            if !free || !node.answers || node.probed {
                continue;
            }
            let others: Vec<Recent> =
                (0..nodes.len()).filter(|other| *other != index).map(|other| recent[other]).collect();
            if let Some((reason, badness)) = self.fault(node.counts.in_a_row, recent[index], &others) {
                suspects.push(Suspect { name: node.name, reason, badness });
            }
        }
        suspects
    }

    /// What is wrong with a node, and how bad it is; the worse, the more.
    fn fault(&self, in_a_row: u32, node: Recent, others: &[Recent]) -> Option<(Reason, f64)> {
        let timed_out = others.iter().filter(|other| other.timed_out > 0).count();
        // A read that the origin holds up times out at its owner, and at those who read past it too.
        let shared = timed_out > 0 && timed_out * 2 >= others.len();
        let failed = node.failed + if shared { 0 } else { node.timed_out };
        if in_a_row >= IN_A_ROW_MAX && failed >= u64::from(IN_A_ROW_MAX) {
            return Some((Reason::InARow, 2.0));
        }
        let rate = node.rate(shared)?;
        let rates: Vec<f64> = others.iter().filter_map(|other| other.rate(shared)).collect();
        if let Some((mean, deviation)) = mean_and_deviation(&rates)
            && rate < mean - (DEVIATIONS * deviation).max(RATE_MARGIN)
        {
            return Some((Reason::SuccessRate, 1.0 - rate));
        }
        if !self.by_latency {
            return None;
        }
        let mut times: Vec<f64> = others.iter().filter_map(|other| other.read_us()).collect();
        let (own, median) = (node.read_us()?, median(&mut times)?);
        (own > (median * SLOWER_TIMES).max(median + SLOWER_MIN_US)).then_some((Reason::Latency, 0.0))
    }
}

/// A node that deserves it.
struct Suspect<'a> {
    name: &'a str,
    reason: Reason,
    badness: f64,
}

impl Judged {
    fn eject(&mut self, now: Duration) {
        self.times += 1;
        self.ejected_until = Some(now + (EJECTED_BASE * self.times).min(EJECTED_MAX));
        // More would be forgiven later than the longest ejection asks for.
        self.times = self.times.min((EJECTED_MAX.as_secs() / EJECTED_BASE.as_secs()) as u32);
    }

    fn forgive(&mut self, now: Duration) {
        while self.ejected_until.is_none() && self.times > 0 && now.saturating_sub(self.good_since) >= FORGIVEN_AFTER {
            self.times -= 1;
            self.good_since += FORGIVEN_AFTER;
        }
    }
}

fn mean_and_deviation(values: &[f64]) -> Option<(f64, f64)> {
    if values.is_empty() {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    Some((mean, variance.sqrt()))
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests;
