//! While somebody runs a change, the journal says so: who finds one that nobody attends to may carry it on or give it up.

use origin::Origin;
use placement::ChangeId;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::limits::{ATTENDANCE_EVERY, ATTENDANCE_TTL};

/// Says it again and again until it is ended or dropped.
#[derive(Debug)]
pub(crate) struct Attendance {
    ended: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl Attendance {
    /// `operator` attends to the change from now on.
    pub(crate) fn begin(origin: Origin, change: ChangeId, operator: String) -> Self {
        let ended = CancellationToken::new();
        let stop = ended.clone();
        let task = tokio::spawn(async move {
            loop {
                match origin.attend_change(change, &operator, ATTENDANCE_TTL).await {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => tracing::debug!(%change, %error, "not noted that the change is attended to"),
                }
                tokio::select! {
                    () = sleep(ATTENDANCE_EVERY) => {}
                    () = stop.cancelled() => return,
                }
            }
        });
        Self { ended, task: AbortOnDropHandle::new(task) }
    }

    /// Ends it after the statement that is under way, if one is.
    pub(crate) async fn end(self) {
        self.ended.cancel();
        // A task that panicked has ended too, and has said so.
        let _ = self.task.await;
    }
}
