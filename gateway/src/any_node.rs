//! What goes to a node that need not be the owner: lists, and reads past an owner that does not answer (protocol Gw3).

use std::sync::Arc;

use http::Response;
use tokio::time::Instant;
use wire::ProblemCode;

use crate::answer_body::AnswerBody;
use crate::forward::{Forwarded, NO_ANSWERS, problem};
use crate::gateway::Gateway;
use crate::health::outcome::is_faulty;
use crate::limits;
use crate::metrics::Hop;
use crate::upstream::{SendFailed, Upstream};

impl Gateway {
    /// Gw3: any node reads the origin for us.
    pub(crate) async fn detached(
        &self,
        request: &Forwarded,
        not: Option<&Arc<Upstream>>,
        deadline: Instant,
    ) -> Response<AnswerBody> {
        self.metrics.count(Hop::detached);
        self.ask_any(request, not, deadline).await
    }

    /// A request that needs no owner, to a node by the balancing policy.
    pub(crate) async fn forward_to_any(&self, request: &Forwarded, began: Instant) -> Response<AnswerBody> {
        Box::pin(self.ask_any(request, None, began + limits::READ_DEADLINE)).await
    }

    async fn ask_any(
        &self,
        request: &Forwarded,
        not: Option<&Arc<Upstream>>,
        deadline: Instant,
    ) -> Response<AnswerBody> {
        let view = self.ring.view();
        let (mut silent_until, mut code) = (None, ProblemCode::OwnerUnavailable);
        for (tries, node) in self.balancer.order(&view, not).into_iter().take(limits::DETACHED_TRIES).enumerate() {
            let now = Instant::now();
            let mut try_deadline = deadline.min(now + limits::READ_TRY);
            if node.standing().is_silent() {
                // All who look well have been asked: of the others little is hoped for.
                try_deadline = deadline.min(*silent_until.get_or_insert(now + limits::SILENT_TRY));
            }
            if now >= try_deadline || tries > 0 && !self.may_retry() {
                break;
            }
            match self.ask(request, &node, view.epoch().0, true, try_deadline).await {
                Ok(answer) if !NO_ANSWERS.contains(&answer.status()) && !is_faulty(&answer) => return answer,
                Err(SendFailed::Busy) => code = ProblemCode::Overloaded,
                _ => {}
            }
        }
        problem(code)
    }

    /// The owner after all, where nobody else could read for it; `None`: it could not either.
    pub(crate) async fn ask_passed_by(
        &self,
        request: &Forwarded,
        owner: Option<&Arc<Upstream>>,
        deadline: Instant,
    ) -> Option<Response<AnswerBody>> {
        let owner = owner.filter(|_| self.may_retry())?;
        let epoch = self.ring.view().epoch().0;
        let patience = if owner.standing().is_silent() { limits::SILENT_TRY } else { limits::READ_TRY };
        let try_deadline = deadline.min(Instant::now() + patience);
        let answer = self.ask(request, owner, epoch, false, try_deadline).await.ok()?;
        answer.status().is_success().then_some(answer)
    }

    /// Whether the budget allows that something is sent once more.
    pub(crate) fn may_retry(&self) -> bool {
        let may = self.retry_budget.take();
        let counter = if may { &self.metrics.nodes.retries } else { &self.metrics.nodes.retries_refused };
        counter.inc();
        may
    }
}
