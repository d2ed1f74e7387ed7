//! Hedged reads: when a read's owner is slower than nearly always, a second, detached read goes to another node, and the first
//! good answer wins.
//!
//! Correct whoever wins: a detached read returns a committed value not older than any acknowledged before it began (protocol G6,
//! I8). Only for reads of one entry; a write has one place.

mod latencies;

use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use tokio::time::{Instant, sleep_until};

use crate::answer_body::AnswerBody;
use crate::forward::{Forwarded, NO_ANSWERS};
use crate::gateway::Gateway;
use crate::health::metrics::HedgeResult;
use crate::limits;
use crate::upstream::{SendFailed, Upstream};
pub(crate) use latencies::Latencies;

/// After how long without an answer a read is hedged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hedge {
    /// Never.
    #[default]
    Off,
    /// After the time in which so many of a hundred reads are answered.
    Percentile(u8),
    /// After this time.
    After(Duration),
}

/// Why a text is no [`Hedge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hedging is off, p95, p99 or a time below the 1200ms that a try may take, as 50ms")]
pub struct HedgeInvalid;

impl std::str::FromStr for Hedge {
    type Err = HedgeInvalid;

    fn from_str(text: &str) -> Result<Self, HedgeInvalid> {
        match text.trim() {
            "off" => Ok(Self::Off),
            "p95" => Ok(Self::Percentile(95)),
            "p99" => Ok(Self::Percentile(99)),
            time => {
                let time = time.parse::<service::settings::HumanDuration>().map_err(|_| HedgeInvalid)?.get();
                if time < limits::READ_TRY { Ok(Self::After(time)) } else { Err(HedgeInvalid) }
            }
        }
    }
}

/// How a hedged read went.
pub(crate) enum Hedged {
    /// The owner answered first, or it failed and no other node did better.
    Owner(Result<Response<AnswerBody>, SendFailed>),
    /// Another node answered first.
    Other(Response<AnswerBody>),
}

impl Gateway {
    /// After how long without an answer of its owner this read is hedged; `None`: it is not.
    pub(crate) fn hedges_after(&self, request: &Forwarded) -> Option<Duration> {
        match self.config.nodes.hedge {
            Hedge::Off => None,
            _ if request.read_of.is_none() => None,
            Hedge::After(delay) => Some(delay),
            Hedge::Percentile(_) => self.latencies.hedge_after(),
        }
    }

    /// Asks the owner, and after `delay` another node too. Whichever future is dropped gives back all that it held.
    pub(crate) async fn ask_hedged(
        &self,
        request: &Forwarded,
        owner: &Arc<Upstream>,
        epoch: u64,
        delay: Duration,
        deadline: Instant,
    ) -> Hedged {
        let began = Instant::now();
        let mut first = std::pin::pin!(self.ask(request, owner, epoch, false, deadline));
        tokio::select! {
            biased;
            answered = &mut first => return Hedged::Owner(answered),
            () = sleep_until((began + delay).min(deadline)) => {}
        }
        let view = self.ring.view();
        let other = self.balancer.order(&view, Some(owner)).into_iter().next();
        let other = other.filter(|other| !other.standing().is_silent() && !other.standing().is_ejected());
        let Some(other) = other.filter(|_| self.may_retry()) else { return Hedged::Owner(first.await) };
        self.metrics.nodes.hedge(HedgeResult::sent);
        let mut second = std::pin::pin!(self.ask(request, &other, epoch, true, deadline));
        let won = tokio::select! {
            biased;
            answered = &mut first => match answered {
                Ok(answer) if is_good(&answer) => return Hedged::Owner(Ok(answer)),
                // The other node is still on its way, and may do better.
                answered => match second.await {
                    Ok(answer) if is_good(&answer) => answer,
                    _ => return Hedged::Owner(answered),
                },
            },
            answered = &mut second => match answered {
                Ok(answer) if is_good(&answer) => answer,
                _ => return Hedged::Owner(first.await),
            },
        };
        self.metrics.nodes.hedge(HedgeResult::won);
        self.outrun(owner, began.elapsed());
        Hedged::Other(won)
    }

    /// A node whose answers are never waited for would never be seen to fail: so many times in a row, and it is probed.
    fn outrun(&self, owner: &Arc<Upstream>, waited: Duration) {
        self.latencies.note(waited);
        if owner.load().note_outrun().is_multiple_of(limits::OUTRUN_MAX) {
            owner.doubt();
        }
    }
}

/// Whether the client is well served with it.
fn is_good(answer: &Response<AnswerBody>) -> bool {
    let status: StatusCode = answer.status();
    !status.is_server_error() && !NO_ANSWERS.contains(&status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hedge_is_off_a_percentile_or_a_time_below_that_of_a_try() {
        let parsed = ["off", "p95", "p99", "50ms"].map(str::parse::<Hedge>);
        let time = Hedge::After(Duration::from_millis(50));
        assert_eq!(parsed, [Ok(Hedge::Off), Ok(Hedge::Percentile(95)), Ok(Hedge::Percentile(99)), Ok(time)]);
        for bad in ["", "on", "p50", "0ms", "1200ms", "1h", "5"] {
            assert_eq!(bad.parse::<Hedge>(), Err(HedgeInvalid), "{bad}");
        }
    }
}
