//! What the nodes of a change do for their users while it runs: their load reports, round after round.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use origin::{ChangeRow, NodeRow};
use placement::NodeId;
use tokio::time::{Instant, timeout};
use wire::control::LoadReport;

use crate::limits::COPY_CALL_WAIT;
use crate::pace::{Window, window};
use crate::phases::Tools;

/// A rate of a shorter time would be one of chance.
const RATE_SECONDS_MIN: f64 = 0.2;

/// The rounds of one change, added up.
#[derive(Debug, Default)]
pub struct ClusterLoad {
    last: Option<(Instant, Vec<LoadReport>)>,
    origin_reads: Option<u64>,
    seconds: f64,
    per_second_before_flip: Option<f64>,
}

impl ClusterLoad {
    /// Asks all nodes of the change that are up; answers what they did since the round before, if that is long enough ago
    /// to tell anything.
    pub(crate) async fn round(&mut self, tools: &Tools, change: &ChangeRow, rows: &[NodeRow]) -> Option<Window> {
        let reports = ask(tools, change, rows).await;
        self.take(Instant::now(), reports)
    }

    fn take(&mut self, now: Instant, reports: Vec<LoadReport>) -> Option<Window> {
        if reports.is_empty() {
            return None;
        }
        let newest = self.last.as_ref().map(|(at, before)| {
            let elapsed = now.saturating_duration_since(*at);
            (window(before, &reports, elapsed), elapsed.as_secs_f64())
        });
        self.last = Some((now, reports));
        let (window, seconds) = newest?;
        *self.origin_reads.get_or_insert(0) += window.origin_reads;
        self.seconds += seconds;
        (seconds >= RATE_SECONDS_MIN).then_some(window)
    }

    /// From here on writes wait, and then the ring is another one.
    pub(crate) fn flip_begins(&mut self) {
        let reads = self.origin_reads.filter(|_| self.seconds >= RATE_SECONDS_MIN);
        self.per_second_before_flip = reads.map(|reads| reads as f64 / self.seconds);
    }

    /// Reads sent to the database in all rounds; `None` before the second round.
    pub fn origin_reads(&self) -> Option<u64> {
        self.origin_reads
    }

    /// Reads per second until the first seal; `None` when that was too short to tell.
    pub fn origin_reads_per_second_before(&self) -> Option<f64> {
        self.per_second_before_flip
    }
}

/// A node that does not answer is left out of the round.
async fn ask(tools: &Tools, change: &ChangeRow, rows: &[NodeRow]) -> Vec<LoadReport> {
    let members = change.members.iter().map(|member| &member.id);
    let concerned: BTreeSet<&NodeId> = change.moves.iter().map(|moving| &moving.from).chain(members).collect();
    let up = rows.iter().filter(|row| row.lease_left_ms > 0 && concerned.contains(&row.id));
    let calls = up.map(|row| async {
        let answer = timeout(COPY_CALL_WAIT, tools.nodes.load(&row.address)).await.ok()?.ok()?;
        (answer.node == row.id).then_some(answer)
    });
    join_all(calls).await.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use placement::Incarnation;

    use super::*;

    fn reads(origin_reads: u64) -> Vec<LoadReport> {
        let node = "n1".parse().expect("a node id");
        vec![LoadReport { node, incarnation: Incarnation(1), durations: Vec::new(), origin_reads }]
    }

    #[test]
    fn reads_are_counted_from_the_first_round_and_their_rate_until_the_flip() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut load = ClusterLoad::default();
        assert_eq!(load.take(at(0), reads(1_000)), None);
        assert_eq!(load.origin_reads(), None);
        assert!(load.take(at(1_000), reads(1_010)).is_some());
        assert_eq!(load.take(at(1_500), Vec::new()), None, "nobody answered");
        load.take(at(2_000), reads(1_030));
        load.flip_begins();
        load.take(at(2_100), reads(1_100));
        assert_eq!((load.origin_reads(), load.origin_reads_per_second_before()), (Some(100), Some(15.0)));
    }

    #[test]
    fn a_moment_before_the_flip_makes_no_rate() {
        let start = Instant::now();
        let mut load = ClusterLoad::default();
        load.take(start, reads(0));
        load.take(start + Duration::from_millis(50), reads(5));
        load.flip_begins();
        assert_eq!((load.origin_reads(), load.origin_reads_per_second_before()), (Some(5), None));
    }
}
