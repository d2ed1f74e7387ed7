//! Lines at the node: reads from gateways, many at a time on one connection (`wire::line`), answered as `http` answers them.
//!
//! Here: when lines begin and end. One line at work: `serve`.

mod serve;

use std::sync::Arc;
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::limits;
use crate::node::Node;

/// The lines of one node.
pub(crate) struct Lines {
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Lines say goodbye, and end when their gateways close them.
    stop: CancellationToken,
    /// Lines end at once.
    cut: CancellationToken,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(limits::LINES_MAX)),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            cut: CancellationToken::new(),
        }
    }
}

impl Lines {
    /// Has all lines end once what they were asked is answered. Returns when none is left, after `limit` at the latest.
    pub(crate) async fn drain(&self, limit: Duration) {
        self.stop.cancel();
        self.tasks.close();
        if timeout(limit, self.tasks.wait()).await.is_err() {
            tracing::warn!(lines = self.tasks.len(), "the drain timeout is over: cutting the lines that are left");
        }
        // Also one whose upgrade came just now.
        self.cut.cancel();
        self.tasks.wait().await;
    }
}

/// Serves a line once `upgrade` is there; false: there are too many already, or the node stops.
pub(crate) fn begin(node: &Arc<Node>, upgrade: OnUpgrade) -> bool {
    let lines = &node.lines;
    if lines.stop.is_cancelled() {
        return false;
    }
    let Ok(place) = Arc::clone(&lines.places).try_acquire_owned() else { return false };
    let (node, cut) = (Arc::clone(node), lines.cut.clone());
    lines.tasks.spawn(async move {
        tokio::select! {
            () = cut.cancelled() => {}
            () = run(node, upgrade) => {}
        }
        drop(place);
    });
    true
}

async fn run(node: Arc<Node>, upgrade: OnUpgrade) {
    let Ok(Ok(connection)) = timeout(limits::LINE_OPEN, upgrade).await else { return };
    let stop = node.lines.stop.clone();
    if let Err(error) = serve::serve(node, TokioIo::new(connection), &stop).await {
        tracing::debug!(%error, "a line ended early");
    }
}

#[cfg(test)]
mod tests;
