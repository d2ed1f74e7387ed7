//! Active checks: each node's health route is asked now and then, whether or not there are requests for it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::limits;
use crate::upstream::Upstream;

/// After how many failed checks in a row a node is unhealthy.
const FAILURES: u32 = 3;
/// After how many good ones it is healthy again.
const SUCCESSES: u32 = 2;

/// What a node's checks have come to. Pure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Streak {
    unhealthy: bool,
    /// Checks in a row that say otherwise.
    against: u32,
}

impl Streak {
    /// Notes a check; whether the node is unhealthy now, if that has changed.
    pub(crate) fn note(&mut self, well: bool) -> Option<bool> {
        if well != self.unhealthy {
            self.against = 0;
            return None;
        }
        self.against += 1;
        if self.against < if self.unhealthy { SUCCESSES } else { FAILURES } {
            return None;
        }
        *self = Self { unhealthy: !self.unhealthy, against: 0 };
        Some(self.unhealthy)
    }

    /// How long until the next check: soon where the last one said that something has changed, or the node is unhealthy.
    fn pause(&self, every: Duration) -> Duration {
        if self.unhealthy { every.min(limits::PROBE_EVERY) } else { every }
    }
}

/// Checks a node until no ring names it any more.
pub(crate) async fn check(upstream: Weak<Upstream>, every: Duration) {
    let mut streak = Streak::default();
    // Many nodes are met at once, when the gateway learns its ring.
    tokio::time::sleep(every.mul_f64(rand::random_range(0.0..1.0))).await;
    loop {
        {
            let Some(upstream) = upstream.upgrade() else { return };
            let well = upstream.answers_its_health_route().await;
            if let Some(unhealthy) = streak.note(well) {
                note(&upstream, unhealthy);
            }
        }
        tokio::time::sleep(streak.pause(every).mul_f64(rand::random_range(0.9..1.1))).await;
    }
}

fn note(upstream: &Arc<Upstream>, unhealthy: bool) {
    upstream.standing().set_unhealthy(unhealthy);
    if unhealthy {
        upstream.load().forgive();
        tracing::warn!(node = upstream.address(), "the node fails its health checks: its users' writes get 503");
    } else {
        tracing::info!(node = upstream.address(), "the node passes its health checks again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_unhealthy_after_three_failures_in_a_row_and_healthy_after_two_successes() {
        let mut streak = Streak::default();
        let noted: Vec<_> = [false, false, true, false, false, false, false, true, false, true, true, true]
            .into_iter()
            .map(|well| streak.note(well))
            .collect();
        let changes: Vec<_> = noted.iter().enumerate().filter_map(|(at, change)| Some((at, (*change)?))).collect();
        assert_eq!(changes, [(5, true), (10, false)]);
    }

    #[test]
    fn an_unhealthy_node_is_asked_more_often() {
        let every = Duration::from_secs(2);
        let mut streak = Streak::default();
        assert_eq!(streak.pause(every), every);
        for _ in 0..FAILURES {
            streak.note(false);
        }
        assert_eq!(streak.pause(every), limits::PROBE_EVERY);
        assert_eq!(streak.pause(Duration::from_millis(100)), Duration::from_millis(100));
    }
}
