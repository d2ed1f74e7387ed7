//! Breadth first over all states that an environment can reach, until a violation, the end, or a bound.

use std::time::Instant;

use crate::fingerprint::{ByFingerprint, Fingerprints};
use crate::properties::{Violation, broken_by};
use crate::state::State;
use crate::step::{Label, Model};

/// How far a search may go.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// States at most.
    pub states: usize,
    /// Steps at most.
    pub depth: usize,
    /// Seconds at most.
    pub seconds: f64,
}

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Different states.
    pub states: usize,
    /// Steps to the farthest of them.
    pub depth: usize,
    /// Whether these are all states that the environment can reach.
    pub exhausted: bool,
    /// Seconds it took.
    pub seconds: f64,
    /// The shortest way to a violation.
    pub counterexample: Option<Counterexample>,
}

/// The shortest way to a violation.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// Its steps.
    pub steps: Vec<Label>,
    /// What the last one has broken.
    pub violation: Violation,
}

/// Searches the model.
pub fn search(model: &Model, bounds: Bounds) -> Found {
    let begun = Instant::now();
    let mut fingerprints = Fingerprints::default();
    let beginning = model.beginning();
    let first = fingerprints.of(&beginning);
    // Each state's predecessor; 0 for the beginning.
    let mut seen = ByFingerprint::default();
    seen.insert(first, 0);
    let mut level = vec![beginning];
    let mut depth = 0;
    let mut broken = None;
    let mut exhausted = true;
    'levels: while !level.is_empty() {
        if depth == bounds.depth {
            exhausted = false;
            break;
        }
        let mut next = Vec::new();
        for state in level {
            let from = fingerprints.of(&state);
            model.successors(&state, &mut |after, _| {
                let fingerprint = fingerprints.of(&after);
                if let std::collections::hash_map::Entry::Vacant(place) = seen.entry(fingerprint) {
                    place.insert(from);
                    match after.violation.or_else(|| broken_by(model, &after)) {
                        None => next.push(after),
                        Some(violation) => broken = broken.or(Some((fingerprint, violation))),
                    }
                }
            });
            let over = seen.len() > bounds.states || begun.elapsed().as_secs_f64() > bounds.seconds;
            if broken.is_some() || over {
                exhausted = false;
                break 'levels;
            }
        }
        depth += usize::from(!next.is_empty());
        level = next;
    }
    let counterexample =
        broken.map(|(last, violation)| Counterexample { steps: replay(model, &way_to(last, &seen)), violation });
    Found {
        states: seen.len(),
        depth: counterexample.as_ref().map_or(depth, |found| found.steps.len()),
        exhausted,
        seconds: begun.elapsed().as_secs_f64(),
        counterexample,
    }
}

/// The fingerprints from the first step to this one.
fn way_to(last: u64, seen: &ByFingerprint<u64>) -> Vec<u64> {
    let before = |fingerprint: &u64| seen.get(fingerprint).copied().filter(|before| *before != 0);
    let mut way: Vec<u64> = std::iter::successors(Some(last), before).collect();
    way.pop();
    way.reverse();
    way
}

/// Goes the way again, for its steps: states themselves are not kept.
fn replay(model: &Model, way: &[u64]) -> Vec<Label> {
    let mut fingerprints = Fingerprints::default();
    let mut state: State = model.beginning();
    let mut steps = Vec::with_capacity(way.len());
    for wanted in way {
        let mut found = None;
        model.successors(&state, &mut |after, label| {
            if found.is_none() && fingerprints.of(&after) == *wanted {
                found = Some((after, label));
            }
        });
        let (after, label) = found.expect("the same state has the same successors");
        steps.push(label);
        state = after;
    }
    steps
}

impl std::fmt::Display for Counterexample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (step, number) in self.steps.iter().zip(1..) {
            writeln!(f, "{number:>3}. {step}")?;
        }
        writeln!(f, "     {}", self.violation)
    }
}
