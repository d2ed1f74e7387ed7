//! The decisions of a write: when it may begin, what must be done to L2 before it commits, what it may leave in L1, and what
//! becomes of its key (protocol W1, W2, W5, W6, X2).
//!
//! Pure: the caller takes what it passes inside one critical section and acts on the answer before leaving it.
//! Upholds I2, I4 and I5.

use std::sync::Arc;

use crate::Tenure;
use crate::slot_hold::{Reign, SlotHold};

/// Why a slot takes no writes for the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotBusy {
    /// It is sealed for a ring change.
    Sealed,
    /// A write of unknown outcome is being settled; a stream of new ones could keep its RENEW waiting for ever.
    Unsettled,
}

/// What a write that comes to its key does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegisterStep {
    /// Answer 421.
    NotOwner,
    /// Wait for a change of the slot.
    SlotBusy(SlotBusy),
    /// Wait until the key's writer has gone.
    KeyBusy,
    /// Register: guard up, L1 entry out, and the key is writer-active.
    Register,
}

/// W1: `user` is whose entry is written; `unsettled` says whether the slot has a write of unknown outcome, `writer_active` whether the key has a writer.
pub fn register_step(hold: &SlotHold, user: &str, unsettled: bool, writer_active: bool) -> RegisterStep {
    if !hold.serves(user) {
        return RegisterStep::NotOwner;
    }
    if hold.sealed().is_some() {
        return RegisterStep::SlotBusy(SlotBusy::Sealed);
    }
    if unsettled {
        return RegisterStep::SlotBusy(SlotBusy::Unsettled);
    }
    if writer_active { RegisterStep::KeyBusy } else { RegisterStep::Register }
}

/// What a registered write carries from W2 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriteStart {
    /// The fence of its statement.
    pub tenure: Tenure,
    /// Whose L1 entries it may write.
    pub reign: Reign,
}

/// What must happen before the statement may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrepareStep {
    /// Answer 421.
    NotOwner,
    /// Nothing: L2 is not in use for the slot.
    Commit(WriteStart),
    /// Void the key in this L2 space; if that is not confirmed, go the way of [`PrepareStep::Renew`].
    Void(WriteStart, Arc<str>),
    /// The L2 space is not to be used any more: it must be replaced first (R4).
    Renew(WriteStart),
}

/// W2: `registered_under` is the reign at W1. Under a later one the write must not go on: an entry that a stream has brought
/// meanwhile would be served beside and after its commit, and streams opened since do not know of it.
pub fn prepare_step(hold: &SlotHold, registered_under: Reign) -> PrepareStep {
    if !hold.is_mine() || hold.reign() != registered_under {
        return PrepareStep::NotOwner;
    }
    let start = WriteStart { tenure: hold.tenure(), reign: hold.reign() };
    if hold.l2_is_off() {
        return PrepareStep::Commit(start);
    }
    match hold.usable_l2_space() {
        Some(space) => PrepareStep::Void(start, Arc::clone(space)),
        None => PrepareStep::Renew(start),
    }
}

/// W5: whether a committed write may put its value into L1 and into the slot's stream, tagged with the reign it noted.
pub fn may_store_written(noted: Reign, now: Reign) -> bool {
    noted == now && noted != Reign::NONE
}

/// T6, W6: whether a statement sent under `sent_under` can no longer commit, seeing that `held` is the slot's newest tenure.
pub fn is_settled(sent_under: Tenure, held: Tenure) -> bool {
    sent_under < held
}

/// How far a registered write has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteStage {
    /// No statement handed to the driver, or its answer seen.
    Registered,
    /// A statement of this tenure handed to the driver, no answer seen.
    Sent(Tenure),
    /// The key has been released (W5).
    Released,
}

/// What becomes of the key of a write that ends, however it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyAtEnd {
    /// Nothing is left to do.
    Released,
    /// Release it: guard up, no writer any more.
    Release,
    /// It stays writer-active until a tenure newer than this one is held (W6).
    Settle(Tenure),
}

impl WriteStage {
    /// X2: `held` is the newest tenure of the slot seen by this node.
    pub fn key_at_end(self, held: Tenure) -> KeyAtEnd {
        match self {
            Self::Released => KeyAtEnd::Released,
            Self::Registered => KeyAtEnd::Release,
            Self::Sent(tenure) if is_settled(tenure, held) => KeyAtEnd::Release,
            Self::Sent(tenure) => KeyAtEnd::Settle(tenure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot_hold::HoldRow;
    use crate::{ChangeId, Gained, PinnedUsers};

    fn held(l2_space: Option<&str>) -> SlotHold {
        let mut hold = SlotHold::default();
        let row = HoldRow {
            mine: true,
            tenure: Tenure(5),
            gained: Gained(5),
            l2_space: l2_space.map(Arc::from),
            pinned: PinnedUsers::NONE,
        };
        hold.apply(row, || Reign::new(2));
        hold
    }

    const START: WriteStart = WriteStart { tenure: Tenure(5), reign: Reign::new(2) };

    #[test]
    fn a_write_registers_at_the_owner_of_an_unsealed_slot_without_unknown_writes_on_a_free_key() {
        assert_eq!(register_step(&SlotHold::default(), "u", false, false), RegisterStep::NotOwner);
        assert_eq!(register_step(&held(None), "u", false, false), RegisterStep::Register);
        assert_eq!(register_step(&held(None), "u", false, true), RegisterStep::KeyBusy);
        assert_eq!(register_step(&held(None), "u", true, true), RegisterStep::SlotBusy(SlotBusy::Unsettled));
        let mut sealed = held(None);
        sealed.seal(ChangeId(1)).expect("free");
        assert_eq!(register_step(&sealed, "u", true, true), RegisterStep::SlotBusy(SlotBusy::Sealed));
    }

    #[test]
    fn before_a_commit_the_key_is_voided_in_l2_or_the_space_replaced_or_l2_is_off() {
        assert_eq!(prepare_step(&SlotHold::default(), START.reign), PrepareStep::NotOwner);
        assert_eq!(prepare_step(&held(None), START.reign), PrepareStep::Commit(START));
        assert_eq!(prepare_step(&held(Some("a/b/1")), START.reign), PrepareStep::Void(START, "a/b/1".into()));
        let mut barred = held(Some("a/b/1"));
        barred.mark_void_unconfirmed();
        assert_eq!(prepare_step(&barred, START.reign), PrepareStep::Renew(START));
    }

    #[test]
    fn a_write_registered_under_an_earlier_reign_does_not_go_on() {
        assert_eq!(prepare_step(&held(None), Reign::new(1)), PrepareStep::NotOwner);
        assert_eq!(prepare_step(&held(Some("a/b/1")), Reign::new(1)), PrepareStep::NotOwner);
    }

    #[test]
    fn a_written_value_goes_into_l1_only_under_the_reign_it_began_under() {
        assert!(may_store_written(Reign::new(2), Reign::new(2)));
        assert!(!may_store_written(Reign::new(2), Reign::new(3)));
        assert!(!may_store_written(Reign::NONE, Reign::NONE));
    }

    #[test]
    fn a_sent_statement_is_settled_by_a_newer_tenure_only() {
        assert_eq!(WriteStage::Sent(Tenure(5)).key_at_end(Tenure(5)), KeyAtEnd::Settle(Tenure(5)));
        assert_eq!(WriteStage::Sent(Tenure(5)).key_at_end(Tenure(6)), KeyAtEnd::Release);
        assert_eq!(WriteStage::Registered.key_at_end(Tenure(5)), KeyAtEnd::Release);
        assert_eq!(WriteStage::Released.key_at_end(Tenure(5)), KeyAtEnd::Released);
    }
}
