//! Rounds of load: A B A B …, and the medians of each.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, bail};

use super::bench::Bench;
use super::process::{Core, Process, output};
use crate::keyspace::KeySpace;
use crate::limits;
use crate::load::Report;

/// What a run of `bench-load` is, beside its target.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) connections: usize,
    pub(crate) keys: u64,
    pub(crate) space: KeySpace,
    /// Further arguments.
    pub(crate) more: Vec<String>,
}

impl Shape {
    /// Reads of uniformly drawn keys.
    pub(crate) fn reads(bench: &Bench, connections: usize, value_bytes: usize) -> Self {
        let space = KeySpace { users: bench.scale.users, value_bytes };
        Self { connections, keys: bench.scale.keys, space, more: Vec::new() }
    }

    /// The same with further arguments.
    pub(crate) fn with(mut self, more: &[&str]) -> Self {
        self.more.extend(more.iter().map(|text| (*text).to_owned()));
        self
    }

    /// Each key once, in order.
    pub(crate) fn each_once(self) -> Self {
        let keys = self.keys.to_string();
        self.with(&["--distribution", "sequential", "--requests", &keys])
    }

    /// All keys by multi-get.
    pub(crate) fn mget(mut self) -> Self {
        self.connections = 8;
        self.with(&["--method", "mget"])
    }
}

/// A server in a comparison.
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a str,
    pub(crate) target: SocketAddr,
    /// It has one answer, and one key is asked for.
    pub(crate) same_body: bool,
    /// The processes whose time counts: all on the server's core.
    pub(crate) under_test: Vec<&'a Process>,
    /// Those that work for it on the load's core.
    pub(crate) beside: Vec<&'a Process>,
}

/// Medians of a subject's rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Medians {
    pub(crate) rps: f64,
    /// Of the processes under test, per answer.
    pub(crate) cpu_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// How busy the server's core was with the processes under test, and the load's core with the rest, 0 to 1.
    pub(crate) busy: (f64, f64),
    /// Answers in all rounds together.
    pub(crate) answers: u64,
    /// Failed and wrong answers in all rounds together.
    pub(crate) errors: u64,
    /// The smallest and the largest round.
    pub(crate) rps_range: (f64, f64),
}

/// Runs the load generator once, on a core.
pub(crate) fn load(
    bench: &Bench,
    target: SocketAddr,
    shape: &Shape,
    core: Core,
    more: &[&str],
) -> anyhow::Result<Report> {
    let launch = bench.launch("bench-load", core);
    let mut command = launch.command(bench.program("bench-load")?);
    let KeySpace { users, value_bytes } = shape.space;
    command.args(["--target", &target.to_string(), "--connections", &shape.connections.to_string()]);
    command.args(["--keys", &shape.keys.to_string(), "--users", &users.to_string()]);
    command.args(["--value-bytes", &value_bytes.to_string()]).args(&shape.more).args(more);
    report(&mut command)
}

/// Runs a program that prints a [`Report`].
pub(crate) fn report(command: &mut Command) -> anyhow::Result<Report> {
    let ended = output(command, limits::FILL + limits::LOAD_SLACK)?;
    // Errors in the report make the exit code; the table shows them.
    serde_json::from_slice(&ended.stdout).with_context(|| String::from_utf8_lossy(&ended.stderr).into_owned())
}

/// Warms by asking for every key once; every answer must be right.
pub(crate) fn warm(bench: &Bench, target: SocketAddr, shape: &Shape) -> anyhow::Result<Report> {
    let report = load(bench, target, shape, Core::Load, &[])?;
    if report.errors.is_empty() { Ok(report) } else { bail!("the warm-up failed: {:?}", report.errors) }
}

/// All subjects in turn, so many times.
pub(crate) fn interleave(bench: &Bench, subjects: &[Subject], shape: &Shape) -> anyhow::Result<Vec<Medians>> {
    let mut reports: Vec<Vec<Report>> = subjects.iter().map(|_| Vec::new()).collect();
    for _ in 0..bench.scale.rounds {
        for (subject, reports) in subjects.iter().zip(&mut reports) {
            reports.push(one(bench, subject, shape)?);
        }
    }
    Ok(subjects.iter().zip(&reports).map(|(subject, reports)| Medians::of(subject.under_test.len(), reports)).collect())
}

fn one(bench: &Bench, subject: &Subject, shape: &Shape) -> anyhow::Result<Report> {
    let pids: Vec<String> = subject.under_test.iter().chain(&subject.beside).map(|one| one.pid().to_string()).collect();
    let (seconds, warm_up) = (bench.scale.seconds.to_string(), bench.scale.warm_up.to_string());
    let pids = pids.join(",");
    let mut more = vec!["--seconds", &seconds, "--warm-up", &warm_up, "--cpu-of", &pids];
    if subject.same_body {
        more.push("--same-body");
    }
    let shape = if subject.same_body { one_key(shape) } else { shape.clone() };
    load(bench, subject.target, &shape, Core::Load, &more)
}

/// For a server that has the value of key 0 of the only user.
fn one_key(shape: &Shape) -> Shape {
    let space = KeySpace { users: 1, ..shape.space };
    Shape { keys: 1, space, ..shape.clone() }
}

impl Medians {
    /// Of rounds in which the first `under_test` processes were those under test.
    pub(crate) fn of(under_test: usize, reports: &[Report]) -> Self {
        let of = |value: &dyn Fn(&Report) -> f64| median(reports.iter().map(value).collect());
        let server = |report: &Report| report.cpu_us.iter().take(under_test).sum::<f64>();
        let beside = |report: &Report| report.cpu_us.iter().skip(under_test).sum::<f64>() + report.own_cpu_us;
        let share = |us: f64, report: &Report| us / 1e6 / report.seconds.max(f64::EPSILON);
        let rates = || reports.iter().map(|report| report.rps);
        Self {
            rps: of(&|report| report.rps),
            cpu_us: of(&|report| server(report) / report.answers.max(1) as f64),
            p50_us: of(&|report| report.p50_us),
            p99_us: of(&|report| report.p99_us),
            busy: (of(&|report| share(server(report), report)), of(&|report| share(beside(report), report))),
            answers: reports.iter().map(|report| report.answers).sum(),
            errors: reports.iter().flat_map(|report| report.errors.values()).sum(),
            rps_range: (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max)),
        }
    }
}

/// The middle one; of an even number the lower of the two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_rounds_and_sums_of_answers() {
        let round = |rps: f64| Report { rps, answers: 10, seconds: 1.0, cpu_us: vec![rps, 5.0], ..Report::default() };
        let medians = Medians::of(1, &[round(30.0), round(10.0), round(20.0)]);
        assert_eq!((medians.rps, medians.answers, medians.cpu_us), (20.0, 30, 2.0));
        assert_eq!(medians.rps_range, (10.0, 30.0));
        assert_eq!(median(vec![4.0, 1.0]), 1.0);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
