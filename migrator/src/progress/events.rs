//! What the change verbs print with `--json`: one JSON object per line, each with its `event`. The last is the result.

use std::io::Write;

use serde::Serialize;

use super::Step;
use crate::meter::Reading;

/// One line.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event<'a> {
    /// A phase begins.
    PhaseBegan {
        /// Which.
        phase: Step,
        /// How much is to be done, where that is known at its beginning.
        total: u64,
        /// Of what.
        unit: &'a str,
    },
    /// A phase has got on.
    Progress {
        /// Which.
        phase: Step,
        /// Units done.
        done: u64,
        /// Of so many.
        total: u64,
    },
    /// Copying has got on.
    #[serde(rename = "progress")]
    Copied {
        /// Always `copy_keys`.
        phase: Step,
        /// How far, how fast.
        #[serde(flatten)]
        reading: &'a Reading,
    },
    /// Copying pauses.
    Paused {
        /// The bound that was broken.
        reason: &'a str,
    },
    /// Copying goes on.
    Resumed,
    /// Something worth knowing.
    Note {
        /// What.
        text: &'a str,
    },
    /// A phase is over.
    PhaseEnded {
        /// Which.
        phase: Step,
        /// What came of it.
        result: &'a str,
        /// How long it took, in milliseconds.
        ms: u64,
    },
}

/// The last line: the summary, or the reason of the failure.
#[derive(Debug, Serialize)]
pub struct ResultLine<'a, T> {
    event: &'static str,
    #[serde(flatten)]
    result: &'a T,
}

impl<'a, T> ResultLine<'a, T> {
    /// The line of this result.
    pub fn of(result: &'a T) -> Self {
        Self { event: "result", result }
    }
}

/// Prints the event on stdout.
pub(crate) fn print(event: &Event<'_>) {
    let line = serde_json::to_string(event).expect("events have string keys and finite numbers");
    // A reader that has gone away is no reason to stop a change.
    let _ = writeln!(std::io::stdout(), "{line}");
}
