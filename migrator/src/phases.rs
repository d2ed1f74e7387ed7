//! The four phases of a ring change, one file each, and what they share.

pub mod add_node;
pub mod copy_keys;
pub mod expire_old;
pub mod flip_epoch;

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use client::{ControlError, NodeClient};
use origin::{ChangeRow, NodeRow, Origin, OriginError};
use placement::{NodeId, Phase, Slot};
use wire::ProblemCode;
use wire::problem::Retry;

use crate::limits::{DATABASE_TRIES, RETRY_PAUSE, SEAL_WAIT, SETTLE_WAIT};
use crate::pace::Over;
use crate::progress::Progress;

/// What the phases act with.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The database.
    pub origin: Origin,
    /// The control plane of the nodes.
    pub nodes: NodeClient,
    /// What the operator sees.
    pub progress: Progress,
    /// How long nodes are waited for.
    pub waits: Waits,
}

/// How long a change waits for a node before it is given up, or left for `resume`.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// For sealing and draining.
    pub seal: Duration,
    /// For confirming the flip.
    pub settle: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Self { seal: SEAL_WAIT, settle: SETTLE_WAIT }
    }
}

/// Why a phase did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The database failed.
    #[error("{0}")]
    Origin(#[from] OriginError),
    /// A node's lease is over.
    #[error("{node} is down (its lease is over) and {role}")]
    NodeDown {
        /// The node.
        node: NodeId,
        /// What it is needed for.
        role: &'static str,
    },
    /// A node did not do what it was asked, in all the time it had.
    #[error("{node} did not {verb} (at most {} s are allowed): {reason}", waited.as_secs())]
    NodeFailed {
        /// The node.
        node: NodeId,
        /// What it was asked to do.
        verb: &'static str,
        /// How long it had.
        waited: Duration,
        /// What it answered last.
        reason: String,
    },
    /// A node answered something that cannot be true.
    #[error("{node} answered wrongly: {what}")]
    WrongReport {
        /// The node.
        node: NodeId,
        /// What is wrong.
        what: &'static str,
    },
    /// A node does not copy, and asking again will not help.
    #[error("{node} does not copy ({reason}); if it runs another version, upgrade it first, or use --cold")]
    CannotCopy {
        /// The node.
        node: NodeId,
        /// What it answered.
        reason: String,
    },
    /// The streams between two nodes break again and again.
    #[error(
        "{times} streams from {owner} to {receiver} broke, the last because: {reason}; --cold does without copying"
    )]
    StreamBreaks {
        /// The old owner.
        owner: NodeId,
        /// The new owner.
        receiver: NodeId,
        /// How many.
        times: usize,
        /// Why the last one did.
        reason: String,
    },
    /// Copying does not get on.
    #[error("nothing was copied for {} s, {owner} to {receiver}: {reason}; --cold does without copying", waited.as_secs())]
    CopyStalled {
        /// The old owner of a stream that is not done.
        owner: NodeId,
        /// Its receiver.
        receiver: NodeId,
        /// How long nothing moved.
        waited: Duration,
        /// What is known of it.
        reason: String,
    },
    /// The cluster did not let the copy end.
    #[error("copying was paused for more than {} s in all, at last because {because}", allowed.as_secs())]
    PausedTooLong {
        /// The most that is allowed.
        allowed: Duration,
        /// The bound that was broken last.
        because: Over,
    },
    /// Somebody else moved the change to this phase.
    #[error("another migrator moved the change to phase {}", crate::exit::phase_name(*.0))]
    MovedElsewhere(Phase),
    /// SIGINT or SIGTERM.
    #[error("interrupted by a signal")]
    Interrupted,
}

/// The moving slots by their old owner.
pub(crate) fn by_old_owner(change: &ChangeRow) -> BTreeMap<NodeId, Vec<Slot>> {
    let mut slots: BTreeMap<NodeId, Vec<Slot>> = BTreeMap::new();
    for slot_move in &change.moves {
        slots.entry(slot_move.from.clone()).or_default().push(slot_move.slot);
    }
    slots
}

/// The row of a node whose lease holds.
pub(crate) fn live<'a>(nodes: &'a [NodeRow], node: &NodeId, role: &'static str) -> Result<&'a NodeRow, StepError> {
    let row = nodes.iter().find(|row| &row.id == node && row.lease_left_ms > 0);
    row.ok_or_else(|| StepError::NodeDown { node: node.clone(), role })
}

/// Runs a statement that may be repeated, a few times while the database does not answer.
pub(crate) async fn patiently<T, F>(mut statement: impl FnMut() -> F) -> Result<T, OriginError>
where
    F: Future<Output = Result<T, OriginError>>,
{
    let mut tries = 0;
    loop {
        tries += 1;
        match statement().await {
            Err(OriginError::Unreachable(_) | OriginError::Timeout) if tries < DATABASE_TRIES => {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

/// Whether the same call of a node may do better a moment later.
pub(crate) fn may_pass(error: &ControlError) -> bool {
    match error {
        ControlError::Unreachable(_) => true,
        // A node sealed for a change that is over learns so by itself, and unseals.
        ControlError::Refused(problem) => {
            problem.code == ProblemCode::ChangeConflict || problem.code.retry() == Retry::Later
        }
        ControlError::Malformed(_) => false,
    }
}
