//! Handing the entries of moving slots from their old owner to the receiver, warm (protocol C2–C5, C8).
//!
//! At the old owner: `outgoing` is a stream as reads and writes see it, `copy` fills it with what L1 holds, `send` carries
//! it to the receiver, `control` opens and ends streams for the migrator. At the receiver: `receive`, `offers`.

mod control;
mod copy;
mod offers;
mod outgoing;
mod rate;
mod receive;
mod send;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use control::CopyRefused;
pub(crate) use outgoing::Outgoing;
pub(crate) use receive::receive;

use crate::limits;
use rate::Rate;

/// The streams of one node.
pub(crate) struct Handoff {
    /// The newest stream to each receiver, all of one change.
    streams: Mutex<Vec<Arc<Outgoing>>>,
    rate: Rate,
    pub(crate) received: Arc<Semaphore>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

impl Default for Handoff {
    fn default() -> Self {
        Self {
            streams: Mutex::default(),
            rate: Rate::default(),
            received: Arc::new(Semaphore::new(limits::HANDOFFS_RECEIVED_MAX)),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }
}

impl Handoff {
    fn streams(&self) -> Vec<Arc<Outgoing>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends all streams, in and out.
    pub(crate) async fn shut_down(&self) {
        /// Tasks end at once when told; a scan of a large L1 may still be under way.
        const END: Duration = Duration::from_secs(5);
        self.stop.cancel();
        for stream in self.streams() {
            stream.break_off("the old owner stops");
        }
        self.tasks.close();
        let _ = tokio::time::timeout(END, self.tasks.wait()).await;
    }
}

#[cfg(test)]
mod tests;
