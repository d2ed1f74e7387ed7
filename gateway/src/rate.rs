//! Rate limits: how many requests a user, a client's address and all together may send. Off unless set.
//!
//! A limit is a token bucket, kept as the one moment at which it will be full again (GCRA, [`bucket`]); the buckets of users and
//! clients lie in tables of fixed size ([`cells`]). The clock is monotonic and comes in as an argument: a step of the wall clock
//! moves nothing here.

mod bucket;
mod cells;
mod quota;
mod told;

use std::net::IpAddr;
use std::sync::atomic::AtomicU64;

use http::{HeaderMap, HeaderValue};
use placement::UserId;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use service::fixed_counters::{FixedCounters, FixedLabels};
use tokio::time::Instant;

use crate::prebuilt::Refusal;
use bucket::Level;
use cells::Cells;
use told::Told;

pub use quota::{Quota, QuotaInvalid};

/// Which limits there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct RateSettings {
    /// How many requests one user may send, as "100/s burst=200"; no limit by default.
    #[arg(long = "rate-user", env = "SHARDCACHE_RATE_USER", value_name = "RATE")]
    pub rate_user: Option<Quota>,
    /// How many requests may come from one client address (IPv6: one /64 network); no limit by default.
    #[arg(long = "rate-client", env = "SHARDCACHE_RATE_CLIENT", value_name = "RATE")]
    pub rate_client: Option<Quota>,
    /// How many requests this gateway takes in all; no limit by default.
    #[arg(long = "rate-total", env = "SHARDCACHE_RATE_TOTAL", value_name = "RATE")]
    pub rate_total: Option<Quota>,
}

/// Which limit it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "label values as they appear")]
pub(crate) enum Scope {
    user,
    client,
    total,
}

const SCOPES: [Scope; 3] = [Scope::user, Scope::client, Scope::total];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    limit: Scope,
}

impl FixedLabels for Labels {
    const COUNT: usize = SCOPES.len();

    fn place(&self) -> usize {
        self.limit as usize
    }

    fn at(place: usize) -> Self {
        Self { limit: SCOPES[place] }
    }
}

/// The limits at work.
pub(crate) struct RateLimits {
    /// Time is counted from here.
    origin: Instant,
    user: Option<(Quota, Cells)>,
    client: Option<(Quota, Cells)>,
    total: Option<(Quota, AtomicU64)>,
    told: Told,
    refused: FixedCounters<Labels>,
}

/// How much is left to a request that was let through, for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    user: Option<Level>,
    client: Option<Level>,
}

impl RateLimits {
    /// `None`: there is no limit, and nothing to ask.
    pub(crate) fn new(settings: &RateSettings, registry: &mut Registry, origin: Instant) -> Option<Self> {
        if *settings == RateSettings::default() {
            return None;
        }
        let (refused, crowded) = (FixedCounters::default(), Counter::default());
        registry.register("rate_limited", "Requests refused by a rate limit", FixedCounters::clone(&refused));
        registry.register(
            "rate_buckets_shared",
            "Users or clients that share a bucket of a rate limit, for the table is crowded",
            crowded.clone(),
        );
        let cells = |quota: Quota| (quota, Cells::new(crowded.clone()));
        Some(Self {
            origin,
            user: settings.rate_user.map(cells),
            client: settings.rate_client.map(cells),
            total: settings.rate_total.map(|quota| (quota, AtomicU64::new(0))),
            told: Told::new(settings),
            refused,
        })
    }

    /// Takes one request of each bucket that it falls into, or of none; `Err`: the answer to it.
    ///
    /// Two requests at the same moment may both find the last one of a bucket: the slower is refused, and has taken one of a
    /// bucket before it in vain.
    pub(crate) fn admit(&self, user: &UserId, client: IpAddr, now: Instant) -> Result<Standing, Refusal> {
        // Beyond 584 years of running it stands still.
        let now = u64::try_from(now.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX);
        let user = self.user.as_ref().map(|(quota, cells)| (quota, cells.bucket(user.as_str().as_bytes(), now)));
        let client = self.client.as_ref().map(|(quota, cells)| (quota, cells.bucket(&network(client), now)));
        let total = self.total.as_ref().map(|(quota, bucket)| (quota, bucket));
        let falls_into = [(Scope::user, user), (Scope::client, client), (Scope::total, total)];
        for (scope, limit) in falls_into {
            if let Some((quota, bucket)) = limit {
                bucket::look(bucket, now, quota).map_err(|wait_ns| self.refusal(scope, wait_ns))?;
            }
        }
        let mut levels = [None; SCOPES.len()];
        for ((scope, limit), level) in falls_into.into_iter().zip(&mut levels) {
            if let Some((quota, bucket)) = limit {
                *level = Some(bucket::take(bucket, now, quota).map_err(|wait_ns| self.refusal(scope, wait_ns))?);
            }
        }
        let [user, client, _total] = levels;
        Ok(Standing { user, client })
    }

    /// Says on an answer what the limits are and how much is left.
    pub(crate) fn tell(&self, standing: Standing, headers: &mut HeaderMap) {
        self.told.tell(standing, headers);
    }

    fn refusal(&self, scope: Scope, wait_ns: u64) -> Refusal {
        self.refused.inc(&Labels { limit: scope });
        Box::new(self.told.refusal(scope, wait_ns))
    }
}

/// What counts as one client: an IPv4 address, or the network that a subscriber with IPv6 has to itself (RFC 6177).
fn network(client: IpAddr) -> [u8; 9] {
    let mut network = [0; 9];
    match client.to_canonical() {
        IpAddr::V4(address) => network[1..5].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => {
            network[0] = 6;
            network[1..].copy_from_slice(&address.octets()[..8]);
        }
    }
    network
}

/// A value for `Retry-After` or a field's `t`: whole seconds, rounded up, at least one.
fn seconds(ns: u64) -> u64 {
    ns.div_ceil(quota::SECOND_NS).max(1)
}

/// Numbers and names of ours, all ASCII.
fn header_value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("ASCII without line breaks")
}

#[cfg(test)]
mod tests;
