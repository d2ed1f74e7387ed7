//! `suggest`: which users cost their node so much that a pool of their own is worth it. Asks all nodes; changes nothing.
//!
//! The judgement is pure: `judge`. The words: `words`.

mod judge;
mod outlook;
mod words;

use client::NodeClient;
use futures_util::{StreamExt, stream};
use origin::{NodeRow, RingState};
use placement::NodeId;
use tokio::time::timeout;
use wire::users::{TOP_MAX, UsersReport};

use crate::exit::Failure;
use crate::limits::{CALL_WAIT, NODES_ASKED_AT_ONCE};
pub use judge::{NodeLoad, Suggestion, UserToMove, Wanted, judge};
pub use outlook::NodeOutlook;

/// The pool of all nodes that name no other.
pub const SHARED_POOL: &str = "shared";
/// The pool to make where there is none beside [`SHARED_POOL`].
pub const NEW_POOL: &str = "vip";

/// Asks members, and other nodes that are up, and judges what they say.
pub async fn of_cluster(ring: &RingState, nodes: &NodeClient, wanted: Wanted) -> Result<Suggestion, Failure> {
    let is_member = |id: &NodeId| ring.members.iter().any(|member| &member.id == id);
    let concerned = ring.nodes.iter().filter(|row| row.lease_left_ms > 0 || is_member(&row.id));
    let asked = concerned.map(|row| async move { (row, ask(nodes, row).await) });
    let answers: Vec<_> = stream::iter(asked).buffer_unordered(NODES_ASKED_AT_ONCE).collect().await;
    let (mut loads, mut unanswered) = (Vec::new(), Vec::new());
    for (row, answer) in answers {
        match answer {
            Some(report) => loads.push(NodeLoad { pool: pool_of(row).to_owned(), report }),
            None => unanswered.push(row.id.clone()),
        }
    }
    if loads.is_empty() {
        return Err(Failure::Nodes("no node says who its users are".to_owned()));
    }
    unanswered.sort();
    Ok(judge(loads, unanswered, wanted))
}

async fn ask(nodes: &NodeClient, row: &NodeRow) -> Option<UsersReport> {
    if row.lease_left_ms == 0 {
        return None;
    }
    let report = timeout(CALL_WAIT, nodes.top_users(&row.address, TOP_MAX)).await.ok()?.ok()?;
    (report.node == row.id).then_some(report)
}

fn pool_of(row: &NodeRow) -> &str {
    row.pool.as_str()
}
