//! What one node holds of one slot, and how rows, seals and aborts change it (protocol T2–T6, C5, C9).
//!
//! Pure: the caller holds the slot's lock, draws fresh reign numbers and acts on the answer. Upholds I6 and I7.

use std::sync::Arc;

use crate::{ChangeId, Gained, PinnedUsers, Slot, Tenure, UserId};

/// A node-local number of one unbroken possession of a slot; entries in L1 are tagged with it. 0 is "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reign(u64);

impl Reign {
    /// Not owned.
    pub const NONE: Reign = Reign(0);

    /// The reign of that number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// A slot row as seen by this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRow {
    /// Whether the row names this node.
    pub mine: bool,
    /// Its tenure.
    pub tenure: Tenure,
    /// Its gain.
    pub gained: Gained,
    /// The L2 space in force.
    pub l2_space: Option<Arc<str>>,
    /// Users whose home the slot is and who have one of their own.
    pub pinned: PinnedUsers,
}

/// What one node holds of one slot. The default is "never heard of it".
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SlotHold {
    mine: bool,
    tenure: Tenure,
    gained: Gained,
    l2_space: Option<Arc<str>>,
    reign: Reign,
    sealed: Option<ChangeId>,
    void_unconfirmed: bool,
    pinned: PinnedUsers,
}

/// What applying a row did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The row is not newer than what is held: nothing changed (T2).
    Stale,
    /// Still ours, same gain: only tenure and L2 space changed (T3).
    SameReign,
    /// Ours by a new gain: nothing cached before may be served (T4).
    NewReign,
    /// It was ours and is another's now (T5).
    Lost,
    /// Another's before and after.
    NotOurs,
}

/// Sealed for another change already (C5): that one must be settled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedForAnother(pub ChangeId);

impl SlotHold {
    /// Applies a row if its tenure is newer. `fresh` draws a reign number never used before in this process (I7).
    pub fn apply(&mut self, row: HoldRow, fresh: impl FnOnce() -> Reign) -> Applied {
        if row.tenure <= self.tenure {
            return Applied::Stale;
        }
        let same_reign = row.mine && self.mine && row.gained == self.gained;
        let was_mine = self.mine;
        if self.l2_space != row.l2_space {
            self.void_unconfirmed = false;
        }
        self.mine = row.mine;
        self.tenure = row.tenure;
        self.gained = row.gained;
        self.l2_space = row.l2_space;
        self.pinned = row.pinned;
        if same_reign {
            return Applied::SameReign;
        }
        self.sealed = None;
        if row.mine {
            self.reign = fresh();
            return Applied::NewReign;
        }
        self.reign = Reign::NONE;
        if was_mine { Applied::Lost } else { Applied::NotOurs }
    }

    /// Fenced (protocol L2): the slot is no longer ours until a newer row says so. The tenure stays, so that rows of the
    /// lost incarnation stay stale.
    pub fn forget(&mut self) {
        self.mine = false;
        self.reign = Reign::NONE;
        self.sealed = None;
    }

    /// Seals for a change; sealing twice for the same change is fine.
    pub fn seal(&mut self, change: ChangeId) -> Result<(), SealedForAnother> {
        match self.sealed {
            Some(other) if other != change => Err(SealedForAnother(other)),
            _ => {
                self.sealed = Some(change);
                Ok(())
            }
        }
    }

    /// Unseals because the journal says that this very change is aborted (C9). Says whether it was sealed for it.
    pub fn unseal_aborted(&mut self, change: ChangeId) -> bool {
        let was = self.sealed == Some(change);
        if was {
            self.sealed = None;
        }
        was
    }

    /// Unseals because the journal says that this very change has flipped (or is done), and gave the slot `flip_tenure`, and the
    /// row held is that flip's or a newer one: whoever applied it had no seal any more, so the seal was set after it, by a late
    /// request, and no row will end it (C9). With an older row the flip's own row is still to come and the seal stays until then.
    /// Says whether it was sealed for the change and is not any more.
    pub fn unseal_flipped(&mut self, change: ChangeId, flip_tenure: Tenure) -> bool {
        let set_too_late = self.sealed == Some(change) && self.tenure >= flip_tenure;
        if set_too_late {
            self.sealed = None;
        }
        set_too_late
    }

    /// Notes that a void of this slot was not confirmed: its L2 space is unusable until it changes (R4).
    pub fn mark_void_unconfirmed(&mut self) {
        self.void_unconfirmed = true;
    }

    /// Whether this node owns the slot, as far as it knows.
    pub fn is_mine(&self) -> bool {
        self.mine
    }

    /// Whether this node may serve a user under the slot, as far as it knows: it owns the slot, and the user has none of its own.
    pub fn serves(&self, user: &str) -> bool {
        self.mine && self.pinned_slot(user).is_none()
    }

    /// The slot of its own of a user whose home this slot is. Never right of a pinned slot, which is no user's home.
    pub fn pinned_slot(&self, user: &str) -> Option<Slot> {
        self.pinned.slot_of(user)
    }

    /// The user of the home slot that has this slot of its own.
    pub fn user_of(&self, pinned: Slot) -> Option<UserId> {
        self.pinned.iter().find(|user| user.slot == pinned).map(|user| user.user.clone())
    }

    /// Whether any user whose home this slot is has one of its own.
    pub fn has_pinned(&self) -> bool {
        !self.pinned.is_empty()
    }

    /// The newest tenure seen.
    pub fn tenure(&self) -> Tenure {
        self.tenure
    }

    /// The current reign; [`Reign::NONE`] unless owned.
    pub fn reign(&self) -> Reign {
        self.reign
    }

    /// The change the slot is sealed for.
    pub fn sealed(&self) -> Option<ChangeId> {
        self.sealed
    }

    /// The L2 space that may be used if a session of its identity is there (R2).
    pub fn usable_l2_space(&self) -> Option<&Arc<str>> {
        if self.mine && !self.void_unconfirmed { self.l2_space.as_ref() } else { None }
    }

    /// Whether the row says "L2 not in use", so that a write needs no void (W2).
    pub fn l2_is_off(&self) -> bool {
        self.l2_space.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(mine: bool, tenure: i64, gained: i64) -> HoldRow {
        HoldRow {
            mine,
            tenure: Tenure(tenure),
            gained: Gained(gained),
            l2_space: Some("a/b/1".into()),
            pinned: PinnedUsers::NONE,
        }
    }

    fn held() -> SlotHold {
        let mut hold = SlotHold::default();
        assert_eq!(hold.apply(row(true, 5, 5), || Reign::new(1)), Applied::NewReign);
        hold
    }

    #[test]
    fn a_renewal_keeps_the_reign_and_the_seal() {
        let mut hold = held();
        hold.seal(ChangeId(1)).expect("free");
        assert_eq!(hold.apply(row(true, 6, 5), || unreachable!()), Applied::SameReign);
        assert_eq!((hold.reign(), hold.sealed()), (Reign::new(1), Some(ChangeId(1))));
    }

    #[test]
    fn a_regain_without_a_noticed_loss_is_a_new_reign_without_seal() {
        let mut hold = held();
        hold.seal(ChangeId(1)).expect("free");
        assert_eq!(hold.apply(row(true, 9, 8), || Reign::new(2)), Applied::NewReign);
        assert_eq!((hold.reign(), hold.sealed()), (Reign::new(2), None));
    }

    #[test]
    fn late_rows_are_ignored() {
        let mut hold = held();
        assert_eq!(hold.apply(row(false, 7, 7), || unreachable!()), Applied::Lost);
        assert_eq!(hold.apply(row(true, 6, 5), || unreachable!()), Applied::Stale);
        assert!(!hold.is_mine());
        assert_eq!(hold.reign(), Reign::NONE);
    }

    #[test]
    fn after_a_fence_rows_of_the_lost_incarnation_stay_stale() {
        let mut hold = held();
        hold.forget();
        assert_eq!(hold.apply(row(true, 5, 5), || unreachable!()), Applied::Stale);
        assert_eq!(hold.apply(row(true, 8, 8), || Reign::new(3)), Applied::NewReign);
    }

    #[test]
    fn a_seal_ends_only_by_its_own_change() {
        let mut hold = held();
        hold.seal(ChangeId(1)).expect("free");
        assert_eq!(hold.seal(ChangeId(2)), Err(SealedForAnother(ChangeId(1))));
        assert!(!hold.unseal_aborted(ChangeId(2)));
        assert!(hold.unseal_aborted(ChangeId(1)));
        assert_eq!(hold.sealed(), None);
    }

    #[test]
    fn a_seal_of_a_flipped_change_ends_only_where_its_row_was_seen_before() {
        let mut hold = held();
        hold.seal(ChangeId(1)).expect("free");
        assert!(!hold.unseal_flipped(ChangeId(1), Tenure(6)), "the flip's row is still to come");
        assert_eq!(hold.apply(row(true, 6, 5), || unreachable!()), Applied::SameReign);
        assert!(!hold.unseal_flipped(ChangeId(2), Tenure(6)), "sealed for another change");
        assert_eq!(hold.sealed(), Some(ChangeId(1)));
        assert!(hold.unseal_flipped(ChangeId(1), Tenure(6)));
        assert_eq!(hold.sealed(), None);
        assert!(!hold.unseal_flipped(ChangeId(1), Tenure(6)), "it is not sealed any more");
    }

    #[test]
    fn a_user_that_is_pinned_is_not_served_under_its_home_and_the_others_keep_their_reign() {
        let mut hold = held();
        hold.seal(ChangeId(1)).expect("free");
        assert!(hold.serves("ada"));
        let pinned: PinnedUsers = "4096:ada".parse().expect("a list");
        let flipped = HoldRow { pinned, ..row(true, 6, 5) };
        assert_eq!(hold.apply(flipped, || unreachable!()), Applied::SameReign);
        assert_eq!(hold.sealed(), Some(ChangeId(1)), "until the journal says that the change has flipped");
        assert!(hold.unseal_flipped(ChangeId(1), Tenure(6)));
        assert_eq!((hold.serves("ada"), hold.serves("bob"), hold.reign()), (false, true, Reign::new(1)));
        assert_eq!(hold.apply(row(true, 5, 5), || unreachable!()), Applied::Stale);
        assert!(!hold.serves("ada"), "a late row does not bring the user back");
    }

    #[test]
    fn an_unconfirmed_void_bars_the_space_until_it_changes() {
        let mut hold = held();
        hold.mark_void_unconfirmed();
        assert_eq!(hold.usable_l2_space(), None);
        hold.apply(row(true, 6, 5), || unreachable!());
        assert_eq!(hold.usable_l2_space(), None, "a renewal with the same space does not confirm it");
        hold.apply(HoldRow { l2_space: Some("a/b/2".into()), ..row(true, 7, 5) }, || unreachable!());
        assert_eq!(hold.usable_l2_space().map(AsRef::as_ref), Some("a/b/2"));
    }
}
