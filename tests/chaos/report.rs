//! What a run that passed was: a row of a table, and the sum of all.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use tests::linearizable::Checked;
use tests::postgres::PostgresServer;

use crate::heal::Healed;

/// The titles of the columns.
pub(crate) const TITLES: &str = "| seed | load | operations | reads | writes | unknown | refused | per s | faults | changes done | \
aborted | takeovers | readmissions | drains | served after | settled after | from L2 |\n\
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |";

/// Changes of the ring, as the journal has them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ring {
    /// Those that operators asked for.
    pub(crate) done: u64,
    /// Whoever asked for them.
    pub(crate) aborted: u64,
    pub(crate) takeovers: u64,
    /// Members that were let in again.
    pub(crate) readmissions: u64,
    /// Members that had their slots handed off to stop.
    pub(crate) drains: u64,
}

/// A run without a fault of ours.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    pub(crate) seed: u64,
    pub(crate) loaded: Duration,
    /// Operations of the clients; the others are of the end.
    pub(crate) under_load: usize,
    pub(crate) checked: Checked,
    /// Of reads and of writes.
    pub(crate) errors: [BTreeMap<String, u64>; 2],
    pub(crate) hung_up: u64,
    pub(crate) faults: BTreeMap<&'static str, u64>,
    pub(crate) notes: BTreeMap<&'static str, u64>,
    pub(crate) ring: Ring,
    pub(crate) healed: Healed,
    pub(crate) from_l2: u64,
}

impl Ring {
    pub(crate) async fn of(postgres: &PostgresServer) -> anyhow::Result<Self> {
        let sql = "SELECT phase, split_part(action, ' ', 1), count(*) FROM ring_changes GROUP BY 1, 2";
        let mut ring = Self::default();
        for line in postgres.sql(sql).await?.lines() {
            let [phase, verb, count] = line.split('|').collect::<Vec<_>>()[..] else { continue };
            let sum = match (phase, verb) {
                ("done", "takeover") => &mut ring.takeovers,
                ("done", "readmit") => &mut ring.readmissions,
                ("done", "drain") => &mut ring.drains,
                ("done", _) => &mut ring.done,
                _ => &mut ring.aborted,
            };
            *sum += count.parse::<u64>()?;
        }
        Ok(ring)
    }
}

impl Passed {
    /// One line.
    pub(crate) fn row(&self) -> String {
        let Self { seed, loaded, under_load, checked, ring, healed, from_l2, .. } = self;
        let seconds = loaded.as_secs_f64();
        let Checked { operations, reads, writes, unknown, refused, .. } = checked;
        let per_second = *under_load as f64 / seconds;
        let Ring { done, aborted, takeovers, readmissions, drains } = ring;
        let mut row =
            format!("| {seed} | {seconds:.0} s | {operations} | {reads} | {writes} | {unknown} | {refused} | ");
        let _ = write!(row, "{per_second:.0} | {} | {done} | {aborted} | ", sum(&self.faults));
        let _ = write!(row, "{takeovers} | {readmissions} | {drains} | ");
        let (served, settled) = (healed.served.as_secs_f64(), healed.settled.as_secs_f64());
        let _ = write!(row, "{served:.1} s | {settled:.1} s | {from_l2} |");
        row
    }
}

/// The sums of all runs.
pub(crate) fn totals(runs: &[Passed]) -> String {
    let mut text = String::new();
    let total = |count: fn(&Passed) -> u64| runs.iter().map(count).sum::<u64>();
    let operations = total(|run| run.checked.operations as u64);
    let seconds = runs.iter().map(|run| run.loaded).sum::<Duration>().as_secs_f64();
    let _ = writeln!(
        text,
        "{} seeds, {seconds:.0} s of load, {operations} operations checked ({} reads, {} writes, {} unknown, {} refused), 0 \
         violations; {} requests hung up on; {} changes done, {} aborted, {} takeovers, {} readmissions, {} drains; {} answers from L2 after a restart",
        runs.len(),
        total(|run| run.checked.reads as u64),
        total(|run| run.checked.writes as u64),
        total(|run| run.checked.unknown as u64),
        total(|run| run.checked.refused as u64),
        total(|run| run.hung_up),
        total(|run| run.ring.done),
        total(|run| run.ring.aborted),
        total(|run| run.ring.takeovers),
        total(|run| run.ring.readmissions),
        total(|run| run.ring.drains),
        total(|run| run.from_l2),
    );
    let served = runs.iter().map(|run| run.healed.served).max().unwrap_or_default();
    let settled = runs.iter().map(|run| run.healed.settled).max().unwrap_or_default();
    let _ = writeln!(text, "served after at most {served:.1?}, settled after at most {settled:.1?}");
    let _ = writeln!(
        text,
        "faults: {:?}; beside them: {:?}",
        merged(runs, |run| &run.faults),
        merged(runs, |run| &run.notes)
    );
    let read_errors = merged(runs, |run| &run.errors[0]);
    let write_errors = merged(runs, |run| &run.errors[1]);
    let _ = write!(text, "reads not answered: {read_errors:?}; writes not done: {write_errors:?}");
    text
}

fn sum(counts: &BTreeMap<&'static str, u64>) -> u64 {
    counts.values().sum()
}

fn merged<K: Ord + Clone>(runs: &[Passed], counts: impl Fn(&Passed) -> &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let mut merged = BTreeMap::new();
    for (key, count) in runs.iter().flat_map(counts) {
        *merged.entry(key.clone()).or_default() += count;
    }
    merged
}
