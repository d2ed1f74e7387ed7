//! What a request that is let through takes with it: until when its client waits, how much of its rate is left, and a fault that
//! is to be injected. Nothing of it is there unless it was asked for or set.

use std::net::IpAddr;

use http::{HeaderMap, Response};
use placement::UserId;
use service::request_metrics::Route;
use tokio::time::{Instant, timeout_at};
use wire::{Problem, ProblemCode};

use crate::answer_body::AnswerBody;
use crate::deadline;
use crate::faults::Fault;
use crate::forward::Forwarded;
use crate::gateway::Gateway;
use crate::prebuilt::Refusal;
use crate::rate::Standing;
use crate::retry::Kind;

/// What goes with one request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pass {
    /// Until when the client waits.
    pub(crate) until: Option<Instant>,
    standing: Option<Standing>,
    fault: Option<Fault>,
}

impl Gateway {
    /// Lets a request of a user through; `Err`: the answer to it.
    pub(crate) fn pass(
        &self,
        headers: &HeaderMap,
        route: Route,
        user: &UserId,
        client: IpAddr,
        began: Instant,
    ) -> Result<Pass, Refusal> {
        let refused = |problem: Problem| Box::new(problem.into_response());
        let until = deadline::until(headers, began).map_err(refused)?;
        let fault = match &self.drill {
            None => None,
            Some(drill) => drill.fault(route, headers, rand::random).map_err(refused)?,
        };
        let standing = self.rate.as_ref().map(|rate| rate.admit(user, client, began)).transpose()?;
        Ok(Pass { until, standing, fault })
    }

    /// The answer to the client, as what goes with the request wants it.
    pub(crate) async fn forward_with(&self, pass: &Pass, request: &Forwarded, began: Instant) -> Response<AnswerBody> {
        if pass.until.is_none() && pass.fault.is_none() {
            return self.forward(request, began).await;
        }
        Box::pin(self.forward_in_time(pass, request, began)).await
    }

    /// A read is dropped when its client waits no longer, as if the client had gone; a write keeps to its time by itself, for it
    /// has to say what became of it.
    async fn forward_in_time(&self, pass: &Pass, request: &Forwarded, began: Instant) -> Response<AnswerBody> {
        let answer = async {
            let (Some(drill), Some(fault)) = (&self.drill, pass.fault) else {
                return self.forward(request, began).await;
            };
            let injected = match pass.until {
                Some(until) => timeout_at(until, drill.inject(fault)).await,
                None => Ok(drill.inject(fault).await),
            };
            let Ok(injected) = injected else {
                let detail = "not executed: X-Request-Timeout-Ms is over within the delay of a drill";
                return Problem::new(ProblemCode::OwnerUnavailable, detail).into_response();
            };
            match injected {
                Some(answer) => answer,
                // The time of the drill is not the node's.
                None => self.forward(request, Instant::now()).await,
            }
        };
        match pass.until {
            Some(until) if request.kind == Kind::Read => {
                let too_late = || {
                    let detail = "there is no answer within X-Request-Timeout-Ms";
                    Problem::new(ProblemCode::OwnerUnavailable, detail).into_response()
                };
                timeout_at(until, answer).await.unwrap_or_else(|_| too_late())
            }
            _ => answer.await,
        }
    }

    /// Says on an answer what went with its request.
    pub(crate) fn tell(&self, pass: &Pass, headers: &mut HeaderMap) {
        if let (Some(rate), Some(standing)) = (&self.rate, pass.standing) {
            rate.tell(standing, headers);
        }
        if let Some(fault) = pass.fault {
            fault.tell(headers);
        }
    }
}
