//! What a stop does with the node's slots before the last request is served: nothing, or a handoff to other members.
//!
//! A handoff is asked for, never forced: the failure controller makes the ring change, the node goes on serving and waits,
//! within bounds. Not here: draining connections and writes, releasing the lease (`running`).

use std::fmt;

use origin::{ControllerRow, NodeRow, OriginError};
use placement::{Incarnation, NodeId};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::limits::{HANDOFF_LINGER, HANDOFF_LOOKS_UNANSWERED_MAX, HANDOFF_POLL};
use crate::node::Node;

/// What a stop does with the slots.
#[derive(Clone, Debug, Default)]
pub enum Drain {
    /// Keeps them: the lease is released once the writes have ended, and the slots wait for the node or for a takeover.
    #[default]
    Release,
    /// First has them handed off to other members, for at most [`Config::drain_timeout`](crate::Config::drain_timeout).
    Handoff {
        /// Cancelled by whoever does not want to wait for that.
        hurry: CancellationToken,
    },
}

/// How the wait for the handoff ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Other members own what was ours.
    HandedOff,
    /// There was nothing to hand off.
    NothingOwned,
    /// Nobody would make the ring change.
    NoController,
    /// Every other member is down or leaving too.
    NoTaker,
    /// The database does not answer.
    Unanswered,
    /// This process is no longer the node.
    Fenced,
    /// A second signal.
    Hurried,
    /// The drain timeout is over.
    TimedOut,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HandedOff => "all slots are handed off",
            Self::NothingOwned => "there are no slots to hand off",
            Self::NoController => "no handoff: no failure controller is running",
            Self::NoTaker => "no handoff: no other member can take the slots",
            Self::Unanswered => "no handoff: the database does not answer",
            Self::Fenced => "no handoff: another process is this node now",
            Self::Hurried => "no longer waiting for the handoff: a second signal",
            Self::TimedOut => "no longer waiting for the handoff: the drain timeout is over",
        })
    }
}

/// What the database says while the node waits.
struct Look {
    controller: Option<ControllerRow>,
    nodes: Vec<NodeRow>,
}

/// Returns when the node may stop serving. The caller goes on serving meanwhile.
pub(crate) async fn before_closing(node: &Node) {
    let Drain::Handoff { hurry } = &node.config.drain else { return };
    let end = tokio::select! {
        end = wait_for_handoff(node) => end,
        () = hurry.cancelled() => End::Hurried,
        () = sleep(node.config.drain_timeout) => End::TimedOut,
    };
    tracing::info!(node = %node.config.node_id, owned = node.slots.owned(), "{end}");
    if end == End::HandedOff {
        tokio::select! {
            () = sleep(HANDOFF_LINGER) => {}
            () = hurry.cancelled() => {}
        }
    }
}

async fn wait_for_handoff(node: &Node) -> End {
    if node.slots.owned() == 0 {
        return End::NothingOwned;
    }
    let mut waiting = Waiting::default();
    while node.slots.owned() > 0 {
        if let Some(end) = waiting.step(node).await {
            return end;
        }
        sleep(HANDOFF_POLL).await;
    }
    End::HandedOff
}

/// What is remembered from one look to the next.
#[derive(Default)]
struct Waiting {
    members: Option<Vec<NodeId>>,
    /// The incarnation that has announced its leaving: after a fence another one must do it again.
    announced: Option<Incarnation>,
    unanswered: u32,
}

impl Waiting {
    /// Looks whether waiting makes sense, and asks for the handoff if that is still to be done.
    async fn step(&mut self, node: &Node) -> Option<End> {
        match self.try_step(node).await {
            Ok(end) => {
                self.unanswered = 0;
                end
            }
            Err(error) => {
                self.unanswered += 1;
                tracing::debug!(%error, "the handoff could not be looked after now");
                (self.unanswered >= HANDOFF_LOOKS_UNANSWERED_MAX).then_some(End::Unanswered)
            }
        }
    }

    async fn try_step(&mut self, node: &Node) -> Result<Option<End>, OriginError> {
        if self.members.is_none() {
            let ring = node.origin.ring_state().await?;
            let members = ring.map(|ring| ring.members).unwrap_or_default();
            self.members = Some(members.into_iter().map(|member| member.id).collect());
        }
        let look = Look { controller: node.origin.controller().await?, nodes: node.origin.nodes().await? };
        let end = verdict(&look, &node.config.node_id, self.members.as_deref().unwrap_or_default());
        if end.is_some() {
            return Ok(end);
        }
        let incarnation = node.status.incarnation();
        if self.announced != Some(incarnation) {
            if !node.origin.announce_leaving(&node.config.node_id, incarnation).await? {
                return Ok(Some(End::Fenced));
            }
            tracing::info!(node = %node.config.node_id, "leaving: serving on until the slots are handed off");
            self.announced = Some(incarnation);
        }
        Ok(None)
    }
}

/// Whether to give the wait up.
fn verdict(look: &Look, me: &NodeId, members: &[NodeId]) -> Option<End> {
    if look.controller.as_ref().is_none_or(|controller| controller.left_ms == 0) {
        return Some(End::NoController);
    }
    let can_take = |row: &NodeRow| row.id != *me && row.lease_left_ms > 0 && !row.leaving && members.contains(&row.id);
    (!look.nodes.iter().any(can_take)).then_some(End::NoTaker)
}

#[cfg(test)]
mod tests {
    use origin::Term;
    use placement::{Pool, Weight};

    use super::*;

    fn id(name: &str) -> NodeId {
        name.parse().expect("a node id")
    }

    fn row(name: &str, lease_left_ms: u64, leaving: bool) -> NodeRow {
        NodeRow {
            id: id(name),
            address: format!("{name}:7000"),
            weight: Weight::default(),
            pool: Pool::default(),
            incarnation: Incarnation(1),
            lease_left_ms,
            leaving,
        }
    }

    fn controller(left_ms: u64) -> Option<ControllerRow> {
        Some(ControllerRow { holder: "a host".to_owned(), term: Term(7), left_ms, note: String::new() })
    }

    fn judged(controller: Option<ControllerRow>, others: &[NodeRow]) -> Option<End> {
        let nodes = std::iter::once(row("n1", 2000, true)).chain(others.iter().cloned()).collect();
        verdict(&Look { controller, nodes }, &id("n1"), &[id("n1"), id("n2"), id("n3")])
    }

    #[test]
    fn the_wait_goes_on_while_a_controller_is_live_and_a_member_can_take_the_slots() {
        assert_eq!(judged(controller(1), &[row("n2", 0, false), row("n3", 1, false)]), None);
    }

    #[test]
    fn without_a_live_controller_there_is_nothing_to_wait_for() {
        let takers = [row("n2", 2000, false)];
        assert_eq!(judged(None, &takers), Some(End::NoController));
        assert_eq!(judged(controller(0), &takers), Some(End::NoController));
    }

    #[test]
    fn nodes_that_are_down_or_leaving_or_no_members_take_nothing() {
        let nobody = [row("n2", 0, false), row("n3", 2000, true), row("standby", 2000, false)];
        assert_eq!(judged(controller(2000), &nobody), Some(End::NoTaker));
        assert_eq!(judged(controller(2000), &[]), Some(End::NoTaker));
    }
}
