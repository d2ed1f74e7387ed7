//! One step of the model: what may happen next, told in words, and the state after it.

use std::fmt;
use std::sync::Arc;

use placement::PinnedUsers;

use crate::environment::{Environment, Kind};
use crate::mutation::Rules;
use crate::state::{Content, State};

/// What is searched: an environment under rules.
pub struct Model {
    /// What happens and how often.
    pub environment: Environment,
    /// The protocol, whole or not.
    pub rules: Rules,
    /// Whether the invariants are looked at too, not only what clients see.
    pub looks_at_invariants: bool,
    /// The text of each L2 space by identity and number; made once, for states hold thousands of them.
    spaces: Vec<Vec<Arc<str>>>,
    /// The text of each stream id.
    streams: Vec<Arc<str>>,
    /// The list of slot 0 once the user has left it; made once too.
    pub(crate) pinned: PinnedUsers,
}

/// Identities a run can come to.
const IDENTITIES_MAX: usize = 4;
/// Streams a run can come to.
const STREAMS_MAX: usize = 8;

impl Model {
    /// The environment under the rules. With guards taken away only what clients see is looked at.
    pub fn new(environment: Environment, rules: Rules) -> Self {
        let space = |identity, number| Arc::from(format!("{identity}/{number}"));
        let of_identity = |identity| (0..crate::database::SPACES_MAX).map(|number| space(identity, number)).collect();
        let spaces = (0..=IDENTITIES_MAX).map(of_identity).collect();
        let streams = (0..=STREAMS_MAX).map(|id| Arc::from(id.to_string())).collect();
        let pinned = PinnedUsers::NONE.with(crate::pinning::pinned());
        Self { environment, rules, looks_at_invariants: rules.0.is_empty(), spaces, streams, pinned }
    }

    /// With the invariants looked at, whatever the rules.
    pub fn with_invariants(self) -> Self {
        Self { looks_at_invariants: true, ..self }
    }

    /// The L2 space of that number as the slot table has it.
    pub(crate) fn space(&self, identity: u8, number: u8) -> Option<Arc<str>> {
        (number > 0).then(|| Arc::clone(&self.spaces[usize::from(identity)][usize::from(number)]))
    }

    /// The stream id as the journal has it.
    pub(crate) fn stream(&self, id: u8) -> Arc<str> {
        Arc::clone(&self.streams[usize::from(id)])
    }

    /// Whether another stream may be opened in this run.
    pub(crate) fn has_streams_left(&self, last: u8) -> bool {
        usize::from(last) < STREAMS_MAX
    }

    /// Gives every state that may follow this one, with the step that leads to it.
    pub fn successors(&self, state: &State, emit: &mut dyn FnMut(State, Label)) {
        let mut steps = Steps { model: self, state, emit };
        crate::reads::steps(&mut steps);
        crate::writes::steps(&mut steps);
        crate::ownership::steps(&mut steps);
        crate::renewals::steps(&mut steps);
        crate::ring_change::steps(&mut steps);
        crate::handoff::steps(&mut steps);
        crate::redis_faults::steps(&mut steps);
    }
}

/// The steps out of one state.
pub struct Steps<'a> {
    /// The environment and the rules.
    pub model: &'a Model,
    /// The state before.
    pub state: &'a State,
    emit: &'a mut dyn FnMut(State, Label),
}

impl Steps<'_> {
    /// One step: `change` makes the state after it from a copy of the state before.
    pub fn step(&mut self, label: Label, change: impl FnOnce(&mut State)) {
        let mut after = self.state.clone();
        change(&mut after);
        self.model.forget_the_powerless(&mut after);
        (self.emit)(after, label);
    }

    /// The indices of all processes.
    pub fn processes(&self) -> std::ops::Range<usize> {
        0..self.state.processes.len()
    }
}

/// A step in words: which rule, who, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The rule of docs/PROTOCOL.md, or "env" for what the environment does.
    pub rule: &'static str,
    /// What happens.
    pub what: &'static str,
    /// The process concerned.
    pub process: Option<usize>,
    /// The client's operation concerned, and whether it is a write.
    pub operation: Option<(usize, Kind)>,
    /// The entry's content concerned.
    pub content: Option<Content>,
}

impl Label {
    /// A step of that rule.
    pub fn new(rule: &'static str, what: &'static str) -> Self {
        Self { rule, what, process: None, operation: None, content: None }
    }

    /// At that process.
    pub fn at(self, process: usize) -> Self {
        Self { process: Some(process), ..self }
    }

    /// For that operation of a client.
    pub fn of(self, operation: usize, kind: Kind) -> Self {
        Self { operation: Some((operation, kind)), ..self }
    }

    /// With that content.
    pub fn with(self, content: Content) -> Self {
        Self { content: Some(content), ..self }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<4} ", self.rule)?;
        if let Some(process) = self.process {
            write!(f, "process {process}: ")?;
        }
        if let Some((number, kind)) = self.operation {
            write!(f, "{kind} {number}: ")?;
        }
        f.write_str(self.what)?;
        match self.content {
            Some(0) => write!(f, " (what was there at the beginning)"),
            Some(content) => write!(f, " (what operation {} has written)", content - 1),
            None => Ok(()),
        }
    }
}
