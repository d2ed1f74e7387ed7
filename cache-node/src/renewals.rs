//! RENEW (protocol R3): new tenures for slots, asked for by writes and by the L2 spaces, made by one task of the node.
//!
//! Never a request's own statement: who asked may go away. Not between a seal and the end of its change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use origin::L2SpaceChange;
use placement::{Slot, Tenure};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::limits;
use crate::node::Node;

/// What a renewal does to the slot's L2 space. A later variant includes what an earlier one is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Want {
    /// Settle an unknown write.
    Keep,
    /// L2 is well again: give the slot a fresh space.
    NewSpace,
    /// A void is not confirmed or L2 is away: L2 off before the next write commits (R4).
    Clear,
}

/// The slots that wait for a renewal, each with the tenure it was asked under.
#[derive(Default)]
pub(crate) struct Renewals {
    wanted: Mutex<BTreeMap<Slot, (Want, Tenure)>>,
    asked: Notify,
}

impl Renewals {
    /// Asks for a renewal of the slot unless its tenure is newer than `held` by the time it is made.
    pub(crate) fn ask(&self, slot: Slot, want: Want, held: Tenure) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = wanted.entry(slot).or_insert((want, held));
        *entry = if entry.1 == held {
            (entry.0.max(want), held)
        } else {
            std::cmp::max_by_key(*entry, (want, held), |e| e.1)
        };
        drop(wanted);
        self.asked.notify_one();
    }

    fn take(&self) -> BTreeMap<Slot, (Want, Tenure)> {
        std::mem::take(&mut *self.wanted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Makes the renewals until stopped.
pub(crate) async fn run(node: Arc<Node>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = node.renewals.asked.notified() => {}
        }
        let wanted = node.renewals.take();
        for want in [Want::Clear, Want::Keep, Want::NewSpace] {
            let of_kind: Vec<_> = wanted.iter().filter(|(_, (w, _))| *w == want).map(|(s, (_, t))| (*s, *t)).collect();
            for batch in of_kind.chunks(limits::RENEW_BATCH) {
                renew(&node, want, batch).await;
            }
        }
    }
}

async fn renew(node: &Arc<Node>, want: Want, batch: &[(Slot, Tenure)]) {
    let mut changes: Vec<(L2SpaceChange, Vec<(Slot, Tenure)>)> = Vec::new();
    for &(slot, held) in batch {
        let Some(change) = still_wanted(node, want, slot, held) else { continue };
        match changes.iter_mut().find(|(known, _)| *known == change) {
            Some((_, slots)) => slots.push((slot, held)),
            None => changes.push((change, vec![(slot, held)])),
        }
    }
    for (change, slots) in changes {
        let era = node.slots.era();
        let renewed = node.origin.renew_tenure(&node.config.node_id, &slots, &change).await;
        let complete = renewed.as_ref().is_ok_and(|rows| rows.len() == slots.len());
        if let Ok(rows) = renewed {
            node.metrics.renewed_slots.inc_by(rows.len() as u64);
            node.apply_rows(&rows, era);
        }
        for &(slot, _) in &slots {
            let mut state = node.slots.lock(slot);
            state.renewing = false;
            state.publish();
        }
        if !complete {
            ask_again(node, want, &slots).await;
        }
    }
}

/// What to change, if the tenure is still the one asked under. The slot is being renewed from then on.
fn still_wanted(node: &Node, want: Want, slot: Slot, held: Tenure) -> Option<L2SpaceChange> {
    let mut state = node.slots.lock(slot);
    // Sealed and drained: a new tenure now would only make the flip fail.
    let awaits_flip = state.hold.sealed().is_some() && state.registered_writes == 0;
    if !state.hold.is_mine() || state.hold.tenure() != held || awaits_flip {
        return None;
    }
    let change = match want {
        Want::Keep => L2SpaceChange::Keep,
        Want::Clear => L2SpaceChange::Clear,
        Want::NewSpace if state.hold.sealed().is_some() => return None,
        Want::NewSpace => L2SpaceChange::New { identity: node.l2.identity_for(slot)?.as_ref().to_owned() },
    };
    state.renewing = true;
    Some(change)
}

/// Outcome unknown or slots missing: read the table, and repeat for those whose tenure is still the same.
async fn ask_again(node: &Arc<Node>, want: Want, slots: &[(Slot, Tenure)]) {
    if node.refresh_slots().await.is_err() {
        tokio::time::sleep(Duration::from_millis(rand::random_range(100..300))).await;
    }
    // New spaces are asked for again by their own pass.
    if want != Want::NewSpace {
        for &(slot, held) in slots {
            let state = node.slots.lock(slot);
            let unchanged = state.hold.is_mine() && state.hold.tenure() == held;
            drop(state);
            if unchanged {
                node.renewals.ask(slot, want, held);
            }
        }
    }
}

/// Gives slots a fresh L2 space while their server is well: those without one, with one of a dead identity, or with an
/// unconfirmed void. Paced, so that it never holds the writers up for long.
pub(crate) async fn keep_l2_spaces(node: Arc<Node>, stop: CancellationToken) {
    if !node.l2.is_configured() {
        return;
    }
    loop {
        let wanting = node.slots.filter(|slot, state| {
            let usable = state.hold.usable_l2_space().is_some_and(|space| node.l2.is_usable(space));
            state.hold.is_mine() && state.hold.sealed().is_none() && !usable && node.l2.identity_for(slot).is_some()
        });
        for slot in wanting.into_iter().take(limits::L2_SPACES_PER_PASS) {
            let held = node.slots.lock(slot).hold.tenure();
            node.renewals.ask(slot, Want::NewSpace, held);
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(limits::L2_PROBE_EVERY) => {}
        }
    }
}
