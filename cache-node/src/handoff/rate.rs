//! How fast all streams of a node together may copy: a rate that the migrator sets, and changes while they run.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use crate::limits;

/// How long a paused copy waits before it looks again: the notification does the rest.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Bytes per second; no bound until one is set.
#[derive(Default)]
pub(super) struct Rate {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// 0: paused.
    bytes_per_second: Option<u64>,
    /// When the bytes taken so far are paid for.
    free_at: Option<Instant>,
}

impl Rate {
    pub(super) fn set(&self, bytes_per_second: Option<u64>) {
        let mut state = self.lock();
        if state.bytes_per_second != bytes_per_second {
            *state = State { bytes_per_second, free_at: None };
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// How many bytes may be taken at a time: under a bound so few that copying goes on evenly.
    pub(super) fn turn_max(&self) -> u64 {
        let rate = self.lock().bytes_per_second;
        rate.map_or(limits::HANDOFF_TURN_BYTES, |rate| {
            (rate / limits::HANDOFF_TURNS_PER_SECOND).min(limits::HANDOFF_TURN_BYTES)
        })
    }

    /// Returns when so many bytes may be copied.
    pub(super) async fn take(&self, bytes: u64) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.turn(bytes) {
                Turn::Now => return,
                Turn::At(at) => {
                    tokio::select! {
                        () = sleep_until(at) => return,
                        // A new rate: what was taken under the old one is forgotten with it.
                        () = changed => {}
                    }
                }
                Turn::Paused => drop(timeout(LOOK_AGAIN, changed).await),
            }
        }
    }

    fn turn(&self, bytes: u64) -> Turn {
        let mut state = self.lock();
        match state.bytes_per_second {
            None => Turn::Now,
            Some(0) => Turn::Paused,
            Some(rate) => {
                let at = state.free_at.unwrap_or_else(Instant::now).max(Instant::now());
                state.free_at = Some(at + Duration::from_secs_f64(bytes as f64 / rate as f64));
                Turn::At(at)
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Turn {
    Now,
    At(Instant),
    Paused,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bytes_pass_at_the_rate_set() {
        let rate = Rate::default();
        rate.set(Some(1000));
        let began = Instant::now();
        for _ in 0..5 {
            rate.take(1000).await;
        }
        assert_eq!(began.elapsed().as_millis(), 4000);
    }

    #[test]
    fn a_bound_makes_the_turns_small_and_none_makes_them_larger_than_allowed() {
        let rate = Rate::default();
        assert_eq!(rate.turn_max(), limits::HANDOFF_TURN_BYTES);
        for (set, most) in [(u64::MAX, limits::HANDOFF_TURN_BYTES), (50_000, 1000), (1, 0), (0, 0)] {
            rate.set(Some(set));
            assert_eq!(rate.turn_max(), most, "{set}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_holds_until_another_rate_is_set() {
        let rate = std::sync::Arc::new(Rate::default());
        rate.set(Some(0));
        let taking = tokio::spawn({
            let rate = std::sync::Arc::clone(&rate);
            async move { rate.take(1).await }
        });
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(!taking.is_finished());
        rate.set(None);
        taking.await.expect("ended");
    }
}
