//! A load that the request moves along which began it, in its own task.
//!
//! No task of the load's own, and no hop from it to the request. Once the request has its answer, or is dropped because its
//! client went away, what is left of the load goes on in a task of the node: those who joined must not start again, and
//! the lease in L2 is redeemed.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::LoadEnd;
use super::outcome::Outcome;

/// What is left of a load.
pub(super) struct Led {
    rest: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    tasks: TaskTracker,
}

impl Led {
    /// `load` tells its outcome at the latest when it ends.
    pub(super) fn new(load: impl Future<Output = ()> + Send + 'static, tasks: &TaskTracker) -> Self {
        Self { rest: Some(Box::pin(load)), tasks: tasks.clone() }
    }

    /// Moves the load along until its outcome is told; `None`: it was dropped without an end.
    pub(super) async fn until_told(mut self, outcome: &Outcome) -> Option<LoadEnd> {
        poll_fn(|context| {
            if let Some(rest) = &mut self.rest
                && rest.as_mut().poll(context).is_ready()
            {
                self.rest = None;
            }
            outcome.told().map_or(Poll::Pending, |end| Poll::Ready(end.clone()))
        })
        .await
    }
}

impl Drop for Led {
    fn drop(&mut self) {
        // Without a runtime nothing can go on: the load is dropped, as its task would have been.
        if let (Some(rest), Ok(runtime)) = (self.rest.take(), Handle::try_current()) {
            self.tasks.spawn_on(rest, &runtime);
        }
    }
}
