//! After the faults: everything runs and is on its networks, every request is served, the ring is at rest.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use reqwest::Method;
use tests::door::{Door, each};
use tests::http::send;
use tests::poll::until;

use crate::fault::Who;
use crate::stack::Stack;

/// How soon after the last fault every request must be served again: leases end (3 s), connections to addresses that are
/// no more are given up, nodes that were away are taken over or come back.
pub(crate) const SERVED_BOUND: Duration = Duration::from_secs(30);
/// How soon after that no change is active and every member is up: the controllers carry on what was left, up to three
/// times, and readmit one node after the other.
pub(crate) const AT_REST_BOUND: Duration = Duration::from_secs(60);

/// Undoes what a fault could not undo itself; what there was to do.
pub(crate) async fn heal(stack: &Stack) -> anyhow::Result<Vec<String>> {
    let mut done = Vec::new();
    for who in Who::all() {
        let inspected = stack.inspect(who).await?;
        if inspected.state.paused {
            stack.act("unpause", who).await?;
            done.push(format!("{who:?} was frozen"));
        }
        if !inspected.state.running {
            stack.act("start", who).await?;
            done.push(format!("{who:?} did not run"));
        }
        for network in stack.missing(who, &inspected) {
            stack.connect(who, network).await?;
            done.push(format!("{who:?} was off {network:?}"));
        }
    }
    Ok(done)
}

/// Waits until every user can write and read through every gateway; how long that took.
pub(crate) async fn served_again(doors: &[Door], users: &[String]) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut refused = String::new();
    let served = until(SERVED_BOUND, async || {
        let results = each(users, async |user| all_doors_serve(doors, user).await).await;
        let first = results.into_iter().find_map(Result::err);
        refused = first.as_ref().map(|error| format!("{error:#}")).unwrap_or_default();
        first.is_none().then_some(())
    });
    served.await.with_context(|| format!("not every request is served within {SERVED_BOUND:?}: {refused}"))?;
    Ok(started.elapsed())
}

/// Waits until no change is active and every member is up.
pub(crate) async fn at_rest(door: &Door) -> anyhow::Result<()> {
    let mut last = String::new();
    let rests = until(AT_REST_BOUND, async || {
        let answer = send(door.request(Method::GET, "anyone", "/v1/ring")).await.ok()?;
        last = answer.text();
        let ring: serde_json::Value = serde_json::from_str(&last).ok()?;
        let all_up = ring["members"].as_array()?.iter().all(|member| member["state"] == "up");
        (all_up && ring["change"].is_null()).then_some(())
    });
    rests.await.with_context(|| format!("the ring is not at rest within {AT_REST_BOUND:?}: {last}"))
}

async fn all_doors_serve(doors: &[Door], user: &str) -> anyhow::Result<()> {
    for door in doors {
        let request = |method| door.request(method, user, "/v1/entries/healed");
        for request in [request(Method::PUT).body("yes"), request(Method::GET)] {
            let answer = send(request).await?;
            if !matches!(answer.status, 200 | 201 | 204) {
                bail!("at {}: {} {}", door.url, answer.status, answer.text());
            }
        }
    }
    Ok(())
}
