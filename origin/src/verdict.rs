//! What a write statement found, told from its numbers: the same reading of a precondition for both databases (protocol B4).
//!
//! Pure.

use wire::entries::Version;

use crate::entries::{Precondition, WriteKind};

/// What a precondition asks of an entry that exists: `(all or version in versions) == wanted`; and of one that does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// Any version is meant (`*`, or no precondition).
    pub(crate) all: bool,
    /// The versions meant.
    pub(crate) versions: Vec<i64>,
    /// Whether to be meant is good (`If-Match`) or bad (`If-None-Match`).
    pub(crate) wanted: bool,
    /// Whether an absent entry is fine.
    pub(crate) absent_ok: bool,
}

impl Demand {
    /// The demand of a precondition.
    pub(crate) fn of(precondition: &Precondition) -> Self {
        let numbers = |versions: &[Version]| versions.iter().map(|version| version.0).collect();
        let demand = |all, versions, wanted, absent_ok| Self { all, versions, wanted, absent_ok };
        match precondition {
            Precondition::None => demand(true, Vec::new(), true, true),
            Precondition::IfExists => demand(true, Vec::new(), true, false),
            Precondition::IfMatch(versions) => demand(false, numbers(versions), true, false),
            Precondition::IfAbsent => demand(true, Vec::new(), false, true),
            Precondition::IfNoneMatch(versions) => demand(false, numbers(versions), false, true),
        }
    }

    /// Whether it holds for an entry of that version, `None` when absent.
    pub(crate) fn holds(&self, present: Option<Version>) -> bool {
        match present {
            None => self.absent_ok,
            Some(version) => (self.all || self.versions.contains(&version.0)) == self.wanted,
        }
    }
}

/// What a write does, once slot and present version are known and nothing can change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing: the slot has another tenure.
    Fenced,
    /// Nothing: the precondition does not hold.
    Fail(Option<Version>),
    /// Insert.
    Create,
    /// Update.
    Replace,
    /// Delete the entry of this version.
    Delete(Version),
    /// Nothing: there is nothing to delete.
    Absent,
}

/// The step of a write.
pub(crate) fn step(owned: bool, present: Option<Version>, kind: &WriteKind, demand: &Demand) -> Step {
    if !owned {
        return Step::Fenced;
    }
    if !demand.holds(present) {
        return Step::Fail(present);
    }
    match (kind, present) {
        (WriteKind::Put { .. }, None) => Step::Create,
        (WriteKind::Put { .. }, Some(_)) => Step::Replace,
        (WriteKind::Delete, Some(version)) => Step::Delete(version),
        (WriteKind::Delete, None) => Step::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V7: Option<Version> = Some(Version(7));

    #[test]
    fn preconditions_read_as_rfc_9110_says() {
        let holds = |precondition, present| Demand::of(&precondition).holds(present);
        let listed = || vec![Version(3), Version(7)];
        assert!(holds(Precondition::None, None) && holds(Precondition::None, V7));
        assert!(holds(Precondition::IfExists, V7) && !holds(Precondition::IfExists, None));
        assert!(holds(Precondition::IfAbsent, None) && !holds(Precondition::IfAbsent, V7));
        assert!(holds(Precondition::IfMatch(listed()), V7) && !holds(Precondition::IfMatch(listed()), None));
        assert!(!holds(Precondition::IfMatch(vec![Version(8)]), V7) && !holds(Precondition::IfMatch(vec![]), V7));
        assert!(!holds(Precondition::IfNoneMatch(listed()), V7) && holds(Precondition::IfNoneMatch(listed()), None));
        assert!(holds(Precondition::IfNoneMatch(vec![Version(8)]), V7));
    }

    #[test]
    fn the_fence_comes_before_the_precondition() {
        let demand = Demand::of(&Precondition::IfAbsent);
        assert_eq!(step(false, V7, &WriteKind::Delete, &demand), Step::Fenced);
        assert_eq!(step(true, V7, &WriteKind::Delete, &demand), Step::Fail(V7));
        assert_eq!(step(true, None, &WriteKind::Delete, &demand), Step::Absent);
    }
}
