//! What clients did to keys and what they were answered: the evidence that [`crate::linearizable`] judges.

use std::fmt;
use std::time::Duration;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A read.
    Get,
    /// A write of this value; no other write of the run has it.
    Put(u64),
    /// A removal.
    Delete,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This was seen, `None` being no entry, and nothing was changed. Reads end so, and deletes that found nothing.
    Read {
        /// The value.
        value: Option<u64>,
        /// Its version.
        version: Option<u64>,
    },
    /// The write has happened, between begin and end.
    Done {
        /// The version it was given, where the answer tells it.
        version: Option<u64>,
    },
    /// The write was not executed and never will be.
    Refused,
    /// The write takes effect once, at any time after it began, or never.
    Unknown,
}

/// One action on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Who asked.
    pub client: u32,
    /// The key's number in the run.
    pub key: u32,
    /// What was asked for.
    pub action: Action,
    /// What was answered.
    pub outcome: Outcome,
    /// Just before it was sent, since the start of the run.
    pub begun: Duration,
    /// Just after the whole answer was there, or after the wait for it was given up.
    pub ended: Duration,
}

/// Where the entry of a key number is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryName {
    /// The user.
    pub user: String,
    /// The key as it stands in a path.
    pub key: String,
}

/// Every answered read and every write of a run, in no particular order.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What was done. Reads without an answer are left out: they say nothing.
    pub operations: Vec<Operation>,
    /// How many reads were left out, or answered with an error.
    pub unanswered_reads: u64,
    /// The entry of each key number; empty when the history is of no real entries.
    pub names: Vec<EntryName>,
}

impl Operation {
    /// When it has taken effect at the latest; `None` for a write of unknown outcome.
    pub fn settled(&self) -> Option<Duration> {
        (self.outcome != Outcome::Unknown).then_some(self.ended)
    }

    /// The version in its answer.
    pub fn version(&self) -> Option<u64> {
        match self.outcome {
            Outcome::Read { version, .. } | Outcome::Done { version } => version,
            Outcome::Refused | Outcome::Unknown => None,
        }
    }
}

impl History {
    /// How many operations ended so.
    pub fn count(&self, counts: impl Fn(&Operation) -> bool) -> usize {
        self.operations.iter().filter(|operation| counts(operation)).count()
    }
}

/// `put 17 → done v3`: what a label of the operation says.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.action {
            Action::Get => write!(f, "get")?,
            Action::Put(value) => write!(f, "put {value}")?,
            Action::Delete => write!(f, "delete")?,
        }
        match self.outcome {
            Outcome::Read { value: None, .. } => write!(f, " → none")?,
            Outcome::Read { value: Some(value), .. } => write!(f, " → {value}")?,
            Outcome::Done { .. } => write!(f, " → done")?,
            Outcome::Refused => write!(f, " → refused")?,
            Outcome::Unknown => write!(f, " → unknown")?,
        }
        self.version().map_or(Ok(()), |version| write!(f, " v{version}"))
    }
}
