//! Fewer operations that still have no order: what a person can look at.
//!
//! Delta debugging (Zeller & Hildebrandt, 2002) in its plain form: pieces of halving size are left out as long as what
//! remains has no order. Only what cannot make an order disappear is left out, else the rest would accuse the innocent:
//!
//! - a read, always;
//! - a write together with all reads of its value;
//! - a delete that no remaining read of absence can be due to: it began after the read had ended, or an acknowledged write
//!   that remains lies between the two.

use std::collections::HashSet;

use super::put_value;
use super::search::{Verdict, search};
use crate::history::{Action, Operation, Outcome};

/// The most searches; what is left then is not the least, but wrong all the same.
const SEARCHES: usize = 3000;
/// The steps of each: far more than a history takes that is getting smaller.
const STEPS: u64 = 100_000;

/// A part of these operations, which have no order, that has none either.
pub(super) fn minimal(operations: &[Operation]) -> Vec<Operation> {
    let mut left = operations.to_vec();
    let mut searches = 0;
    let mut piece = left.len().div_ceil(2);
    while piece > 0 {
        let before = left.len();
        // From the end: what came after the violation goes first, and in large pieces.
        let mut end = left.len();
        while end > 0 && searches < SEARCHES {
            let start = end.saturating_sub(piece);
            let fewer = without(&left, start, end);
            if fewer.len() < left.len() {
                searches += 1;
                if search(&fewer, STEPS).verdict == Verdict::NotLinearizable {
                    left = fewer;
                }
            }
            end = start.min(left.len());
        }
        // Single operations until nothing changes: one that went may have held others.
        if piece > 1 || left.len() == before {
            piece /= 2;
        }
    }
    left
}

/// The operations without those from `start` to `end`, as far as each may be left out.
fn without(operations: &[Operation], start: usize, end: usize) -> Vec<Operation> {
    let writes: HashSet<u64> = operations[start..end]
        .iter()
        .filter(|operation| !matches!(operation.outcome, Outcome::Read { .. }))
        .filter_map(put_value)
        .collect();
    let mut left = Vec::with_capacity(operations.len());
    let mut deletes = Vec::new();
    for (at, operation) in operations.iter().enumerate() {
        let piece = (start..end).contains(&at);
        match (operation.action, operation.outcome) {
            (_, Outcome::Read { value, .. }) if piece || value.is_some_and(|value| writes.contains(&value)) => {}
            (Action::Put(_) | Action::Get, _) if piece => {}
            (Action::Delete, Outcome::Done { .. } | Outcome::Unknown) if piece => deletes.push(*operation),
            (Action::Delete, Outcome::Refused) if piece => {}
            _ => left.push(*operation),
        }
    }
    let kept: Vec<_> = deletes.into_iter().filter(|delete| may_be_read(delete, &left)).collect();
    left.extend(kept);
    left.sort_by_key(|operation| (operation.begun, operation.ended));
    left
}

/// Whether a read of absence among the operations can be due to the delete.
fn may_be_read(delete: &Operation, operations: &[Operation]) -> bool {
    let mut absences =
        operations.iter().filter(|operation| matches!(operation.outcome, Outcome::Read { value: None, .. }));
    absences.any(|read| {
        let overwritten = |write: &Operation| {
            let acknowledged = put_value(write).is_some() && matches!(write.outcome, Outcome::Done { .. });
            let after_delete = delete.settled().is_some_and(|settled| settled < write.begun);
            acknowledged && after_delete && write.ended < read.begun
        };
        delete.begun <= read.ended && !operations.iter().any(overwritten)
    })
}
