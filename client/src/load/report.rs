//! What a run prints: as text for people, as JSON for scripts.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::tally::{Tally, histogram};
use crate::tier::Tier;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Repeats the keys and the mix.
    pub seed: u64,
    /// Arrivals, each answered or failed.
    pub requests: u64,
    /// From the first arrival to the last answer, in seconds.
    pub seconds: f64,
    /// Requests a second by the schedule.
    pub offered_rps: f64,
    /// Requests a second answered without an error.
    pub rps: f64,
    /// Of reads and writes together.
    pub latency: Latency,
    /// Of answered reads.
    pub reads: Latency,
    /// Of acknowledged writes.
    pub writes: Latency,
    /// Reads per tier that answered; `absent` found nothing, `unnamed` did not say.
    pub tiers: BTreeMap<&'static str, u64>,
    /// Requests that failed, per problem code or kind of failure.
    pub errors: BTreeMap<&'static str, u64>,
    /// Reads whose body was not right, per reason.
    pub wrong: BTreeMap<&'static str, u64>,
}

/// Latencies in microseconds, counted from the scheduled arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Half were faster.
    pub p50_us: u64,
    /// One in a hundred was slower.
    pub p99_us: u64,
    /// One in a thousand was slower.
    pub p99_9_us: u64,
    /// The slowest.
    pub max_us: u64,
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            count: histogram.len(),
            p50_us: histogram.value_at_quantile(0.5),
            p99_us: histogram.value_at_quantile(0.99),
            p99_9_us: histogram.value_at_quantile(0.999),
            max_us: histogram.max(),
        }
    }
}

impl Report {
    pub(crate) fn new(seed: u64, offered_rps: f64, took: Duration, tally: &Tally) -> Self {
        let mut all = histogram();
        all.add(&tally.reads).expect("histograms of the same bounds");
        all.add(&tally.writes).expect("histograms of the same bounds");
        let errors: BTreeMap<_, _> = tally.errors.iter().map(|(class, count)| (*class, *count)).collect();
        let named = Tier::ALL.map(|tier| (tier.name(), tally.tiers.get(&tier).copied().unwrap_or(0)));
        let rest = [("absent", tally.absent), ("unnamed", tally.unnamed_tier)];
        Self {
            seed,
            requests: all.len() + errors.values().sum::<u64>(),
            seconds: took.as_secs_f64(),
            offered_rps,
            rps: all.len() as f64 / took.as_secs_f64().max(f64::EPSILON),
            latency: Latency::of(&all),
            reads: Latency::of(&tally.reads),
            writes: Latency::of(&tally.writes),
            tiers: named.into_iter().chain(rest).collect(),
            errors,
            wrong: tally.wrong.iter().map(|(wrong, count)| (wrong.name(), *count)).collect(),
        }
    }

    /// No error and no wrong body.
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty() && self.wrong.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed      {}", self.seed)?;
        writeln!(f, "requests  {} in {:.2} s", self.requests, self.seconds)?;
        writeln!(f, "rps       {:.0} answered, {:.0} offered", self.rps, self.offered_rps)?;
        for (name, latency) in [("all", self.latency), ("reads", self.reads), ("writes", self.writes)] {
            let ms = |us: u64| us as f64 / 1000.0;
            let [p50, p99, p99_9, max] = [latency.p50_us, latency.p99_us, latency.p99_9_us, latency.max_us].map(ms);
            writeln!(
                f,
                "{name:<9} {:>9}  p50 {p50:.3} ms  p99 {p99:.3} ms  p99.9 {p99_9:.3} ms  max {max:.3} ms",
                latency.count
            )?;
        }
        let share = |count: u64| 100.0 * count as f64 / self.reads.count.max(1) as f64;
        let tiers = self.tiers.iter().filter(|(_, count)| **count > 0);
        let tiers: Vec<_> = tiers.map(|(tier, count)| format!("{tier} {count} ({:.1} %)", share(*count))).collect();
        writeln!(f, "tiers     {}", listed(&tiers))?;
        let counts = |counts: &BTreeMap<&str, u64>| {
            listed(&counts.iter().map(|(class, count)| format!("{class} {count}")).collect::<Vec<_>>())
        };
        writeln!(f, "errors    {}", counts(&self.errors))?;
        write!(f, "wrong     {}", counts(&self.wrong))
    }
}

fn listed(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::super::register::Violation;
    use super::super::tally::{Wrong, record};
    use super::*;

    fn thousand_reads() -> Tally {
        let mut tally = Tally::new();
        for number in 1..=1000 {
            record(&mut tally.reads, Duration::from_micros(number * 10));
            tally.hit(Some(Tier::L1));
        }
        tally
    }

    fn about(actual: u64, expected: u64) -> bool {
        actual.abs_diff(expected) * 1000 <= expected
    }

    #[test]
    fn quantiles_are_those_of_the_recorded_latencies() {
        let report = Report::new(9, 500.0, Duration::from_secs(2), &thousand_reads());
        let latency = report.reads;
        assert_eq!((latency.count, latency.max_us / 1000), (1000, 10));
        assert!(
            about(latency.p50_us, 5000) && about(latency.p99_us, 9900) && about(latency.p99_9_us, 9990),
            "{latency:?}"
        );
        assert_eq!((report.requests, report.rps, report.latency), (1000, 500.0, report.reads));
        assert!(report.is_clean());
    }

    #[test]
    fn one_error_or_one_wrong_body_makes_a_run_unclean() {
        let mut tally = thousand_reads();
        tally.wrong(Wrong::Violation(Violation::Stale));
        let report = Report::new(9, 500.0, Duration::from_secs(2), &tally);
        assert!(!report.is_clean());
        assert!(report.to_string().ends_with("errors    none\nwrong     stale 1"), "{report}");
        let mut tally = thousand_reads();
        tally.error(&crate::ClientError::KeyNotAddressable);
        let report = Report::new(9, 500.0, Duration::from_secs(2), &tally);
        assert_eq!((report.requests, report.is_clean()), (1001, false));
    }

    #[test]
    fn json_and_text_hold_tiers_and_quantiles() {
        let report = Report::new(9, 500.0, Duration::from_secs(2), &thousand_reads());
        let json = serde_json::to_value(&report).expect("json");
        assert_eq!((&json["tiers"]["l1"], &json["tiers"]["l2"], &json["seed"]), (&1000.into(), &0.into(), &9.into()));
        assert!(json["latency"]["p99_9_us"].is_u64());
        assert!(report.to_string().contains("tiers     l1 1000 (100.0 %)"), "{report}");
    }
}
