//! When to stop: on SIGTERM (what container engines send) and SIGINT (Ctrl-C).

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled by the first SIGTERM or SIGINT. Must be called inside a runtime.
///
/// Where a handler cannot be installed the signal keeps its default action, which also ends the program.
pub fn on_signals() -> CancellationToken {
    let token = CancellationToken::new();
    for (kind, name) in [(SignalKind::terminate(), "SIGTERM"), (SignalKind::interrupt(), "SIGINT")] {
        let stop = token.clone();
        match signal(kind) {
            Ok(mut signals) => {
                tokio::spawn(async move {
                    tokio::select! {
                        _ = signals.recv() => {
                            tracing::info!(signal = name, "stopping");
                            stop.cancel();
                        }
                        () = stop.cancelled() => {}
                    }
                });
            }
            Err(error) => tracing::warn!(signal = name, %error, "cannot watch for the signal"),
        }
    }
    token
}
