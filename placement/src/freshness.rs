//! The decisions that keep caches fresh: what a read may do, what a finished load may store (protocol G1, G4, G5).
//!
//! Pure: the caller takes the view inside one critical section and acts on the answer before leaving it. Upholds I3 and I8.

use crate::slot_hold::Reign;

/// A number per key (or stripe of keys) that rises with every write: equal numbers mean no write in between (S8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guard(u64);

impl Guard {
    /// The next number.
    pub fn raise(&mut self) {
        self.0 += 1;
    }
}

/// When a load began: what must still hold when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoadStart {
    /// The key's guard at the start.
    pub guard: Guard,
    /// The slot's reign at the start.
    pub reign: Reign,
}

/// What a node sees of key, slot and lease in one critical section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Whether the slot is ours.
    pub mine: bool,
    /// Whether our lease holds at this moment.
    pub lease_valid: bool,
    /// Whether the slot is sealed for a change.
    pub sealed: bool,
    /// Whether a write of the key is in progress or its outcome unknown.
    pub writer_active: bool,
    /// The guard and reign now.
    pub now: LoadStart,
}

/// What a read does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadStep {
    /// Answer 421.
    NotOwner,
    /// Read the origin and touch no cache (G6).
    Direct(Bypass),
    /// Take the L1 entry.
    Hit,
    /// Wait for the load in progress.
    Join,
    /// Begin a load.
    Lead(LoadStart),
}

/// Why the caches are passed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bypass {
    /// Asked for by the gateway.
    Detached,
    /// Our lease is over.
    Lease,
    /// The slot is sealed for a change.
    Sealed,
    /// A write of the key is in progress or its outcome unknown.
    WriterActive,
    /// Loads of the key failed to end well several times.
    Unsettled,
}

/// G1: `entry` is the tag of the L1 entry, `flight` the start of the load in progress.
pub fn read_step(view: View, entry: Option<Reign>, flight: Option<LoadStart>) -> ReadStep {
    if !view.mine {
        return ReadStep::NotOwner;
    }
    if !view.lease_valid {
        return ReadStep::Direct(Bypass::Lease);
    }
    if view.sealed {
        return ReadStep::Direct(Bypass::Sealed);
    }
    if entry == Some(view.now.reign) {
        return ReadStep::Hit;
    }
    if view.writer_active {
        return ReadStep::Direct(Bypass::WriterActive);
    }
    if flight == Some(view.now) { ReadStep::Join } else { ReadStep::Lead(view.now) }
}

/// G4: whether a load that holds an L2 lease may redeem it.
pub fn may_redeem(start: LoadStart, view: View) -> bool {
    view.mine && view.lease_valid && !view.sealed && view.now == start
}

/// G5: whether a finished load may put its value into L1, tagged with the reign it began under.
pub fn may_store(start: LoadStart, view: View) -> bool {
    view.now == start
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        View {
            mine: true,
            lease_valid: true,
            sealed: false,
            writer_active: false,
            now: LoadStart { guard: Guard(3), reign: Reign::new(2) },
        }
    }

    #[test]
    fn an_entry_of_another_reign_is_no_hit() {
        assert_eq!(read_step(view(), Some(Reign::new(2)), None), ReadStep::Hit);
        assert_eq!(read_step(view(), Some(Reign::new(1)), None), ReadStep::Lead(view().now));
    }

    #[test]
    fn a_load_is_joined_only_under_the_same_guard_and_reign() {
        let now = view().now;
        assert_eq!(read_step(view(), None, Some(now)), ReadStep::Join);
        let older_guard = LoadStart { guard: Guard(2), ..now };
        let older_reign = LoadStart { reign: Reign::new(1), ..now };
        assert_eq!(read_step(view(), None, Some(older_guard)), ReadStep::Lead(now));
        assert_eq!(read_step(view(), None, Some(older_reign)), ReadStep::Lead(now));
    }

    #[test]
    fn without_lease_under_a_seal_or_beside_a_writer_the_origin_is_read() {
        let hit = Some(view().now.reign);
        assert_eq!(read_step(View { mine: false, ..view() }, hit, None), ReadStep::NotOwner);
        assert_eq!(read_step(View { lease_valid: false, ..view() }, hit, None), ReadStep::Direct(Bypass::Lease));
        assert_eq!(read_step(View { sealed: true, ..view() }, hit, None), ReadStep::Direct(Bypass::Sealed));
        let beside_writer = View { writer_active: true, ..view() };
        assert_eq!(read_step(beside_writer, None, Some(view().now)), ReadStep::Direct(Bypass::WriterActive));
    }

    #[test]
    fn a_lease_in_l2_is_redeemed_only_if_all_four_still_hold() {
        let start = view().now;
        assert!(may_redeem(start, view()));
        assert!(!may_redeem(start, View { lease_valid: false, ..view() }));
        assert!(!may_redeem(start, View { sealed: true, ..view() }));
        assert!(!may_redeem(LoadStart { guard: Guard(2), ..start }, view()));
        assert!(!may_redeem(LoadStart { reign: Reign::new(1), ..start }, view()));
    }
}
