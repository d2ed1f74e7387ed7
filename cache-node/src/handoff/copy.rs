//! Fills a stream with what L1 holds of its slots at the beginning, hottest first, and hands on what changes (C4).

use std::collections::HashSet;
use std::sync::Arc;

use placement::slot_hold::Reign;

use super::Outgoing;
use crate::entry_name::EntryName;
use crate::l1::Held;
use crate::node::Node;
use crate::old_bugs::{OldBug, is_back};
use crate::slots::LockedSlot;

/// Appends every entry held now; ends early when the stream does.
pub(super) async fn run(node: Arc<Node>, stream: Arc<Outgoing>) {
    let reigns: HashSet<Reign> = stream.slots.values().copied().collect();
    let scan = {
        let (node, stream) = (Arc::clone(&node), Arc::clone(&stream));
        move || {
            let mut hottest = node.l1.hottest(&reigns);
            hottest.retain(|held| stream.carries(held.user()));
            let bytes = hottest.iter().map(|held| payload(held)).sum();
            (hottest, bytes)
        }
    };
    let Ok((hottest, bytes)) = tokio::task::spawn_blocking(scan).await else {
        stream.break_off("L1 could not be read");
        return;
    };
    stream.begin_copy(hottest.len() as u64, bytes);
    let mut hottest = hottest.into_iter().peekable();
    while hottest.peek().is_some() {
        let (turn, bytes) = next_turn(&mut hottest, node.handoff.rate.turn_max());
        tokio::select! {
            () = node.handoff.rate.take(bytes) => {}
            () = stream.ended() => return,
        }
        if !stream.room().await {
            return;
        }
        // It may have been replaced or dropped while we waited: what goes is looked up now.
        for held in turn {
            let name = held.name(node.slots.of_user(held.user()));
            copy_one(&node, &stream, &name, payload(&held));
        }
        stream.copies_appended();
        tokio::task::yield_now().await;
    }
    stream.copy_queued();
}

fn payload(held: &Held) -> u64 {
    held.payload() as u64
}

/// What is copied before other tasks of the thread get their turn: one entry at least.
fn next_turn(hottest: &mut std::iter::Peekable<impl Iterator<Item = Arc<Held>>>, most: u64) -> (Vec<Arc<Held>>, u64) {
    let (mut turn, mut bytes) = (Vec::new(), 0);
    while let Some(held) = hottest.next_if(|held| turn.is_empty() || bytes + payload(held) <= most) {
        bytes += payload(&held);
        turn.push(held);
    }
    (turn, bytes)
}

/// C4: one critical section with the key's write steps.
fn copy_one(node: &Node, stream: &Arc<Outgoing>, name: &EntryName, bytes: u64) {
    let _stripe = node.keys.lock(name);
    let slot = node.slots.lock(name.slot);
    let ours = slot.stream.as_ref().is_some_and(|current| Arc::ptr_eq(current, stream));
    let reign = slot.hold.reign();
    if ours && reign != Reign::NONE && stream.slots.get(&name.slot) == Some(&reign) {
        stream.copy(node.l1.to_hand_on(name, reign), bytes);
    }
}

impl Node {
    /// An entry has just been put into L1 under this reign, the slot's present one: it goes on to the receiver, if the slot has
    /// one. The caller is inside both critical sections.
    pub(crate) fn hand_on(&self, slot: &LockedSlot<'_>, name: &EntryName, reign: Reign) {
        let carries = |stream: &&Arc<Outgoing>| {
            stream.slots.get(&name.slot) == Some(&reign) && stream.carries(name.user.as_str())
        };
        if let Some(stream) = slot.stream.as_ref().filter(carries)
            && !is_back(OldBug::CopyOvertakesWrite)
            && let Some(entry) = self.l1.to_hand_on(name, reign)
        {
            stream.value(entry);
        }
    }
}
