//! Histories of a register that is one: clients at work in made-up time, each operation with a moment of effect.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tests::history::{Action, History, Operation, Outcome};

/// The mix; percents.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) clients: u32,
    pub(crate) operations: usize,
    pub(crate) writes: u32,
    pub(crate) deletes: u32,
    pub(crate) unknown: u32,
    pub(crate) refused: u32,
    /// The longest operation; most are far shorter.
    pub(crate) longest: u64,
}

/// A history of one key; times are microseconds.
pub(crate) fn simulate(mix: &Mix, chance: &mut StdRng) -> History {
    let mut free_at = vec![0u64; mix.clients as usize];
    // (effect, if there is one; operation without its answer)
    let mut planned: Vec<(Option<u64>, Operation)> = Vec::new();
    for value in 0..mix.operations as u64 {
        let client = (0..free_at.len()).min_by_key(|client| free_at[*client]).expect("clients");
        let begun = free_at[client] + chance.random_range(0..20);
        let drawn: f64 = chance.random();
        let ended = begun + 1 + (mix.longest as f64 * drawn * drawn * drawn) as u64;
        free_at[client] = ended + 1;
        let percent = |chance: &mut StdRng, of: u32| chance.random_range(0..100) < of;
        let write = percent(chance, mix.writes);
        let action = match write {
            true if percent(chance, mix.deletes) => Action::Delete,
            true => Action::Put(value + 1),
            false => Action::Get,
        };
        let (outcome, effect) = if write && percent(chance, mix.unknown) {
            let late = chance.random_range(begun..=begun + 20 * mix.longest);
            (Outcome::Unknown, percent(chance, 60).then_some(late))
        } else if write && percent(chance, mix.refused) {
            (Outcome::Refused, None)
        } else {
            (Outcome::Done { version: None }, Some(chance.random_range(begun..=ended)))
        };
        let (begun, ended) = (Duration::from_micros(begun), Duration::from_micros(ended));
        planned.push((effect, Operation { client: client as u32, key: 0, action, outcome, begun, ended }));
    }
    answered(planned)
}

/// Lets every operation take effect in its turn, and answers it.
fn answered(mut planned: Vec<(Option<u64>, Operation)>) -> History {
    planned.sort_by_key(|(effect, _)| *effect);
    let (mut state, mut last_version) = (None, 0);
    for (effect, operation) in &mut planned {
        let unknown = operation.outcome == Outcome::Unknown;
        if effect.is_none() {
            continue;
        }
        let outcome = match operation.action {
            Action::Put(value) => {
                last_version += 1;
                state = Some((value, last_version));
                Outcome::Done { version: Some(last_version) }
            }
            Action::Delete if state.is_some() => {
                state = None;
                Outcome::Done { version: None }
            }
            Action::Get | Action::Delete => {
                let (value, version) = state.unzip();
                Outcome::Read { value, version }
            }
        };
        if !unknown {
            operation.outcome = outcome;
        }
    }
    History { operations: planned.into_iter().map(|(_, operation)| operation).collect(), ..History::default() }
}

/// The history without its versions: then the search alone judges.
pub(crate) fn without_versions(mut history: History) -> History {
    for operation in &mut history.operations {
        match &mut operation.outcome {
            Outcome::Read { version, .. } | Outcome::Done { version } => *version = None,
            Outcome::Refused | Outcome::Unknown => {}
        }
    }
    history
}
