//! Faults on purpose, for drills: a delay before a request goes to its node, or an answer instead of it. Only where
//! `SHARDCACHE_FAULTS=on` says so, and then shown wherever somebody looks.
//!
//! Nothing is injected behind a request that was sent: a write that is delayed is sent after that, or never because its client
//! has gone; one that is aborted was not executed.

mod rules;

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::registry::Registry;
use service::fixed_counters::{FixedCounters, FixedLabels};
use service::request_metrics::Route;
use wire::{Problem, ProblemCode};

use crate::answer_body::AnswerBody;

pub use rules::{FaultRules, FaultRulesInvalid};

/// On a request: the fault that it wants. On an answer: the one that was injected.
const X_SHARDCACHE_FAULT: HeaderName = HeaderName::from_static("x-shardcache-fault");

/// Whether there are faults at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Faults {
    /// None: rules and headers have no effect.
    #[default]
    Off,
    /// As rules and headers say.
    On,
}

/// The settings of the group.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub struct FaultSettings {
    /// Fault drills: whether requests may be delayed or refused on purpose, by --fault-rules or an X-Shardcache-Fault header.
    #[arg(long, env = "SHARDCACHE_FAULTS", default_value = "off")]
    pub faults: Faults,
    /// What is injected while faults are on, as "delay=50ms share=0.1 route=get; abort=503 header=X-Drill".
    #[arg(long, env = "SHARDCACHE_FAULT_RULES", default_value = "")]
    pub fault_rules: FaultRules,
}

/// What happens to one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fault {
    delay: Option<Duration>,
    abort: Option<StatusCode>,
}

/// Fault drills, on.
pub(crate) struct Drill {
    rules: FaultRules,
    injected: FixedCounters<Labels>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "label values as they appear")]
enum Injected {
    delay,
    abort,
}

const INJECTED: [Injected; 2] = [Injected::delay, Injected::abort];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    fault: Injected,
}

impl FixedLabels for Labels {
    const COUNT: usize = INJECTED.len();

    fn place(&self) -> usize {
        self.fault as usize
    }

    fn at(place: usize) -> Self {
        Self { fault: INJECTED[place] }
    }
}

impl Drill {
    /// `None`: there are no faults, and nothing to ask.
    pub(crate) fn new(settings: &FaultSettings, registry: &mut Registry) -> Option<Self> {
        if settings.faults == Faults::Off {
            if settings.fault_rules != FaultRules::default() {
                tracing::warn!("SHARDCACHE_FAULT_RULES has no effect without SHARDCACHE_FAULTS=on");
            }
            return None;
        }
        tracing::warn!(rules = settings.fault_rules.len(), "FAULT DRILL: requests are delayed and refused on purpose");
        let injected = FixedCounters::default();
        registry.register(
            "faults_injected",
            "Faults injected on purpose, for a drill",
            FixedCounters::clone(&injected),
        );
        Some(Self { rules: settings.fault_rules.clone(), injected })
    }

    /// What happens to a request: what it asks for, else what the first rule says that means it. `chance` is from 0 up to 1.
    pub(crate) fn fault(
        &self,
        route: Route,
        headers: &HeaderMap,
        chance: impl FnMut() -> f64,
    ) -> Result<Option<Fault>, Problem> {
        let Some(asked) = headers.get(X_SHARDCACHE_FAULT) else {
            return Ok(self.rules.fault(route, headers, chance));
        };
        let fault = asked.to_str().ok().and_then(|text| rules::fault_of(text).ok());
        let refused = || {
            let form = "X-Shardcache-Fault is delay=TIME (at most 10s), abort=STATUS (429, 503 or 504), or both";
            Problem::new(ProblemCode::RequestInvalid, form)
        };
        fault.map(Some).ok_or_else(refused)
    }

    /// Does what the fault says; `Some`: the answer to a request that goes no further.
    pub(crate) async fn inject(&self, fault: Fault) -> Option<Response<AnswerBody>> {
        if let Some(delay) = fault.delay {
            self.injected.inc(&Labels { fault: Injected::delay });
            tokio::time::sleep(delay).await;
        }
        let code = match fault.abort? {
            StatusCode::TOO_MANY_REQUESTS => ProblemCode::RateLimited,
            StatusCode::GATEWAY_TIMEOUT => ProblemCode::WriteOutcomeUnknown,
            _ => ProblemCode::Overloaded,
        };
        self.injected.inc(&Labels { fault: Injected::abort });
        Some(Problem::new(code, "not executed: a fault that was injected for a drill").into_response())
    }
}

impl Fault {
    /// Says on the answer what was injected.
    pub(crate) fn tell(self, headers: &mut HeaderMap) {
        let delay = self.delay.map(|delay| format!("delay={}ms", delay.as_millis()));
        let abort = self.abort.map(|status| format!("abort={}", status.as_u16()));
        let words: Vec<String> = delay.into_iter().chain(abort).collect();
        headers.insert(X_SHARDCACHE_FAULT, HeaderValue::try_from(words.join(" ")).expect("ASCII without line breaks"));
    }
}

#[cfg(test)]
mod tests;
