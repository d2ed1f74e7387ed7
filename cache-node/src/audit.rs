//! The auditor (protocol U): holds a sample of the answers from a cache against the origin, apart from the request that got
//! them, and drops what is found wrong.
//!
//! Not here: whether the two may be compared (`placement::audit`). What the protocol promises makes it find nothing; it is
//! there for what the protocol assumes: a Redis, a database and people that behave, and code without bugs.

pub(crate) mod metrics;
mod sampling;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use placement::Tenure;
use placement::audit::{Verdict, verdict};
use placement::freshness::LoadStart;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::Moment;
use crate::entry_name::EntryName;
use crate::l1::Content;
use crate::limits;
use crate::node::Node;
use crate::read_path::{Read, Source};
use metrics::{HeldIn, Skipped};
use sampling::Sampling;

/// Which reads are sampled, and how many audits may be in progress.
pub(crate) struct Auditor {
    sampling: Sampling,
    /// Samples whose reads could not be sampled where they were counted; nearly always none.
    left: AtomicU32,
    turns: Arc<Semaphore>,
}

impl Auditor {
    /// One of `every` reads is sampled, drawn by chance from the seed; 0: none.
    pub(crate) fn new(every: u64, seed: u64) -> Self {
        let turns = Arc::new(Semaphore::new(limits::AUDITS_IN_PROGRESS_MAX));
        Self { sampling: Sampling::new(every, seed), left: AtomicU32::new(0), turns }
    }

    /// Counts a read and says whether it is to be sampled, whoever asks.
    pub(crate) fn samples_this_read(&self) -> bool {
        // The load first: nearly always nothing is left.
        if self.left.load(Ordering::Relaxed) > 0
            && self.left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
        {
            return true;
        }
        self.sampling.takes_this_read()
    }

    /// The read that was just counted as a sample is made again, and counted again: it is the sample then, or another that
    /// comes first.
    pub(crate) fn leave_sample_to_the_next(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn reads(&self) -> u64 {
        self.sampling.reads()
    }
}

/// What a cache holds, or held, of the sampled name.
struct Held {
    tier: HeldIn,
    content: Content,
    /// Whether it was the answer to the sampled read.
    served: bool,
}

/// One sample on its way.
struct Audit {
    node: Arc<Node>,
    name: EntryName,
    answer: Held,
    /// Guard and reign in the critical section that gave the answer.
    noted: LoadStart,
    answered_at: Moment,
    _turn: OwnedSemaphorePermit,
}

impl Node {
    /// Has the answer of a sampled read audited, if a cache gave it and there is room. Does not wait.
    pub(crate) fn audit(self: &Arc<Self>, name: &EntryName, read: &Read) {
        if let Some(audit) = self.begin_audit(name, read) {
            // Among the loads and writes: it may come to void an entry, which a stop must wait for.
            self.work.spawn(audit.run());
        }
    }

    fn begin_audit(self: &Arc<Self>, name: &EntryName, read: &Read) -> Option<Audit> {
        let tier = match read.source {
            Source::L1 => HeldIn::l1,
            Source::L2 => HeldIn::l2,
            Source::Origin { .. } | Source::Bypass(_) => return None,
        };
        let noted = read.noted?;
        let Ok(turn) = Arc::clone(&self.auditor.turns).try_acquire_owned() else {
            self.metrics.audit.skipped(Skipped::busy);
            return None;
        };
        Some(Audit {
            node: Arc::clone(self),
            name: name.clone(),
            answer: Held { tier, content: read.content.clone(), served: true },
            noted,
            answered_at: Moment::now(),
            _turn: turn,
        })
    }
}

impl Audit {
    async fn run(self) {
        let reading = self.node.origin.read_entry(&self.name.user, &self.name.key);
        let Ok(Ok(row)) = tokio::time::timeout(limits::AUDIT_ORIGIN, reading).await else {
            self.node.metrics.audit.skipped(Skipped::origin);
            return;
        };
        let below = self.held_below().await;
        if self.judge(below, &row.map(Arc::new)) == Verdict::Inconsistent {
            self.drop_everywhere().await;
        }
    }

    /// What L2 holds under an answer of L1: nobody would see that it is wrong before L1 forgets the entry.
    async fn held_below(&self) -> Option<Held> {
        if self.answer.tier != HeldIn::l1 {
            return None;
        }
        let space = self.node.slots.lock(self.name.slot).hold.usable_l2_space().cloned()?;
        let content = self.node.l2.peek(&space, &self.name).await?;
        Some(Held { tier: HeldIn::l2, content, served: false })
    }

    /// U2: one critical section. What is found wrong is out of L1 when it ends, and cannot come back by a load in progress.
    fn judge(&self, below: Option<Held>, row: &Content) -> Verdict {
        let node = &self.node;
        let held: Vec<(&Held, bool)> =
            std::iter::once(&self.answer).chain(&below).map(|held| (held, held.content == *row)).collect();
        let mut stripe = node.keys.lock(&self.name);
        let slot = node.slots.lock(self.name.slot);
        let view = node.view(&self.name, &stripe, &slot);
        let verdict = verdict(self.noted, view, held.iter().all(|(_, same)| *same));
        match verdict {
            Verdict::Overlapped => node.metrics.audit.skipped(Skipped::overlapped),
            Verdict::NotOurs => node.metrics.audit.skipped(Skipped::not_ours),
            Verdict::Consistent | Verdict::Inconsistent => {
                held.iter().for_each(|(held, _)| node.metrics.audit.checked(held.tier));
            }
        }
        if verdict == Verdict::Inconsistent {
            let since = node.l1.stored_at(&self.name, self.noted.reign).unwrap_or(self.answered_at);
            let served_for = Moment::now().since(since.min(self.answered_at));
            // As W1 does it. The raised guard also keeps other audits of the entry from telling of it once more.
            stripe.raise_guard();
            node.l1.remove(&self.name);
            if let Some(stream) = &slot.stream {
                stream.invalidate(&self.name);
            }
            let tenure = slot.hold.tenure();
            drop(slot);
            drop(stripe);
            for (held, _) in held.iter().filter(|(_, same)| !same) {
                self.tell(held, row, tenure, held.served.then_some(served_for));
            }
        }
        verdict
    }

    fn tell(&self, held: &Held, row: &Content, tenure: Tenure, served_for: Option<Duration>) {
        self.node.metrics.audit.inconsistent(held.tier, served_for);
        tracing::error!(
            slot = %self.name.slot,
            epoch = %self.node.status.epoch(),
            %tenure,
            reign = self.noted.reign.number(),
            tier = ?held.tier,
            served_for_ms = served_for.map(|age| age.as_millis() as u64),
            held_version = version(&held.content),
            origin_version = version(row),
            "audit: a cached entry is not what the database has; it is dropped"
        );
    }

    /// U3.
    async fn drop_everywhere(&self) {
        match self.node.drop_cached(&self.name).await {
            Ok(()) => {
                self.node.metrics.audit.dropped.inc();
            }
            Err(refused) => {
                tracing::error!(slot = %self.name.slot, ?refused, "audit: the wrong entry may still be in L2");
            }
        }
    }
}

/// For the log; 0 is no version, it stands for "no such entry".
fn version(content: &Content) -> i64 {
    content.as_ref().map_or(0, |entry| entry.version.0)
}
