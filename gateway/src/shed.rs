//! Load shedding: how many requests of one kind a node is given at a time. A few more wait in turn for a moment; the rest is
//! refused at once, so that those who are let through are answered as fast as ever.
//!
//! A place is held until the head of the answer is there: the node has done its work then, and what follows goes at the client's
//! pace. Whoever has a place is never sent away again: a write that was sent is waited for.

mod course;
mod own_delay;
mod places;

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::registry::Registry;
use service::fixed_counters::{FixedCounters, FixedLabels};
use tokio_util::sync::CancellationToken;

use crate::limits;
use crate::retry::Kind;
use crate::upstream::Upstream;
use own_delay::OwnDelay;
use places::Places;

pub(crate) use places::Place;

/// How many requests of one kind a node is given at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concurrency {
    /// As many as there are.
    #[default]
    Off,
    /// Reads: as many as the node answers about as fast as few. Writes: as many as there are, for a ring change parks them, and
    /// that says nothing of the load.
    Adaptive,
    /// So many reads, and so many writes.
    Fixed(u32),
}

/// Why a text says nothing about concurrency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is off, adaptive, or a number from 1 to {}", limits::REQUESTS_IN_PROGRESS_MAX)]
pub struct ConcurrencyInvalid;

impl FromStr for Concurrency {
    type Err = ConcurrencyInvalid;

    fn from_str(text: &str) -> Result<Self, ConcurrencyInvalid> {
        match text {
            "off" => Ok(Self::Off),
            "adaptive" => Ok(Self::Adaptive),
            _ => {
                let number = text.parse().ok().filter(|number| *number as usize <= limits::REQUESTS_IN_PROGRESS_MAX);
                number.filter(|number| *number > 0).map(Self::Fixed).ok_or(ConcurrencyInvalid)
            }
        }
    }
}

/// The setting of the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct ShedSettings {
    /// How many reads, and how many writes, a node is given at a time: off (no bound), adaptive (reads: by how fast it answers),
    /// or a number.
    #[arg(long, env = "SHARDCACHE_CONCURRENCY", default_value = "off")]
    pub concurrency: Concurrency,
}

/// Load shedding, on.
pub(crate) struct Shedding {
    /// Where the limit is adaptive.
    own_delay: Option<OwnDelay>,
    /// At first, where it is adaptive.
    limit: usize,
    shed: FixedCounters<Labels>,
}

/// The places at one node.
#[derive(Debug)]
pub(crate) struct NodePlaces {
    reads: Arc<Places>,
    writes: Option<Arc<Places>>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "label values as they appear")]
pub(crate) enum Refused {
    /// There is no place left to wait at.
    queue_full,
    /// It has waited long enough.
    waited,
}

const REFUSED: [Refused; 2] = [Refused::queue_full, Refused::waited];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    reason: Refused,
}

impl FixedLabels for Labels {
    const COUNT: usize = REFUSED.len();

    fn place(&self) -> usize {
        self.reason as usize
    }

    fn at(place: usize) -> Self {
        Self { reason: REFUSED[place] }
    }
}

impl Shedding {
    /// `None`: nothing is shed, and there is nothing to ask.
    pub(crate) fn new(settings: &ShedSettings, registry: &mut Registry) -> Option<Self> {
        let (own_delay, limit) = match settings.concurrency {
            Concurrency::Off => return None,
            Concurrency::Adaptive => (Some(OwnDelay::default()), limits::CONCURRENCY_FIRST),
            Concurrency::Fixed(places) => (None, places as usize),
        };
        let shed = FixedCounters::default();
        registry.register("shed", "Requests refused because the node has enough to do", FixedCounters::clone(&shed));
        Some(Self { own_delay, limit, shed })
    }

    /// What is to be done in the background, until `stop`.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        if let Some(own_delay) = &self.own_delay {
            own_delay.clone().measure(stop).await;
        }
    }

    /// A place at a node, at once or after a short wait; `None`: the node is to be left alone. Dropping the future leaves
    /// the queue.
    pub(crate) async fn place(&self, node: &Upstream, kind: Kind) -> Result<Option<Place>, Refused> {
        let node = node.places.get_or_init(|| self.places());
        let places = match kind {
            Kind::Read => &node.reads,
            Kind::Write => match &node.writes {
                Some(writes) => writes,
                None => return Ok(None),
            },
        };
        // Boxed: hardly any request waits, and every one has room for it.
        let place = match Places::try_take(places) {
            Some(place) => Ok(place),
            None => Box::pin(Places::wait(places)).await,
        };
        place.map(Some).inspect_err(|reason| self.shed.inc(&Labels { reason: *reason }))
    }

    fn places(&self) -> NodePlaces {
        NodePlaces {
            reads: Arc::new(Places::new(self.limit, self.own_delay.clone())),
            writes: self.own_delay.is_none().then(|| Arc::new(Places::new(self.limit, None))),
        }
    }
}

impl NodePlaces {
    /// How many reads the node is given at a time now.
    pub(crate) fn reads_limit(&self) -> usize {
        self.reads.limit.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
