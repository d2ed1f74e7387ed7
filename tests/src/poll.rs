//! Waiting for a condition, with a bound: the only way a test waits.

use std::time::{Duration, Instant};

/// How long to wait between two looks.
pub const PAUSE: Duration = Duration::from_millis(10);

/// Looks until there is something to see; `None` when `bound` is over.
pub async fn until<T>(bound: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return Some(seen);
        }
        if start.elapsed() > bound {
            return None;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Looks until the condition holds.
///
/// # Panics
/// When it does not within `bound`; the message names `what`.
pub async fn eventually(what: &str, bound: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let seen = until(bound, async || holds().await.then_some(())).await;
    assert!(seen.is_some(), "not within {bound:?}: {what}");
}
