//! Claims the node's name, then keeps its lease by heartbeats; fenced, it forgets everything and claims anew (protocol L1–L4).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use origin::ClaimOutcome;
use tokio_util::sync::CancellationToken;

use crate::clock::Moment;
use crate::node::Node;

/// Runs until stopped. A statement on its way is waited for: a claim or heartbeat that lands after the release of the lease
/// would keep the name from the next process for a whole lease.
pub(crate) async fn run(node: Arc<Node>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        claim(&node, &stop).await;
        heartbeat_until_fenced(&node, &stop).await;
        if !stop.is_cancelled() {
            fence(&node);
        }
    }
}

/// Returns once this process is the node, or stopped.
async fn claim(node: &Node, stop: &CancellationToken) {
    let mut said = None;
    while !stop.is_cancelled() {
        let (asked_at, era) = (Moment::now(), node.slots.era());
        let config = &node.config;
        let claimed = node
            .origin
            .claim_node(&config.node_id, &config.advertise, config.weight, &config.pool, config.lease_ttl)
            .await;
        let (why, pause) = match claimed {
            Ok(ClaimOutcome::Claimed { incarnation, slots }) => {
                node.status.set_incarnation(incarnation);
                node.apply_rows(&slots, era);
                node.lease.confirmed(asked_at, config.lease_ttl);
                node.status.claimed.store(true, Ordering::Release);
                node.status.origin_reached.store(true, Ordering::Release);
                tracing::info!(node = %config.node_id, %incarnation, slots = slots.len(), "claimed");
                return;
            }
            Ok(ClaimOutcome::LeaseHeld { left_ms }) => {
                let pause = Duration::from_millis(left_ms.clamp(20, 1000));
                ("the lease of an earlier process of this name is not over yet".to_owned(), pause)
            }
            Ok(ClaimOutcome::AddressTaken { by }) => {
                (format!("the advertised address belongs to node {by}"), Duration::from_secs(1))
            }
            Err(error) => {
                node.status.origin_reached.store(false, Ordering::Release);
                (error.to_string(), Duration::from_millis(250))
            }
        };
        if said.as_ref() != Some(&why) {
            tracing::warn!(node = %config.node_id, "waiting to become the node: {why}");
            said = Some(why);
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Returns once this process is no longer the node, or stopped.
async fn heartbeat_until_fenced(node: &Node, stop: &CancellationToken) {
    let ttl = node.config.lease_ttl;
    let mut pause = ttl / 3;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
            // Somebody saw that this incarnation is over: ask at once.
            () = node.fenced.notified() => {}
        }
        let asked_at = Moment::now();
        let incarnation = node.status.incarnation();
        match node.origin.renew_lease(&node.config.node_id, incarnation, ttl).await {
            Ok(true) => {
                node.lease.confirmed(asked_at, ttl);
                node.status.origin_reached.store(true, Ordering::Release);
                pause = ttl / 3;
            }
            Ok(false) => return,
            Err(error) => {
                if node.status.origin_reached.swap(false, Ordering::AcqRel) {
                    tracing::warn!(%error, "heartbeat failed");
                }
                pause = ttl / 12;
            }
        }
    }
}

/// L2: nothing that was cached or owned may be used again.
fn fence(node: &Node) {
    node.status.claimed.store(false, Ordering::Release);
    node.lease.end();
    node.slots.forget_all();
    node.l1.clear();
    node.metrics.fenced.inc();
    tracing::warn!(node = %node.config.node_id, "fenced: another process is this node now; everything is forgotten");
}
