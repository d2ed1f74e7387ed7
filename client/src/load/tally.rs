//! Counting: latencies, tiers, errors and wrong bodies of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::register::Violation;
use crate::gateway_client::ClientError;
use crate::tier::Tier;

/// Latencies over this are counted as this: more than any request may take, waiting for the schedule included.
const LATENCY_MAX_US: u64 = 600_000_000;
/// Three digits: p99.9 is right to a thousandth.
const DIGITS: u8 = 3;

/// Why a body was not the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wrong {
    /// The checksum does not hold.
    Damaged,
    /// The value of another user or key.
    OtherEntry,
    /// Not what a register may return.
    Violation(Violation),
}

impl Wrong {
    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::OtherEntry => "other_entry",
            Self::Violation(Violation::Lost) => "lost",
            Self::Violation(Violation::Stale) => "stale",
            Self::Violation(Violation::NeverWritten) => "never_written",
        }
    }
}

/// The class an error is counted in: its problem code where it has one.
pub(crate) fn error_class(error: &ClientError) -> &'static str {
    match error {
        ClientError::Refused(problem) => problem.code.name(),
        ClientError::Unreachable(error) if error.is_timeout() => "timeout",
        ClientError::Unreachable(_) => "unreachable",
        ClientError::Malformed(_) => "malformed_answer",
        ClientError::KeyNotAddressable | ClientError::Unavailable(_) => "not_sent",
    }
}

/// What one run has counted so far.
pub(crate) struct Tally {
    pub(crate) reads: Histogram<u64>,
    pub(crate) writes: Histogram<u64>,
    pub(crate) tiers: BTreeMap<Tier, u64>,
    /// Reads that rightly found nothing.
    pub(crate) absent: u64,
    /// Reads whose answer names no tier.
    pub(crate) unnamed_tier: u64,
    pub(crate) errors: BTreeMap<&'static str, u64>,
    pub(crate) wrong: BTreeMap<Wrong, u64>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            reads: histogram(),
            writes: histogram(),
            tiers: BTreeMap::new(),
            absent: 0,
            unnamed_tier: 0,
            errors: BTreeMap::new(),
            wrong: BTreeMap::new(),
        }
    }

    /// A read that was answered with a value, by that tier.
    pub(crate) fn hit(&mut self, tier: Option<Tier>) {
        match tier {
            Some(tier) => *self.tiers.entry(tier).or_default() += 1,
            None => self.unnamed_tier += 1,
        }
    }

    pub(crate) fn error(&mut self, error: &ClientError) {
        *self.errors.entry(error_class(error)).or_default() += 1;
    }

    pub(crate) fn wrong(&mut self, wrong: Wrong) {
        *self.wrong.entry(wrong).or_default() += 1;
    }
}

pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_MAX_US, DIGITS).expect("the bounds are valid")
}

/// Adds a latency, in whole microseconds.
pub(crate) fn record(histogram: &mut Histogram<u64>, latency: Duration) {
    histogram.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(LATENCY_MAX_US));
}
