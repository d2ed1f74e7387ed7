//! The slots that a stream fills at the receiver: one offer each, with a reign of its own (protocol C2, C8).
//!
//! Dropped before its end, a stream takes its offers along; after its end they stay until the slot is ours, another stream
//! offers it, or the change turns out to be aborted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use origin::{ChangeRow, OriginError, SlotRow, StoredEntry};
use placement::handoff_offer::{FlippedSlot, Offer};
use placement::ring::SlotMove;
use placement::{ChangeId, EntryKey, Phase, PinnedUser, Slot, Tenure, UserId};
use wire::control::SealedTenure;
use wire::handoff::{HandedEntry, Hello};

use crate::entry_name::EntryName;
use crate::node::Node;
use crate::slots::LockedSlot;

/// A stream as the receiver has it.
pub(super) struct Receiving {
    node: Arc<Node>,
    id: Arc<str>,
    slots: Vec<Slot>,
    pinned: Vec<PinnedUser>,
    complete: bool,
}

/// Why a stream is not taken, or not any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OfferRefused {
    /// We own the slot already.
    #[error("slot {0} is ours already")]
    Ours(Slot),
    /// Not one of the stream's, or another stream offers it by now.
    #[error("slot {0} is not, or no longer, offered by this stream")]
    NotOffered(Slot),
    /// The end does not name all slots.
    #[error("the end does not name slot {0}")]
    NoEnd(Slot),
}

impl Receiving {
    /// Draws a fresh reign for every slot; what an earlier stream has brought of it is forgotten.
    pub(super) fn open(node: Arc<Node>, id: Arc<str>, hello: Hello) -> Result<Self, OfferRefused> {
        let incarnation = node.status.incarnation();
        // Made first: dropped half-way it takes back the offers made so far.
        let receiving = Self { node, id, slots: hello.slots, pinned: hello.pinned, complete: false };
        for &slot in &receiving.slots {
            let mut state = receiving.node.slots.lock(slot);
            if state.hold.is_mine() {
                return Err(OfferRefused::Ours(slot));
            }
            let stream = Arc::clone(&receiving.id);
            let reign = receiving.node.slots.fresh_reign();
            state.offer = Some(Offer { change: hello.change, stream, incarnation, reign, complete: false });
        }
        Ok(receiving)
    }

    fn name(&self, user: UserId, key: EntryKey) -> EntryName {
        match self.pinned.iter().find(|pinned| pinned.user == user) {
            Some(pinned) => EntryName::under(pinned.slot, user, key),
            None => EntryName::new(user, key),
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// C2: overwrites whatever is there of the name.
    pub(super) fn put(&self, entry: HandedEntry) -> Result<(), OfferRefused> {
        let name = self.name(entry.user, entry.key);
        let content = entry.content.map(|content| {
            Arc::new(StoredEntry {
                value: content.value,
                content_type: content.content_type,
                cache_control: content.cache_control,
                version: content.version,
            })
        });
        let left = Duration::from_millis(u64::from(entry.left_ms));
        let _stripe = self.node.keys.lock(&name);
        let state = self.node.slots.lock(name.slot);
        let offer = self.offer_of(&state, name.slot)?;
        self.node.l1.put(name, offer.reign, content, Some(left));
        Ok(())
    }

    pub(super) fn invalidate(&self, user: UserId, key: EntryKey) -> Result<(), OfferRefused> {
        let name = self.name(user, key);
        let _stripe = self.node.keys.lock(&name);
        let state = self.node.slots.lock(name.slot);
        self.offer_of(&state, name.slot)?;
        self.node.l1.remove(&name);
        Ok(())
    }

    /// C5: everything that was committed before the seal is in place.
    pub(super) fn end(&mut self, sealed: &[SealedTenure]) -> Result<(), OfferRefused> {
        for &slot in &self.slots {
            if !sealed.iter().any(|end| end.slot == slot) {
                return Err(OfferRefused::NoEnd(slot));
            }
        }
        for &slot in &self.slots {
            let mut state = self.node.slots.lock(slot);
            self.offer_of(&state, slot)?;
            if let Some(offer) = &mut state.offer {
                offer.complete = true;
            }
        }
        self.complete = true;
        Ok(())
    }

    fn offer_of<'a>(&self, state: &'a LockedSlot<'_>, slot: Slot) -> Result<&'a Offer, OfferRefused> {
        let offer = state.offer.as_ref().filter(|offer| Arc::ptr_eq(&offer.stream, &self.id));
        offer.ok_or(OfferRefused::NotOffered(slot))
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        if self.complete {
            return;
        }
        for &slot in &self.slots {
            let mut state = self.node.slots.lock(slot);
            if self.offer_of(&state, slot).is_ok() {
                state.offer = None;
            }
        }
    }
}

impl Node {
    /// What the journal says of the slots that these rows give us and that are offered to us (C8). When it cannot be read the
    /// slots start cold.
    pub(crate) async fn flipped_offers(&self, rows: &[SlotRow]) -> HashMap<Slot, FlippedSlot> {
        let mut changes: Vec<ChangeId> = Vec::new();
        for row in rows.iter().filter(|row| row.owner == self.config.node_id) {
            let state = self.slots.lock(row.slot);
            if row.tenure > state.hold.tenure()
                && let Some(offer) = &state.offer
                && !changes.contains(&offer.change)
            {
                changes.push(offer.change);
            }
        }
        let mut flipped = HashMap::new();
        for change in changes {
            match self.origin.change(change).await {
                Ok(Some(row)) => flipped.extend(self.flipped_slots(&row)),
                Ok(None) => {}
                Err(error) => tracing::warn!(%change, %error, "the journal cannot be read: slots start cold"),
            }
        }
        flipped
    }

    /// The slots that the change has given to us.
    fn flipped_slots(&self, change: &ChangeRow) -> Vec<(Slot, FlippedSlot)> {
        if !matches!(change.phase, Phase::Flipped | Phase::Done) {
            return Vec::new();
        }
        let tenures: HashMap<Slot, Tenure> = change.flip.iter().copied().collect();
        let ours = change.seal.iter().filter(|line| line.receiver == self.config.node_id);
        let gained =
            |slot: Slot| change.moves.iter().find(|moving| moving.slot == slot).map_or(slot, SlotMove::gained_slot);
        ours.filter_map(|line| {
            let slot = gained(line.slot);
            let flipped = FlippedSlot {
                change: change.id,
                stream: line.stream.as_deref().map(Arc::from),
                receiver_incarnation: line.receiver_incarnation,
                tenure: *tenures.get(&slot)?,
            };
            Some((slot, flipped))
        })
        .collect()
    }

    /// Forgets what is offered by changes that are over and did not give us the slots.
    pub(crate) async fn settle_offers(&self) -> Result<(), OriginError> {
        let mut offered: Vec<ChangeId> = Vec::new();
        for slot in Slot::every() {
            if let Some(offer) = &self.slots.lock(slot).offer
                && !offered.contains(&offer.change)
            {
                offered.push(offer.change);
            }
        }
        for change in offered {
            let phase = self.origin.change(change).await?.map(|row| row.phase);
            // Adopted by the rows, not by this.
            if matches!(phase, Some(Phase::Flipped | Phase::Done)) {
                self.refresh_slots().await?;
            }
            if matches!(phase, Some(Phase::Done | Phase::Aborted) | None) {
                self.forget_offers(change);
            }
        }
        Ok(())
    }

    fn forget_offers(&self, change: ChangeId) {
        for slot in Slot::every() {
            let mut state = self.slots.lock(slot);
            if state.offer.as_ref().is_some_and(|offer| offer.change == change) {
                state.offer = None;
            }
        }
    }
}
