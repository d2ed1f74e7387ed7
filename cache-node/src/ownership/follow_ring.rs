//! Keeps what the node knows of ring and slots true, by polling; hints only speed it up (protocol B7).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use origin::RingDigest;
use tokio_util::sync::CancellationToken;

use crate::node::Node;

/// Polls with the pace of the heartbeat until stopped.
pub(crate) async fn run(node: Arc<Node>, stop: CancellationToken) {
    let mut held = RingDigest::default();
    loop {
        match node.origin.ring_digest().await {
            Ok(digest) => {
                node.status.set_epoch(digest.epoch);
                // A digest is held only once the rows behind it have been read. The phases of a change leave no trace in them.
                let rows = RingDigest { change: None, ..digest };
                let claimed = node.status.claimed.load(Ordering::Acquire);
                if rows != held && claimed && node.refresh_slots().await.is_ok() {
                    held = rows;
                }
                if let Err(error) = node.settle_seals().await {
                    tracing::warn!(%error, "seals could not be settled now");
                }
            }
            Err(error) => tracing::debug!(%error, "the ring could not be polled"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(node.config.lease_ttl / 3) => {}
            () = node.origin.ring_changed() => {}
        }
    }
}
