//! Look-ups of one server that come at the same time share a pipeline (R6), which ends with one look at the server's identity.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::server::{Held, Server, Session};
use crate::limits;
use crate::shared_trips::{Bounds, RoundTrip, SharedTrips};

/// Look-ups of one server.
pub(super) struct LookUps {
    server: Arc<Server>,
}

/// One look-up, and the session it belongs to.
pub(super) struct Question {
    session: Arc<Session>,
    command: redis::Cmd,
}

impl Question {
    /// R6.
    pub(super) fn lease_or_get(session: &Arc<Session>, redis_key: &str, nonce: &str) -> Self {
        let mut command = redis::cmd("SET");
        command.arg(redis_key).arg(nonce).arg("NX").arg("GET");
        command.arg("PX").arg(limits::L2_LEASE.as_millis() as u64);
        Self { session: Arc::clone(session), command }
    }
}

impl LookUps {
    pub(super) fn of(server: &Arc<Server>, tasks: TaskTracker) -> Arc<SharedTrips<Self>> {
        let bounds = Bounds {
            trips: limits::L2_PIPELINES,
            questions: limits::L2_LOOK_UPS_PER_PIPELINE,
            waiting: limits::L2_LOOK_UPS_WAITING_MAX,
        };
        SharedTrips::new(Self { server: Arc::clone(server) }, bounds, tasks)
    }
}

impl RoundTrip for LookUps {
    type Question = Question;
    /// `None`: no answer that counts.
    type Answer = Option<Held>;

    async fn make(&self, questions: Vec<Question>) -> Vec<Option<Held>> {
        let nothing = |count| (0..count).map(|_| None).collect();
        let Some(session) = self.server.session() else { return nothing(questions.len()) };
        // Whatever has waited past the end of its session is not sent: another session has other spaces (R2).
        let ours: Vec<bool> = questions.iter().map(|question| Arc::ptr_eq(&question.session, &session)).collect();
        let sent = questions.into_iter().zip(&ours).filter(|(_, ours)| **ours);
        let commands: Vec<_> = sent.map(|(question, _)| question.command).collect();
        if commands.is_empty() {
            return nothing(ours.len());
        }
        let mut held = self.server.read(&session, commands).await.into_iter();
        ours.into_iter().map(|ours| ours.then(|| held.next()).flatten().flatten()).collect()
    }
}
