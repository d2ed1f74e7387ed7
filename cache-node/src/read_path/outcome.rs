//! How a load ends, told once to all who wait for it.

use std::sync::OnceLock;

use tokio::sync::Notify;

use super::LoadEnd;

/// The outcome of one load: not yet known, or how it ended.
#[derive(Default)]
pub(crate) struct Outcome {
    /// `None` inside: it was dropped without an end (X3).
    told: OnceLock<Option<LoadEnd>>,
    waiting: Notify,
}

impl Outcome {
    /// Tells everybody; only the first word counts.
    pub(super) fn tell(&self, end: Option<LoadEnd>) {
        if self.told.set(end).is_ok() {
            self.waiting.notify_waiters();
        }
    }

    /// What was told; `None`: nothing yet.
    pub(super) fn told(&self) -> Option<&Option<LoadEnd>> {
        self.told.get()
    }

    /// Returns once it is told.
    pub(super) async fn wait(&self) -> Option<LoadEnd> {
        let mut notified = std::pin::pin!(self.waiting.notified());
        // From here on no word is missed: it was told before, and is seen, or wakes us.
        notified.as_mut().enable();
        if self.told.get().is_none() {
            notified.await;
        }
        self.told.get().cloned().flatten()
    }
}
