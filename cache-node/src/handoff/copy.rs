//! Fills a stream with what L1 holds of its slots at the beginning, hottest first, and hands on what changes (C4).

use std::sync::Arc;

use placement::slot_hold::Reign;

use super::Outgoing;
use crate::entry_name::EntryName;
use crate::l1::Held;
use crate::limits;
use crate::node::Node;
use crate::old_bugs::{OldBug, is_back};
use crate::slots::LockedSlot;

/// Appends every entry held now; ends early when the stream does.
pub(super) async fn run(node: Arc<Node>, stream: Arc<Outgoing>) {
    let scan = {
        let (node, stream) = (Arc::clone(&node), Arc::clone(&stream));
        move || node.l1.hottest(|slot, tag| stream.slots.get(&slot) == Some(&tag))
    };
    let Ok(hottest) = tokio::task::spawn_blocking(scan).await else {
        stream.break_off("L1 could not be read");
        return;
    };
    let payload = |held: &Held| held.payload() as u64;
    stream.begin_copy(hottest.len() as u64, hottest.iter().map(|held| payload(held)).sum());
    for (number, held) in hottest.into_iter().enumerate() {
        let (name, bytes) = (held.name(), payload(&held));
        // It may be replaced or dropped while we wait: what goes is looked up then, and this one need not stay in memory.
        drop(held);
        tokio::select! {
            () = node.handoff.rate.take(bytes) => {}
            () = stream.ended() => return,
        }
        if !stream.room().await {
            return;
        }
        copy_one(&node, &stream, &name, bytes);
        if number % limits::HANDOFF_TURN == 0 {
            tokio::task::yield_now().await;
        }
    }
    stream.copy_queued();
}

/// C4: one critical section with the key's write steps.
fn copy_one(node: &Node, stream: &Arc<Outgoing>, name: &EntryName, bytes: u64) {
    let _stripe = node.keys.lock(name);
    let slot = node.slots.lock(name.slot);
    let ours = slot.stream.as_ref().is_some_and(|current| Arc::ptr_eq(current, stream));
    let reign = slot.hold.reign();
    if ours && reign != Reign::NONE && stream.slots.get(&name.slot) == Some(&reign) {
        stream.copy(name, node.l1.expiring(name, reign), bytes);
    }
}

impl Node {
    /// An entry has just been put into L1 under this reign, the slot's present one: it goes on to the receiver, if the slot has
    /// one. The caller is inside both critical sections.
    pub(crate) fn hand_on(&self, slot: &LockedSlot<'_>, name: &EntryName, reign: Reign) {
        if let Some(stream) = slot.stream.as_ref().filter(|stream| stream.slots.get(&name.slot) == Some(&reign))
            && !is_back(OldBug::CopyOvertakesWrite)
            && let Some(entry) = self.l1.expiring(name, reign)
        {
            stream.value(name, entry);
        }
    }
}
