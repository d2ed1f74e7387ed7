//! What the old owners have said of their streams, and what follows from it. Pure: answers and time come in as arguments.

use std::collections::{BTreeMap, BTreeSet};

use client::ControlError;
use placement::NodeId;
use tokio::time::Instant;
use wire::ProblemCode;
use wire::control::{CopyReport, CopyState, CopyStream};
use wire::problem::Retry;

use crate::copy_order::CopyWaits;
use crate::limits::STREAM_BREAKS_MAX;
use crate::meter::Amounts;
use crate::phases::StepError;
use crate::phases::flip_epoch::describe;

/// One old owner and one receiver.
type Pair = (NodeId, NodeId);

/// All streams of a copy.
#[derive(Debug)]
pub(super) struct Ledger {
    streams: BTreeMap<Pair, Seen>,
    owners: BTreeMap<NodeId, Answers>,
    waits: CopyWaits,
    last_progress: Instant,
}

/// What is known of a pair's newest stream.
#[derive(Debug, Default)]
struct Seen {
    stream: Option<CopyStream>,
    /// The streams that broke.
    broken: BTreeSet<String>,
}

/// How an old owner answers.
#[derive(Debug, Default)]
struct Answers {
    /// Why it does not, if it does not.
    trouble: Option<String>,
    /// Since when it refuses to take part.
    refuses_since: Option<Instant>,
    /// It is not asked before.
    ask_from: Option<Instant>,
}

/// A stream that broke and will be opened again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Break {
    pub(super) owner: NodeId,
    pub(super) receiver: NodeId,
    pub(super) reason: String,
}

impl Ledger {
    pub(super) fn new(pairs: impl IntoIterator<Item = Pair>, waits: CopyWaits, now: Instant) -> Self {
        let streams: BTreeMap<Pair, Seen> = pairs.into_iter().map(|pair| (pair, Seen::default())).collect();
        let owners = streams.keys().map(|(owner, _)| (owner.clone(), Answers::default())).collect();
        Self { streams, owners, waits, last_progress: now }
    }

    /// The old owners to ask now.
    pub(super) fn to_ask(&self, now: Instant) -> Vec<NodeId> {
        let due = |answers: &Answers| answers.ask_from.is_none_or(|from| from <= now);
        self.owners.iter().filter(|(_, answers)| due(answers)).map(|(owner, _)| owner.clone()).collect()
    }

    /// Takes an answer in; answers the streams that broke since the last.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        owner: &NodeId,
        answer: Result<CopyReport, ControlError>,
    ) -> Result<Vec<Break>, StepError> {
        let Some(answers) = self.owners.get_mut(owner) else { return Ok(Vec::new()) };
        match answer {
            Ok(report) if &report.node != owner => {
                Err(StepError::WrongReport { node: owner.clone(), what: "it calls itself by another name" })
            }
            Ok(report) => {
                *answers = Answers::default();
                self.reported(now, owner, report.streams)
            }
            Err(error) => {
                answers.refused(now, owner, &error, &self.waits)?;
                Ok(Vec::new())
            }
        }
    }

    /// No answer in time.
    pub(super) fn unanswered(&mut self, owner: &NodeId) {
        if let Some(answers) = self.owners.get_mut(owner) {
            answers.trouble = Some("no answer".to_owned());
        }
    }

    fn reported(&mut self, now: Instant, owner: &NodeId, streams: Vec<CopyStream>) -> Result<Vec<Break>, StepError> {
        let mut breaks = Vec::new();
        for stream in streams {
            let Some(seen) = self.streams.get_mut(&(owner.clone(), stream.receiver.clone())) else { continue };
            if let CopyState::Broken(reason) = &stream.state {
                let (receiver, reason) = (stream.receiver.clone(), reason.clone());
                if seen.broken.insert(stream.stream.clone()) {
                    breaks.push(Break { owner: owner.clone(), receiver: receiver.clone(), reason: reason.clone() });
                }
                if seen.broken.len() >= STREAM_BREAKS_MAX {
                    let (owner, times) = (owner.clone(), seen.broken.len());
                    return Err(StepError::StreamBreaks { owner, receiver, times, reason });
                }
            } else if seen.stream.as_ref() != Some(&stream) {
                self.last_progress = now;
            }
            seen.stream = Some(stream);
        }
        if !breaks.is_empty()
            && let Some(answers) = self.owners.get_mut(owner)
        {
            answers.ask_from = Some(now + self.waits.reopen);
        }
        Ok(breaks)
    }

    /// Whether every receiver has everything, as far as is known.
    pub(super) fn is_complete(&self) -> bool {
        let caught_up = |seen: &Seen| seen.stream.as_ref().is_some_and(|stream| stream.state == CopyState::CaughtUp);
        self.streams.values().all(caught_up)
    }

    /// All streams together; of broken ones nothing is of use.
    pub(super) fn amounts(&self) -> Amounts {
        let streams = self.streams.values().filter_map(|seen| seen.stream.as_ref());
        streams.fold(Amounts::default(), |sum, stream| {
            let kept = !matches!(stream.state, CopyState::Broken(_));
            let copied = |amount: u64| if kept { amount } else { 0 };
            Amounts {
                entries: sum.entries + copied(stream.entries_copied),
                entries_total: sum.entries_total + stream.entries_total,
                bytes: sum.bytes + copied(stream.bytes_copied),
                bytes_total: sum.bytes_total + stream.bytes_total,
            }
        })
    }

    /// Nothing is expected to move while copying is paused.
    pub(super) fn paused(&mut self, now: Instant) {
        self.last_progress = now;
    }

    /// Fails once nothing has moved for too long, naming the first stream that is not done.
    pub(super) fn check_progress(&self, now: Instant) -> Result<(), StepError> {
        if now.saturating_duration_since(self.last_progress) < self.waits.stall || self.is_complete() {
            return Ok(());
        }
        let open = |seen: &&Seen| seen.stream.as_ref().is_none_or(|stream| stream.state != CopyState::CaughtUp);
        let ((owner, receiver), seen) = self
            .streams
            .iter()
            .find(|(_, seen)| open(seen))
            .expect("a copy that is not complete has a stream that is not done");
        let trouble = self.owners.get(owner).and_then(|answers| answers.trouble.clone());
        let reason = trouble.unwrap_or_else(|| match seen.stream.as_ref().map(|stream| &stream.state) {
            None => "it was never begun".to_owned(),
            Some(CopyState::Broken(reason)) => reason.clone(),
            Some(CopyState::Copying | CopyState::CaughtUp) => "nothing moves".to_owned(),
        });
        let waited = self.waits.stall;
        Err(StepError::CopyStalled { owner: owner.clone(), receiver: receiver.clone(), waited, reason })
    }
}

impl Answers {
    /// Fails if asking again cannot help.
    fn refused(
        &mut self,
        now: Instant,
        owner: &NodeId,
        error: &ControlError,
        waits: &CopyWaits,
    ) -> Result<(), StepError> {
        let reason = describe(error);
        let code = match error {
            ControlError::Unreachable(_) => {
                self.trouble = Some(reason);
                return Ok(());
            }
            ControlError::Malformed(_) => return Err(StepError::CannotCopy { node: owner.clone(), reason }),
            ControlError::Refused(problem) => problem.code,
        };
        if code == ProblemCode::ChangeConflict {
            let since = *self.refuses_since.get_or_insert(now);
            if now.saturating_duration_since(since) < waits.conflict {
                self.trouble = Some(reason);
                return Ok(());
            }
        }
        match code {
            ProblemCode::NotFound | ProblemCode::MethodNotAllowed | ProblemCode::ChangeConflict => {
                Err(StepError::CannotCopy { node: owner.clone(), reason })
            }
            _ if code.retry() == Retry::Later => {
                self.trouble = Some(reason);
                Ok(())
            }
            _ => {
                let (node, verb, waited) = (owner.clone(), "copy its entries", waits.stall);
                Err(StepError::NodeFailed { node, verb, waited, reason })
            }
        }
    }
}

#[cfg(test)]
mod tests;
