//! Keeps the gateway's copy of the ring fresh: by polling, by the database's hints, and when a request met an old ring.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use origin::{Origin, OriginError};
use service::tls::NodeDialler;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::limits;
use crate::ring_view::RingView;

/// The ring as the gateway knows it.
pub(crate) struct RingFollower {
    origin: Origin,
    view: ArcSwap<RingView>,
    /// Requests that need a fresh ring share one read of it.
    refreshing: Mutex<()>,
    /// How many polls have begun: one begun after a request's question answers it.
    polls: AtomicU64,
    origin_reached: AtomicBool,
}

impl RingFollower {
    pub(crate) fn new(origin: Origin, nodes: NodeDialler) -> Self {
        Self {
            origin,
            view: ArcSwap::from_pointee(RingView::new(nodes)),
            refreshing: Mutex::new(()),
            polls: AtomicU64::new(0),
            origin_reached: AtomicBool::new(false),
        }
    }

    /// The newest copy.
    pub(crate) fn view(&self) -> Arc<RingView> {
        self.view.load_full()
    }

    /// Whether the last poll got an answer.
    pub(crate) fn origin_reached(&self) -> bool {
        self.origin_reached.load(Ordering::Acquire)
    }

    /// Waits, bounded, for a copy that was read after this call; says whether the ring is another than `seen`.
    pub(crate) async fn refresh(&self, seen: &RingView) -> bool {
        let polls = self.polls.load(Ordering::Acquire);
        let refreshing = async {
            let _one_at_a_time = self.refreshing.lock().await;
            // Another's poll that began after this call says all that a poll of ours would.
            if self.polls.load(Ordering::Acquire) == polls && self.view.load().digest == seen.digest {
                self.poll().await
            } else {
                Ok(())
            }
        };
        let _ = timeout(limits::REFRESH_WAIT, refreshing).await;
        self.view.load().digest != seen.digest
    }

    /// Polls until stopped. Whatever the database holds or does, it goes on polling.
    pub(crate) async fn follow(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let polled = {
                let _one_at_a_time = self.refreshing.lock().await;
                // A panic would be a bug of ours; a gateway that no longer follows the ring would be a worse one.
                AssertUnwindSafe(self.poll()).catch_unwind().await
            };
            let Ok(polled) = polled else {
                tokio::time::sleep(limits::POLL_EVERY).await;
                continue;
            };
            let reached = polled.is_ok();
            if self.origin_reached.swap(reached, Ordering::AcqRel) != reached {
                match polled {
                    Ok(()) => tracing::info!("the ring is followed"),
                    Err(error) => tracing::warn!(%error, "the ring cannot be polled; routing goes on by the copy held"),
                }
            }
            let pause = limits::POLL_EVERY.mul_f64(rand::random_range(0.8..1.2));
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = self.origin.ring_changed() => {}
            }
        }
    }

    async fn poll(&self) -> Result<(), OriginError> {
        self.polls.fetch_add(1, Ordering::AcqRel);
        let digest = self.origin.ring_digest().await?;
        let view = self.view.load_full();
        if digest == view.digest {
            let nodes = self.origin.nodes().await?;
            self.view.store(Arc::new(view.with_nodes(&nodes)));
            return Ok(());
        }
        let Some(state) = self.origin.ring_state().await? else { return Ok(()) };
        match view.next(&state) {
            Ok(next) => {
                if next.epoch() != view.epoch() {
                    tracing::info!(epoch = %next.epoch(), "new ring");
                }
                self.view.store(Arc::new(next));
            }
            Err(error) => tracing::error!(%error, "the ring in the database is no ring; the copy held stays"),
        }
        Ok(())
    }
}
