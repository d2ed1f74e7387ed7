//! What versions say of one key, independent of the search: a version has one value and a value one version, and what an
//! operation tells is newer than what was told before it began. A write's is strictly newer (the tag only grows).

use std::collections::HashMap;

use super::Wrong;
use crate::history::{Action, Operation, Outcome};

/// Judges one key's operations; what is wrong comes with the operations that contradict each other.
pub(super) fn judge(operations: &[Operation]) -> Result<(), (Wrong, Vec<Operation>)> {
    let mut values: HashMap<u64, (u64, Operation)> = HashMap::new();
    let mut versions: HashMap<u64, (u64, Operation)> = HashMap::new();
    for operation in operations {
        let Some((value, version)) = value_and_version(operation) else { continue };
        let (other, earlier) = values.entry(version).or_insert((value, *operation));
        if *other != value {
            return Err((Wrong::TwoValues, vec![*earlier, *operation]));
        }
        let (other, earlier) = versions.entry(value).or_insert((version, *operation));
        if *other != version {
            return Err((Wrong::TwoVersions, vec![*earlier, *operation]));
        }
    }
    never_fall(operations)
}

/// Sweeps over begins, with the newest version of all that had ended before.
fn never_fall(operations: &[Operation]) -> Result<(), (Wrong, Vec<Operation>)> {
    let versioned = || operations.iter().filter_map(|operation| Some((operation.version()?, operation)));
    let (mut begins, mut ends): (Vec<_>, Vec<_>) = (versioned().collect(), versioned().collect());
    begins.sort_by_key(|(_, operation)| operation.begun);
    ends.sort_by_key(|(_, operation)| operation.ended);
    let mut ends = ends.into_iter().peekable();
    let mut newest: Option<(u64, &Operation)> = None;
    for (version, operation) in begins {
        while let Some((ended, earlier)) = ends.next_if(|(_, earlier)| earlier.ended < operation.begun) {
            if newest.is_none_or(|(newest, _)| newest < ended) {
                newest = Some((ended, earlier));
            }
        }
        let Some((newest, earlier)) = newest else { continue };
        let writes = matches!(operation.outcome, Outcome::Done { .. });
        if version < newest || (writes && version == newest) {
            return Err((Wrong::VersionFell, vec![*earlier, *operation]));
        }
    }
    Ok(())
}

fn value_and_version(operation: &Operation) -> Option<(u64, u64)> {
    match (operation.action, operation.outcome) {
        (_, Outcome::Read { value, version }) => value.zip(version),
        (Action::Put(value), Outcome::Done { version }) => Some((value, version?)),
        _ => None,
    }
}
