//! How late the gateway's own tasks run. What an answer takes is measured here, and includes that; it says nothing about the node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::limits;

/// The mean wait of a task that is ready to run, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnDelay(Arc<AtomicU64>);

/// How often an answer on its way waits for a task to run: the line's to send, the line's to read, the request's own.
const WAITS_OF_AN_ANSWER: u32 = 3;
/// One part in so many is the newest look.
const LOOKS: u64 = 16;

impl OwnDelay {
    /// Looks again and again, until `stop`.
    pub(super) async fn measure(self, stop: CancellationToken) {
        while stop.run_until_cancelled(sleep(limits::OWN_DELAY_EVERY)).await.is_some() {
            let ready = Instant::now();
            // Behind all that is ready now.
            tokio::task::yield_now().await;
            let waited = u64::try_from(ready.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let mean = self.0.load(Ordering::Relaxed);
            self.0.store(mean - mean / LOOKS + waited / LOOKS, Ordering::Relaxed);
        }
    }

    /// What of the time of an answer is not the node's.
    pub(super) fn of_an_answer(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed)) * WAITS_OF_AN_ANSWER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_that_is_kept_busy_is_noticed() {
        let (delay, stop) = (OwnDelay::default(), CancellationToken::new());
        assert_eq!(delay.of_an_answer(), Duration::ZERO);
        let measuring = tokio::spawn(delay.clone().measure(stop.clone()));
        // One thread: whoever wants to run waits for the end of this turn, again and again.
        let busy = tokio::spawn({
            let stop = stop.clone();
            async move {
                while !stop.is_cancelled() {
                    std::thread::sleep(Duration::from_millis(2));
                    tokio::task::yield_now().await;
                }
            }
        });
        while delay.of_an_answer() < Duration::from_millis(3) {
            sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
        measuring.await.expect("no panic");
        busy.await.expect("no panic");
    }
}
