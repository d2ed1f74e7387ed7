//! Loads (G2 to G5): each moved along by the request that began it (`led`); those of one multi-get together, in a task of their own.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use placement::freshness::{LoadStart, may_redeem, may_store};

use super::led::Led;
use super::outcome::Outcome;
use super::{LoadEnd, Loaded, Source};
use crate::entry_name::EntryName;
#[cfg(test)]
use crate::l1::Content;
use crate::l2::{L2Lease, Lookup};
use crate::limits;
use crate::node::Node;
use crate::old_bugs::{OldBug, is_back};

/// A load in progress. Dropped at any point it ends without an answer, and those who joined start again.
pub(super) struct Load {
    node: Arc<Node>,
    name: EntryName,
    start: LoadStart,
    /// Where L2 may have it, as G1 found it.
    l2_space: Option<Arc<str>>,
    outcome: Arc<Outcome>,
}

/// A load that has to go to the origin.
struct Missed {
    load: Load,
    l2_asked: bool,
    lease: Option<L2Lease>,
}

impl Node {
    /// Makes these loads, begun together for one slot, in tasks of their own: those who join must not start again because the
    /// first client went away.
    pub(super) fn spawn_loads(&self, mut loads: Vec<Load>) {
        while let Some(first) = loads.first() {
            // One space, unless the slot has got another between two of them.
            let others = loads.iter().position(|load| load.l2_space != first.l2_space).unwrap_or(loads.len());
            let rest = loads.split_off(others);
            self.work.spawn(run(loads));
            loads = rest;
        }
    }
}

/// G2 to G5 of loads with the same L2 space.
async fn run(loads: Vec<Load>) {
    let Some(first) = loads.first() else { return };
    let node = Arc::clone(&first.node);
    let missed = look_up(&node, loads).await;
    if missed.is_empty() {
        return;
    }
    let names = missed.iter().map(|missed| missed.load.name.clone()).collect();
    let mut redeems = Vec::new();
    for (Missed { load, l2_asked, lease }, asked) in missed.into_iter().zip(node.origin_reads.read_all(names)) {
        match asked.row().await {
            Err(error) => {
                load.outcome.tell(Some(Err(error)));
            }
            Ok(content) => {
                let source = Source::Origin { l2_asked, l2_stored: lease.is_some() };
                let loaded = Loaded { content: content.clone(), source, start: load.start };
                redeems.extend(load.finish(loaded, lease, None).map(|lease| (lease, content)));
            }
        }
    }
    let redeem = |(lease, content)| {
        let node = &node;
        async move { node.l2.redeem(lease, &content).await }
    };
    stream::iter(redeems).for_each_concurrent(limits::MGET_REDEEMS, redeem).await;
}

/// G2; gives back the loads that L2 has not ended.
async fn look_up(node: &Node, loads: Vec<Load>) -> Vec<Missed> {
    let space = loads.first().and_then(|load| load.l2_space.clone());
    let looked_up = match &space {
        Some(space) => {
            let names: Vec<_> = loads.iter().map(|load| &load.name).collect();
            node.l2.look_up_all(space, &names).await
        }
        None => None,
    };
    let l2_asked = looked_up.is_some();
    let mut looked_up = looked_up.unwrap_or_default().into_iter();
    let mut missed = Vec::new();
    for load in loads {
        let lease = match looked_up.next() {
            Some(Lookup::Found(content, left)) => {
                let loaded = Loaded { content, source: Source::L2, start: load.start };
                load.finish(loaded, None, Some(left));
                continue;
            }
            Some(Lookup::Leased(lease)) => Some(lease),
            Some(Lookup::LeasedByAnother | Lookup::Failed) | None => None,
        };
        missed.push(Missed { load, l2_asked, lease });
    }
    missed
}

impl Load {
    pub(super) fn new(
        node: &Arc<Node>,
        name: &EntryName,
        start: LoadStart,
        l2_space: Option<Arc<str>>,
        outcome: Arc<Outcome>,
    ) -> Self {
        Self { node: Arc::clone(node), name: name.clone(), start, l2_space, outcome }
    }

    pub(super) fn outcome(&self) -> Arc<Outcome> {
        Arc::clone(&self.outcome)
    }

    /// Makes this load; `None`: it was dropped without an end (X3). Dropping the future leaves the load to a task.
    pub(super) async fn make(self) -> Option<LoadEnd> {
        let (outcome, tasks) = (self.outcome(), self.node.work.clone());
        Led::new(run(vec![self]), &tasks).until_told(&outcome).await
    }

    /// G4's check and G5 in one critical section; hands the lease back if it may be redeemed.
    fn finish(&self, mut loaded: Loaded, lease: Option<L2Lease>, at_most: Option<Duration>) -> Option<L2Lease> {
        let node = &self.node;
        let stripe = node.keys.lock(&self.name);
        let slot = node.slots.lock(self.name.slot);
        let view = node.view(&self.name, &stripe, &slot);
        if may_store(self.start, view) || is_back(OldBug::FillAfterInvalidate) {
            node.l1.put(self.name.clone(), self.start.reign, loaded.content.clone(), at_most);
            node.hand_on(&slot, &self.name, self.start.reign);
        }
        let lease = lease.filter(|_| may_redeem(self.start, view));
        if let Source::Origin { l2_stored, .. } = &mut loaded.source {
            *l2_stored = lease.is_some();
        }
        drop(slot);
        drop(stripe);
        self.outcome.tell(Some(Ok(loaded)));
        lease
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.node.keys.lock(&self.name).end_load(&self.name, &self.outcome);
        self.outcome.tell(None);
    }
}

/// A load whose I/O a test makes by hand.
#[cfg(test)]
pub(crate) struct LoadByHand(Load);

#[cfg(test)]
pub(crate) fn begin_load_for_test(node: &Arc<Node>, name: &EntryName) -> LoadByHand {
    let mut stripe = node.keys.lock(name);
    let slot = node.slots.lock(name.slot);
    let start = node.view(name, &stripe, &slot).now;
    let outcome = stripe.begin_load(name, start);
    LoadByHand(Load::new(node, name, start, None, outcome))
}

#[cfg(test)]
impl LoadByHand {
    pub(crate) fn finish_for_test(self, content: Content) {
        let source = Source::Origin { l2_asked: false, l2_stored: false };
        let start = self.0.start;
        self.0.finish(Loaded { content, source, start }, None, None);
    }
}
