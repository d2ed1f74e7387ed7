//! READ (protocol section 6): L1, then L2, then the origin; loads of one key are made once.

use std::sync::Arc;
use std::time::Duration;

use origin::OriginError;
use placement::Epoch;
use placement::freshness::{Bypass, LoadStart, ReadStep, may_redeem, may_store, read_step};
use tokio::sync::watch;

use crate::clock::Moment;
use crate::entry_name::{AskedName, EntryName};
use crate::l1::{Content, Held};
use crate::l2::{L2Lease, Lookup};
use crate::limits;
use crate::node::Node;
use crate::old_bugs::{OldBug, is_back};

/// How a load ended, for the one who began it and all who joined.
pub(crate) type LoadEnd = Result<Loaded, OriginError>;

/// What a load found and where.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) content: Content,
    pub(crate) source: Source,
    pub(crate) start: LoadStart,
}

/// How the tiers answered a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    L1,
    L2,
    /// Whether L2 was asked, and whether the load was given to it.
    Origin {
        l2_asked: bool,
        l2_stored: bool,
    },
    Bypass(Bypass),
}

/// The answer to a read.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) content: Content,
    pub(crate) source: Source,
    /// Whether another request's load gave the answer.
    pub(crate) collapsed: bool,
    /// Guard and reign when the answer was found; `None` where no critical section has seen them.
    pub(crate) noted: Option<LoadStart>,
}

/// Why a read has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadRefused {
    /// The slot is another's; our epoch, for the gateway.
    NotOwner(Epoch),
    /// The origin did not answer.
    Origin(OriginError),
}

impl Read {
    fn of(content: Content, source: Source) -> Self {
        Self { content, source, collapsed: false, noted: None }
    }
}

/// What is left to do after G1.
enum Step {
    Done(Read),
    Direct(Bypass),
    Wait { end: watch::Receiver<Option<LoadEnd>>, collapsed: bool },
}

impl Node {
    /// Reads one entry as the owner of its slot.
    pub(crate) async fn read(self: &Arc<Self>, name: &EntryName) -> Result<Read, ReadRefused> {
        let sampled = self.auditor.samples_this_read();
        // U1: a sampled hit goes through G1's critical section, for the guard that belongs to it.
        if !sampled && let Some((held, _)) = self.l1_hit(&name.asked()) {
            return Ok(Read::of(held.content(), Source::L1));
        }
        let read = self.read_under_guard(name).await?;
        if sampled {
            self.audit(name, &read);
        }
        Ok(read)
    }

    /// The entry if L1 has it and may serve it now, with the moment of the look. `None`: [`Node::read`] has to say.
    pub(crate) fn read_at_once(&self, name: &AskedName<'_>) -> Option<(Arc<Held>, Moment)> {
        let (held, now) = self.l1_hit(name)?;
        if !held.is_plain() {
            return None;
        }
        if self.auditor.samples_this_read() {
            self.auditor.leave_sample_to_the_next();
            return None;
        }
        Some((held, now))
    }

    /// G1 to G6.
    pub(crate) async fn read_under_guard(self: &Arc<Self>, name: &EntryName) -> Result<Read, ReadRefused> {
        for _ in 0..limits::READ_RESTARTS {
            match self.begin_read(name)? {
                Step::Done(read) => return Ok(read),
                Step::Direct(bypass) => return self.read_direct(name, bypass).await,
                Step::Wait { mut end, collapsed } => {
                    let ended = end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
                    match ended {
                        Some(Ok(Loaded { content, source, start })) => {
                            return Ok(Read { content, source, collapsed, noted: Some(start) });
                        }
                        Some(Err(error)) => return Err(ReadRefused::Origin(error)),
                        // The load was dropped without an end (X3): start again at G1.
                        None => {}
                    }
                }
            }
        }
        self.read_direct(name, Bypass::Unsettled).await
    }

    /// G6: the committed entry, from the origin, past all caches. Any node may do it.
    pub(crate) async fn read_direct(&self, name: &EntryName, bypass: Bypass) -> Result<Read, ReadRefused> {
        self.metrics.origin_reads.inc();
        let entry = self.origin.read_entry(&name.user, &name.key).await.map_err(ReadRefused::Origin)?;
        Ok(Read::of(entry.map(Arc::new), Source::Bypass(bypass)))
    }

    /// G1 without a lock: sound because the entry's tag must be the reign noted before the lease was checked.
    fn l1_hit(&self, name: &AskedName<'_>) -> Option<(Arc<Held>, Moment)> {
        let reign = self.slots.word(name.slot).servable()?;
        let now = Moment::now();
        if !self.lease.is_valid(now) {
            return None;
        }
        self.l1.hit(name, reign, now).map(|held| (held, now))
    }

    /// G1.
    fn begin_read(self: &Arc<Self>, name: &EntryName) -> Result<Step, ReadRefused> {
        let mut stripe = self.keys.lock(name);
        let slot = self.slots.lock(name.slot);
        let view = self.view(name, &stripe, &slot);
        let entry = self.l1.get(name, view.now.reign);
        let tag = entry.as_ref().map(|_| view.now.reign);
        let load = stripe.load_start(name);
        let load = if is_back(OldBug::JoinOlderLoad) { load.and(Some(view.now)) } else { load };
        match read_step(view, tag, load) {
            ReadStep::NotOwner => Err(ReadRefused::NotOwner(self.status.epoch())),
            ReadStep::Direct(bypass) => Ok(Step::Direct(bypass)),
            ReadStep::Hit => {
                let noted = Some(view.now);
                Ok(Step::Done(Read { noted, ..Read::of(entry.flatten(), Source::L1) }))
            }
            ReadStep::Join => match stripe.join_load(name) {
                Some(end) => Ok(Step::Wait { end, collapsed: true }),
                None => Ok(Step::Direct(Bypass::Unsettled)),
            },
            ReadStep::Lead(start) => {
                let l2_space = slot.hold.usable_l2_space().cloned();
                let (end_tx, end) = stripe.begin_load(name, start);
                // A task of its own: those who join must not start again because the first client went away.
                let load = LoadTask { node: Arc::clone(self), name: name.clone(), start, end: end_tx };
                self.work.spawn(load.run(l2_space));
                Ok(Step::Wait { end, collapsed: false })
            }
        }
    }
}

/// A load in progress. Dropped at any point it ends without an answer, and those who joined start again.
struct LoadTask {
    node: Arc<Node>,
    name: EntryName,
    start: LoadStart,
    end: watch::Sender<Option<LoadEnd>>,
}

impl LoadTask {
    /// G2 to G5.
    async fn run(self, l2_space: Option<Arc<str>>) {
        let looked_up = match &l2_space {
            Some(space) => self.node.l2.look_up(space, &self.name).await,
            None => None,
        };
        let l2_asked = looked_up.is_some();
        let lease = match looked_up {
            Some(Lookup::Found(content, left)) => {
                self.finish(Loaded { content, source: Source::L2, start: self.start }, None, Some(left));
                return;
            }
            Some(Lookup::Leased(lease)) => Some(lease),
            Some(Lookup::LeasedByAnother | Lookup::Failed) | None => None,
        };
        self.node.metrics.origin_reads.inc();
        let entry = match self.node.origin.read_entry(&self.name.user, &self.name.key).await {
            Ok(entry) => entry,
            Err(error) => {
                let _ = self.end.send(Some(Err(error)));
                return;
            }
        };
        let source = Source::Origin { l2_asked, l2_stored: lease.is_some() };
        let loaded = Loaded { content: entry.map(Arc::new), source, start: self.start };
        let content = loaded.content.clone();
        if let Some(lease) = self.finish(loaded, lease, None) {
            self.node.l2.redeem(lease, &content).await;
        }
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
        let _ = self.end.send(Some(Ok(loaded)));
        lease
    }
}

impl Drop for LoadTask {
    fn drop(&mut self) {
        self.node.keys.lock(&self.name).end_load(&self.name, &self.end);
    }
}

/// A load whose I/O a test makes by hand.
#[cfg(test)]
pub(crate) struct LoadByHand(LoadTask);

#[cfg(test)]
pub(crate) fn begin_load_for_test(node: &Arc<Node>, name: &EntryName) -> LoadByHand {
    let mut stripe = node.keys.lock(name);
    let slot = node.slots.lock(name.slot);
    let start = node.view(name, &stripe, &slot).now;
    let (end, _) = stripe.begin_load(name, start);
    LoadByHand(LoadTask { node: Arc::clone(node), name: name.clone(), start, end })
}

#[cfg(test)]
impl LoadByHand {
    pub(crate) fn finish_for_test(self, content: Content) {
        let source = Source::Origin { l2_asked: false, l2_stored: false };
        let start = self.0.start;
        self.0.finish(Loaded { content, source, start }, None, None);
    }
}
