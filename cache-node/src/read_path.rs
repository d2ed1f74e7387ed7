//! READ (protocol section 6): L1, then L2, then the origin; loads of one key are made once (`loads`).

mod led;
mod loads;
mod outcome;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use origin::OriginError;
use placement::Epoch;
use placement::freshness::{Bypass, LoadStart, ReadStep, read_step};

use crate::clock::Moment;
use crate::entry_name::{AskedName, EntryName};
use crate::l1::{Content, Held};
use crate::limits;
use crate::node::Node;
use crate::old_bugs::{OldBug, is_back};
use crate::origin_reads::AskedRead;
use loads::Load;
#[cfg(test)]
pub(crate) use loads::{LoadByHand, begin_load_for_test};
pub(crate) use outcome::Outcome;

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

    /// The answer that L1 has.
    pub(crate) fn of_hit(held: &Held) -> Self {
        Self::of(held.content(), Source::L1)
    }

    fn of_load(end: LoadEnd, collapsed: bool) -> Result<Self, ReadRefused> {
        let Loaded { content, source, start } = end.map_err(ReadRefused::Origin)?;
        Ok(Self { content, source, collapsed, noted: Some(start) })
    }
}

/// What is left to do after G1.
enum Step {
    Done(Read),
    Direct(Bypass),
    /// Another's load is under way.
    Join(Arc<Outcome>),
    /// To be made.
    Lead(Load),
}

/// A read of several whose round trips are under way.
enum Begun {
    Done(Read),
    Direct(Bypass, AskedRead),
    Wait { outcome: Arc<Outcome>, collapsed: bool },
}

impl Node {
    /// Reads one entry as the owner of its slot.
    pub(crate) async fn read(self: &Arc<Self>, name: &EntryName) -> Result<Read, ReadRefused> {
        let sampled = self.auditor.samples_this_read();
        // U1: a sampled hit goes through G1's critical section, for the guard that belongs to it.
        if !sampled && let Some((held, _)) = self.l1_hit(&name.asked()) {
            return Ok(Read::of_hit(&held));
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

    /// [`Node::read`] of several entries of one user, in their order: those that L1 does not have share a round trip to L2, and
    /// those that L2 does not have one to the origin.
    pub(crate) async fn read_all(self: &Arc<Self>, names: &[EntryName]) -> Result<Vec<Read>, ReadRefused> {
        let mut steps = Vec::with_capacity(names.len());
        for name in names {
            let sampled = self.auditor.samples_this_read();
            let step = match self.l1_hit(&name.asked()).filter(|_| !sampled) {
                Some((held, _)) => Step::Done(Read::of_hit(&held)),
                None => self.begin_read(name)?,
            };
            steps.push((sampled, step));
        }
        let mut reads = Vec::with_capacity(names.len());
        for ((sampled, begun), name) in self.set_out(names, steps).into_iter().zip(names) {
            let read = match begun {
                Begun::Done(read) => read,
                Begun::Direct(bypass, asked) => Self::read_asked(bypass, asked).await?,
                Begun::Wait { outcome, collapsed } => match outcome.wait().await {
                    Some(end) => Read::of_load(end, collapsed)?,
                    None => self.read_under_guard(name).await?,
                },
            };
            if sampled {
                self.audit(name, &read);
            }
            reads.push(read);
        }
        Ok(reads)
    }

    /// Has the loads and direct reads of a [`Node::read_all`] made.
    fn set_out(&self, names: &[EntryName], steps: Vec<(bool, Step)>) -> Vec<(bool, Begun)> {
        let is_direct = |step: &Step| matches!(step, Step::Direct(_));
        let direct = names.iter().zip(&steps).filter(|(_, (_, step))| is_direct(step)).map(|(name, _)| name.clone());
        let mut asked = self.origin_reads.read_all(direct.collect()).into_iter();
        let mut loads = Vec::new();
        let begun = steps.into_iter().map(|(sampled, step)| {
            let begun = match step {
                Step::Done(read) => Begun::Done(read),
                Step::Direct(bypass) => Begun::Direct(bypass, asked.next().expect("each of these was asked for")),
                Step::Join(outcome) => Begun::Wait { outcome, collapsed: true },
                Step::Lead(load) => {
                    let outcome = load.outcome();
                    loads.push(load);
                    Begun::Wait { outcome, collapsed: false }
                }
            };
            (sampled, begun)
        });
        let begun = begun.collect();
        self.spawn_loads(loads);
        begun
    }

    /// G1 to G6.
    pub(crate) async fn read_under_guard(self: &Arc<Self>, name: &EntryName) -> Result<Read, ReadRefused> {
        for _ in 0..limits::READ_RESTARTS {
            let (end, collapsed) = match self.begin_read(name)? {
                Step::Done(read) => return Ok(read),
                Step::Direct(bypass) => return self.read_direct(name, bypass).await,
                Step::Join(outcome) => (outcome.wait().await, true),
                Step::Lead(load) => (load.make().await, false),
            };
            // Dropped without an end (X3): again from G1.
            if let Some(end) = end {
                return Read::of_load(end, collapsed);
            }
        }
        self.read_direct(name, Bypass::Unsettled).await
    }

    /// G6: the committed entry, from the origin, past all caches. Any node may do it.
    pub(crate) async fn read_direct(&self, name: &EntryName, bypass: Bypass) -> Result<Read, ReadRefused> {
        let content = self.origin_reads.read(name).await.map_err(ReadRefused::Origin)?;
        Ok(Read::of(content, Source::Bypass(bypass)))
    }

    /// G6 of several entries, in their order.
    pub(crate) async fn read_all_direct(&self, names: &[EntryName], bypass: Bypass) -> Result<Vec<Read>, ReadRefused> {
        let mut reads = Vec::with_capacity(names.len());
        for asked in self.origin_reads.read_all(names.to_vec()) {
            reads.push(Self::read_asked(bypass, asked).await?);
        }
        Ok(reads)
    }

    async fn read_asked(bypass: Bypass, asked: AskedRead) -> Result<Read, ReadRefused> {
        let content = asked.row().await.map_err(ReadRefused::Origin)?;
        Ok(Read::of(content, Source::Bypass(bypass)))
    }

    /// G1 without a lock: sound because the entry's tag must be the reign noted before the lease was checked.
    fn l1_hit(&self, name: &AskedName<'_>) -> Option<(Arc<Held>, Moment)> {
        let word = self.slots.word(name.slot);
        let reign = word.servable()?;
        // Looked at after the word: whoever unseals a slot that a user has left published before that who it was.
        if word.has_pinned() && self.slots.served_under(name.slot, name.user) != name.slot {
            return None;
        }
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
                Some(outcome) => Ok(Step::Join(outcome)),
                None => Ok(Step::Direct(Bypass::Unsettled)),
            },
            ReadStep::Lead(start) => {
                let l2_space = slot.hold.usable_l2_space().cloned();
                let outcome = stripe.begin_load(name, start);
                Ok(Step::Lead(Load::new(self, name, start, l2_space, outcome)))
            }
        }
    }
}
