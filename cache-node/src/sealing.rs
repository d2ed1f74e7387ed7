//! The old owner's part in a ring change: seal and drain slots, settle when the change is over (protocol C5, C7, C9).
//! Its streams: `handoff`.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use origin::{AbortOutcome, ChangeRow, OriginError};
use placement::change::step::{Event, step};
use placement::slot_hold::SlotHold;
use placement::{ChangeId, Phase, Slot, Tenure};
use tokio::time::{Instant, timeout_at};
use wire::control::{SealReport, SealedTenure, SettleReport};

use crate::clock::Moment;
use crate::limits;
use crate::node::Node;

/// Why slots cannot be sealed. Those sealed before the failure stay so until the change is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SealRefused {
    /// The change is over, or does not take this slot from us.
    NotPlanned,
    /// The journal cannot be read.
    Origin(OriginError),
    /// The slot is not ours.
    NotOwner(Slot),
    /// Sealed for another change, which must be settled first.
    SealedForAnother(ChangeId),
    /// Writes, or a renewal, did not end in time.
    NotDrained(Slot),
}

impl Node {
    /// Seals the slots for the change, waits until no write of them is in progress, and reports their tenures.
    /// Doing it again for the same change gives the same answer.
    pub(crate) async fn seal(&self, change: ChangeId, slots: &[Slot]) -> Result<SealReport, SealRefused> {
        // A request may come long after its change: nothing would ever end such a seal but luck.
        let row = self.origin.change(change).await.map_err(SealRefused::Origin)?;
        if !row.is_some_and(|row| self.gives_away(&row, slots)) {
            return Err(SealRefused::NotPlanned);
        }
        self.seal_planned(change, slots).await
    }

    /// Whether the change is before its flip and moves all these slots away from us.
    fn gives_away(&self, row: &ChangeRow, slots: &[Slot]) -> bool {
        let me = &self.config.node_id;
        let moving: HashSet<Slot> =
            row.moves.iter().filter(|moved| &moved.from == me).map(|moved| moved.slot).collect();
        step(row.phase, Event::GivenUp).is_some() && slots.iter().all(|slot| moving.contains(slot))
    }

    /// The journal was read before: by now the change may be over, which [`Node::settle_seals`] looks after.
    pub(crate) async fn seal_planned(&self, change: ChangeId, slots: &[Slot]) -> Result<SealReport, SealRefused> {
        let incarnation = self.status.incarnation();
        for &slot in slots {
            let mut state = self.slots.lock(slot);
            if !state.hold.is_mine() {
                return Err(SealRefused::NotOwner(slot));
            }
            state.hold.seal(change).map_err(|other| SealRefused::SealedForAnother(other.0))?;
            state.sealed_at.get_or_insert(Moment::now());
            state.publish();
        }
        let deadline = Instant::now() + limits::SEAL_DRAIN;
        let mut sealed = Vec::with_capacity(slots.len());
        for &slot in slots {
            let tenure = loop {
                let mut changed = std::pin::pin!(self.slots.changed(slot));
                changed.as_mut().enable();
                {
                    let state = self.slots.lock(slot);
                    if state.hold.sealed() != Some(change) {
                        return Err(SealRefused::NotOwner(slot));
                    }
                    if state.is_drained() {
                        break state.hold.tenure();
                    }
                }
                timeout_at(deadline, changed).await.map_err(|_| SealRefused::NotDrained(slot))?;
            };
            sealed.push(SealedTenure { slot, tenure });
        }
        let streams = self.end_streams(change, &sealed).await;
        Ok(SealReport { node: self.config.node_id.clone(), incarnation, slots: sealed, streams })
    }

    /// Reads slots and journal anew as long as slots are sealed, or streams open, for the change; unseals what belongs to an
    /// aborted one, and reports. A node that has heard of the flip by itself need not read everything once more.
    pub(crate) async fn settle(&self, change: ChangeId) -> Result<SettleReport, OriginError> {
        if self.has_part_in(change) {
            self.refresh_slots().await?;
        }
        if self.has_part_in(change) {
            self.settle_seal(change).await?;
        }
        self.status.set_epoch(self.origin.epoch().await?);
        Ok(SettleReport {
            node: self.config.node_id.clone(),
            incarnation: self.status.incarnation(),
            epoch: self.status.epoch(),
            still_sealed: self.has_sealed_for(change),
        })
    }

    fn has_part_in(&self, change: ChangeId) -> bool {
        self.has_sealed_for(change) || self.streamed_changes().contains(&change)
    }

    fn has_sealed_for(&self, change: ChangeId) -> bool {
        self.slots.seals().iter().any(|(sealed_for, _)| *sealed_for == change)
    }

    /// Looks after all seals, streams and offers; a seal that lasts too long is ended by aborting its change.
    pub(crate) async fn settle_seals(&self) -> Result<(), OriginError> {
        let seals = self.slots.seals();
        for change in self.streamed_changes() {
            if !seals.iter().any(|(sealed_for, _)| *sealed_for == change) {
                self.settle_seal(change).await?;
            }
        }
        for (change, since) in seals {
            if Moment::now().since(since) > limits::SEAL_MAX {
                let reason = format!("{} waited too long for the flip", self.config.node_id);
                if self.origin.abort_change(change, &reason).await? == AbortOutcome::Aborted {
                    tracing::warn!(%change, "sealed for too long: the ring change is aborted");
                }
            }
            self.settle_seal(change).await?;
        }
        self.settle_offers().await
    }

    async fn settle_seal(&self, change: ChangeId) -> Result<(), OriginError> {
        let Some(row) = self.origin.change(change).await? else { return Ok(()) };
        self.drop_streams(change, row.phase);
        match row.phase {
            Phase::Copy | Phase::Sealed => Ok(()),
            Phase::Flipped | Phase::Done if !self.has_sealed_for(change) => Ok(()),
            Phase::Flipped | Phase::Done => {
                self.refresh_slots().await?;
                let flip: HashMap<Slot, Tenure> = row.flip.into_iter().collect();
                self.unseal(change, |slot, hold| {
                    flip.get(&slot).is_some_and(|&tenure| hold.unseal_flipped(change, tenure))
                });
                Ok(())
            }
            Phase::Aborted => {
                self.unseal(change, |_, hold| hold.unseal_aborted(change));
                Ok(())
            }
        }
    }

    fn unseal(&self, change: ChangeId, unsealed: impl Fn(Slot, &mut SlotHold) -> bool) {
        for slot in self.slots.filter(|_, state| state.hold.sealed() == Some(change)) {
            let mut state = self.slots.lock(slot);
            if unsealed(slot, &mut state.hold) {
                state.sealed_at = None;
                // Of a slot that only one of its users has left: nothing else ends it.
                if let Some(stream) = state.stream.take() {
                    stream.end_of_reign();
                }
            }
            state.publish();
        }
    }
}
