//! Whether a history is one that linearizable registers can have: each operation takes effect at one moment between its
//! begin and its end, in one order per key, and each read sees what was written last in that order.
//!
//! Keys are judged one by one, for linearizability is local (Herlihy & Wing, 1990). Two oracles look at each: a search
//! for an order ([`search`], in the family of Wing & Gong, 1993, and Lowe, 2017), and the [`versions`], which must rise.

mod minimal;
mod picture;
mod report;
mod search;
mod versions;

use std::collections::{BTreeMap, HashSet};

use search::Verdict;

use crate::history::{Action, EntryName, History, Operation, Outcome};

/// The most steps one key is given; a key of 5,000 operations takes about as many.
const STEP_BOUND: u64 = 2_000_000;

/// What was judged, and found to be in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Keys.
    pub keys: usize,
    /// Operations, all that follow included.
    pub operations: usize,
    /// Reads, and deletes that found nothing.
    pub reads: usize,
    /// Writes that were acknowledged.
    pub writes: usize,
    /// Writes that were not executed.
    pub refused: usize,
    /// Writes that may have been executed.
    pub unknown: usize,
    /// Reads that were not judged, for they got no answer.
    pub unanswered_reads: u64,
    /// Steps that the search took.
    pub steps: u64,
}

/// What is wrong with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// No order of the operations explains what was read.
    NoOrder,
    /// A value was read that was never written to the key, or only by a write that was refused.
    NotWritten,
    /// One version came with two values.
    TwoValues,
    /// One value came with two versions: it was written twice.
    TwoVersions,
    /// A version is not newer than one that was seen before its operation began.
    VersionFell,
    /// The search was given up: nothing is known of the key.
    Undecided,
}

/// A key whose history no register can have, or that could not be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The key's number.
    pub key: u32,
    /// Its entry, if the history tells.
    pub name: Option<EntryName>,
    /// What is wrong.
    pub wrong: Wrong,
    /// A few operations that are wrong already, in the order of their begins; all of them where nothing was decided.
    pub minimal: Vec<Operation>,
    /// Every operation on the key, in the order of their begins.
    pub operations: Vec<Operation>,
}

/// Judges every key.
///
/// # Errors
/// The first key that is wrong, or that could not be decided within a bound of steps.
///
/// # Panics
/// When two writes of a key have the same value: then the history is not one that can be judged.
pub fn check(history: &History) -> Result<Checked, Box<Violation>> {
    check_within(history, STEP_BOUND)
}

fn check_within(history: &History, step_bound: u64) -> Result<Checked, Box<Violation>> {
    let mut keys: BTreeMap<u32, Vec<Operation>> = BTreeMap::new();
    for operation in &history.operations {
        keys.entry(operation.key).or_default().push(*operation);
    }
    let mut checked = Checked {
        keys: keys.len(),
        operations: history.operations.len(),
        reads: history.count(|operation| matches!(operation.outcome, Outcome::Read { .. })),
        writes: history.count(|operation| matches!(operation.outcome, Outcome::Done { .. })),
        refused: history.count(|operation| operation.outcome == Outcome::Refused),
        unknown: history.count(|operation| operation.outcome == Outcome::Unknown),
        unanswered_reads: history.unanswered_reads,
        steps: 0,
    };
    for (key, mut operations) in keys {
        operations.sort_by_key(|operation| (operation.begun, operation.ended));
        assert_values_unique(&operations);
        match judge(&operations, step_bound) {
            Ok(steps) => checked.steps += steps,
            Err((wrong, minimal)) => {
                let name = history.names.get(key as usize).cloned();
                return Err(Box::new(Violation { key, name, wrong, minimal, operations }));
            }
        }
    }
    Ok(checked)
}

/// The steps taken; or what is wrong, and the few operations that show it.
fn judge(operations: &[Operation], step_bound: u64) -> Result<u64, (Wrong, Vec<Operation>)> {
    if let Some(read) = unwritten_read(operations) {
        return Err((Wrong::NotWritten, read));
    }
    let search = search::search(operations, step_bound);
    match search.verdict {
        Verdict::Linearizable => {}
        Verdict::NotLinearizable => return Err((Wrong::NoOrder, minimal::minimal(operations))),
        Verdict::Undecided => return Err((Wrong::Undecided, operations.to_vec())),
    }
    versions::judge(operations)?;
    Ok(search.steps)
}

/// A read of what nobody wrote, with the refused write of that value if there is one.
fn unwritten_read(operations: &[Operation]) -> Option<Vec<Operation>> {
    let writes = |refused: bool| {
        let of_kind = operations.iter().filter(move |operation| (operation.outcome == Outcome::Refused) == refused);
        of_kind.filter_map(|operation| Some((put_value(operation)?, *operation)))
    };
    let written: HashSet<u64> = writes(false).map(|(value, _)| value).collect();
    let (value, read) = operations.iter().find_map(|operation| match operation.outcome {
        Outcome::Read { value: Some(value), .. } if !written.contains(&value) => Some((value, *operation)),
        _ => None,
    })?;
    let refused = writes(true).find(|(refused, _)| *refused == value).map(|(_, write)| write);
    let mut shown: Vec<_> = refused.into_iter().chain([read]).collect();
    shown.sort_by_key(|operation| operation.begun);
    Some(shown)
}

fn put_value(operation: &Operation) -> Option<u64> {
    match operation.action {
        Action::Put(value) => Some(value),
        Action::Get | Action::Delete => None,
    }
}

fn assert_values_unique(operations: &[Operation]) {
    let mut values = HashSet::new();
    for value in operations.iter().filter_map(put_value) {
        assert!(values.insert(value), "value {value} was written twice: the clients are wrong");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_key_that_cannot_be_decided_is_an_error() {
        let operation = |action, outcome, ms: u64| Operation {
            client: 0,
            key: 3,
            action,
            outcome,
            begun: Duration::from_millis(ms),
            ended: Duration::from_millis(ms),
        };
        let put = operation(Action::Put(1), Outcome::Done { version: None }, 1);
        let get = operation(Action::Get, Outcome::Read { value: Some(1), version: None }, 2);
        let history = History { operations: vec![put, get], ..History::default() };
        assert!(check_within(&history, 10).is_ok());
        let undecided = check_within(&history, 1).expect_err("a step is not enough");
        assert_eq!((undecided.wrong, undecided.key), (Wrong::Undecided, 3));
    }
}
