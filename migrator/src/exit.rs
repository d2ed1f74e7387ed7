//! How a verb can end other than well: what is printed, which code it exits with, and which command to run next.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use origin::{ChangeRow, OriginError};
use placement::{ChangeId, Epoch, NodeId, Phase};
use serde::Serialize;

use crate::plan::PlanRefused;
use crate::progress::events::ResultLine;

/// Exit code: failed; the message says in which state it left the ring.
pub const FAILED: u8 = 1;
/// Exit code: the command line is wrong.
pub const USAGE: u8 = 2;
/// Exit code: another change is active.
pub const ANOTHER_ACTIVE: u8 = 3;
/// Exit code: the change was given up and the ring is as before.
pub const ABORTED: u8 = 4;

/// Why a verb did not end well.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command line is wrong; nothing was changed.
    #[error("{0}")]
    Usage(String),
    /// The database failed; nothing was changed.
    #[error("{0}")]
    Origin(#[from] OriginError),
    /// The plan cannot be made; nothing was changed.
    #[error("{0}")]
    Refused(#[from] PlanRefused),
    /// The client for the nodes could not be built.
    #[error("cannot talk to nodes: {0}")]
    Nodes(String),
    /// These nodes did not register in time; nothing was changed.
    #[error("not registered with a live lease after {waited:?}: {}", list(.missing))]
    NotRegistered {
        /// The nodes that are missing.
        missing: Vec<NodeId>,
        /// How long we waited.
        waited: Duration,
    },
    /// A node that would gain slots does not answer us as itself at its registered address; nothing was changed.
    #[error("{node} cannot take slots: {reason}")]
    NodeNotItself {
        /// The node.
        node: NodeId,
        /// What is wrong with its answer.
        reason: String,
    },
    /// Somebody else's change is not over; nothing was changed.
    #[error("change {} ({}) is active in phase {}, run by {}", .0.id, .0.action, phase_name(.0.phase), .0.operator)]
    AnotherActive(Box<ChangeRow>),
    /// The ring moved between plan and begin; nothing was changed.
    #[error("the plan was made for epoch {planned}, but the ring is at epoch {current}; nothing was changed")]
    StalePlan {
        /// The epoch of the plan.
        planned: Epoch,
        /// The epoch of the ring.
        current: Epoch,
    },
    /// The command was bound to another epoch; nothing was changed.
    #[error("the command is for epoch {asked}, but the ring is at epoch {current}; nothing was changed")]
    OtherEpoch {
        /// The epoch of `--at-epoch`.
        asked: Epoch,
        /// The epoch of the ring.
        current: Epoch,
    },
    /// The node that was down when the takeover was planned has a lease again; nothing was changed.
    #[error("{0} is back; nothing was changed")]
    NodeIsBack(NodeId),
    /// The slots of a node that is down could not be taken over; nothing was changed.
    #[error("the slots of {node} could not be taken over: {reason}; nothing was changed")]
    NotTakenOver {
        /// The node.
        node: NodeId,
        /// Why.
        reason: String,
    },
    /// SIGINT or SIGTERM came before anything was changed.
    #[error("interrupted by a signal before anything was changed")]
    InterruptedBefore,
    /// There is nothing to resume or abort.
    #[error("no ring change is active; nothing was changed")]
    NothingActive,
    /// The change is past the flip.
    #[error("change {change} is in phase {}: it can only be resumed", phase_name(*.phase))]
    NotAbortable {
        /// The change.
        change: ChangeId,
        /// Its phase.
        phase: Phase,
    },
    /// The change was given up; the ring is as before.
    #[error("change {change} was aborted, the ring is as before: {reason}")]
    Aborted {
        /// The change.
        change: ChangeId,
        /// Why.
        reason: String,
    },
    /// The change is neither done nor given up.
    #[error("change {change} is left in phase {}: {reason}", phase_name(*.phase))]
    Left {
        /// The change.
        change: ChangeId,
        /// The last phase known for sure.
        phase: Phase,
        /// Why it went no further.
        reason: String,
    },
    /// No failure controller leads.
    #[error("no failure controller is leading")]
    NobodyLeads,
    /// The database failed while the change was being journaled: it may be there or not.
    #[error("the change may or may not have begun: {0}")]
    BeginUnknown(OriginError),
}

impl Failure {
    /// The process's exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE,
            Self::AnotherActive(_) => ANOTHER_ACTIVE,
            Self::Aborted { .. } => ABORTED,
            Self::Origin(_)
            | Self::Refused(_)
            | Self::Nodes(_)
            | Self::NotRegistered { .. }
            | Self::NodeNotItself { .. }
            | Self::StalePlan { .. }
            | Self::OtherEpoch { .. }
            | Self::NodeIsBack(_)
            | Self::NotTakenOver { .. }
            | Self::InterruptedBefore
            | Self::NothingActive
            | Self::NotAbortable { .. }
            | Self::Left { .. }
            | Self::NobodyLeads
            | Self::BeginUnknown(_) => FAILED,
        }
    }

    /// The command to run next, where there is a definite one.
    pub fn next(&self) -> Option<String> {
        match self {
            Self::AnotherActive(change) => Some(verbs_of(change.phase)),
            Self::StalePlan { .. } => Some("the same command again: it makes a new plan".to_owned()),
            Self::OtherEpoch { .. } => Some("migrator plan with the same verb, then the command it prints".to_owned()),
            Self::NodeIsBack(_) => Some("the same command again: it asks the node now".to_owned()),
            Self::NotAbortable { .. } => Some("migrator resume".to_owned()),
            Self::Left { phase, .. } => Some(verbs_of(*phase)),
            Self::Origin(error) => schema_missing(error).then(|| "migrator init --nodes a,b,c".to_owned()),
            Self::NobodyLeads => Some("migrator watch".to_owned()),
            Self::BeginUnknown(_) | Self::NothingActive | Self::NotTakenOver { .. } => {
                Some("migrator status".to_owned())
            }
            Self::Refused(refused) => refused.next(),
            Self::Usage(_)
            | Self::Nodes(_)
            | Self::NotRegistered { .. }
            | Self::NodeNotItself { .. }
            | Self::InterruptedBefore
            | Self::Aborted { .. } => None,
        }
    }

    /// Prints one line to stderr (and the next command), and an object to stdout as `output` wants it.
    pub fn report(&self, output: Output) -> ExitCode {
        let next = self.next();
        match &next {
            Some(next) => eprintln!("migrator: {self}. Next: {next}"),
            None => eprintln!("migrator: {self}"),
        }
        let document = FailureDocument { outcome: self.outcome(), exit: self.code(), reason: self.to_string(), next };
        let line = match output {
            Output::Text => return ExitCode::from(self.code()),
            Output::Json => json(&document),
            Output::Events => json(&ResultLine::of(&document)),
        };
        // A reader that has gone away has the exit code.
        let _ = writeln!(std::io::stdout(), "{line}");
        ExitCode::from(self.code())
    }

    fn outcome(&self) -> &'static str {
        match self.code() {
            USAGE => "usage",
            ANOTHER_ACTIVE => "another_active",
            ABORTED => "aborted",
            _ => "failed",
        }
    }
}

/// What a verb prints on stdout when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Text, and nothing of a failure.
    Text,
    /// One JSON object.
    Json,
    /// The last of several: it says that it is the result.
    Events,
}

/// The document in one line.
pub(crate) fn json(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("our documents have string keys and finite numbers")
}

/// Whether the database is one that no program of ours has been at: "no such table", as Postgres and SQLite put it.
fn schema_missing(error: &OriginError) -> bool {
    matches!(error, OriginError::Refused { code } if code == "42P01" || code == "1")
}

/// What `--json` prints of a failure.
#[derive(Serialize)]
struct FailureDocument {
    outcome: &'static str,
    exit: u8,
    reason: String,
    next: Option<String>,
}

/// The commands that lead out of a phase, as text.
pub fn verbs_of(phase: Phase) -> String {
    crate::status::allowed_commands(phase).join(" or ")
}

/// A phase as the journal spells it.
pub fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Copy => "copy",
        Phase::Sealed => "sealed",
        Phase::Flipped => "flipped",
        Phase::Done => "done",
        Phase::Aborted => "aborted",
    }
}

/// Names in one line.
pub fn list(nodes: &[NodeId]) -> String {
    nodes.iter().map(NodeId::as_str).collect::<Vec<_>>().join(", ")
}
