//! Starts a node's tasks and stops them in the right order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use origin::Origin;
use service::RunningServer;
use service::listen::{ServeOptions, serve};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::http::App;
use crate::node::Node;
use crate::{drain, ownership, renewals};

/// Starts a node that runs until `stop`: drained then as [`Config::drain`] says, and its lease released if every write has
/// ended. Returns once it listens; it claims its name in the background.
pub async fn start(
    config: Config,
    origin: Origin,
    listener: TcpListener,
    stop: CancellationToken,
) -> anyhow::Result<RunningServer> {
    let node = Arc::new(Node::new(config, origin));
    RunningServer::start(listener, |listener| run(node, listener, stop))
}

async fn run(node: Arc<Node>, listener: TcpListener, stop: CancellationToken) {
    // Background tasks outlive the requests: writes still need renewals and the lease.
    let background = CancellationToken::new();
    let tasks = TaskTracker::new();
    node.l2.start(&tasks, &background);
    tasks.spawn({
        let (node, background) = (Arc::clone(&node), background.clone());
        async move {
            node.l2.first_sessions().await;
            ownership::lease_renewal::run(node, background).await;
        }
    });
    tasks.spawn(ownership::follow_ring::run(Arc::clone(&node), background.clone()));
    tasks.spawn(renewals::run(Arc::clone(&node), background.clone()));
    tasks.spawn(renewals::keep_l2_spaces(Arc::clone(&node), background.clone()));

    let drain_timeout = node.config.drain_timeout;
    let app = App::new(Arc::clone(&node));
    let closing = CancellationToken::new();
    tasks.spawn(close_at_stop(Arc::clone(&node), stop, closing.clone()));
    let lines = async {
        closing.cancelled().await;
        node.lines.drain(drain_timeout).await;
    };
    let options = ServeOptions { drain_timeout, tls: node.config.tls.clone(), ..ServeOptions::default() };
    tokio::join!(serve(listener, app, options, closing.clone()), lines);

    node.handoff.shut_down().await;
    node.work.close();
    let drained = tokio::time::timeout(drain_timeout, node.work.wait()).await.is_ok();
    // From here on nothing is served: the lease may end.
    node.lease.end();
    background.cancel();
    tasks.close();
    tasks.wait().await;
    release(&node, drained).await;
}

/// From the stop on the node is not ready; it closes its listener and connections once its slots need it no longer.
async fn close_at_stop(node: Arc<Node>, stop: CancellationToken, closing: CancellationToken) {
    stop.cancelled().await;
    node.status.draining.store(true, Ordering::Release);
    drain::before_closing(&node).await;
    closing.cancel();
}

/// X4: the lease is left to run out unless every registered write has ended, unknown ones included.
async fn release(node: &Node, drained: bool) {
    let writes_left = !node.slots.filter(|_, state| state.registered_writes > 0).is_empty();
    if !drained || writes_left {
        tracing::warn!("stopped with writes of unknown outcome: the lease is left to run out");
        return;
    }
    if node.status.claimed.load(Ordering::Acquire) {
        match node.origin.release_lease(&node.config.node_id, node.status.incarnation()).await {
            Ok(_) => tracing::info!(node = %node.config.node_id, "stopped, lease released"),
            Err(error) => tracing::warn!(%error, "stopped, but the lease could not be released"),
        }
    }
}
