//! While somebody runs a change, the journal says so: who finds one that nobody attends to may carry it on or give it up.

use std::time::Duration;

use origin::Origin;
use placement::ChangeId;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::limits::{ATTENDANCE_EVERY, ATTENDANCE_EVERY_SEALED, ATTENDANCE_TTL, ATTENDANCE_TTL_SEALED};

/// How soon it is known that nobody attends to a change any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closeness {
    /// Nobody waits for the change.
    Loose,
    /// Writes wait for it.
    Close,
}

impl Closeness {
    /// How long the word lasts, and how often it is given.
    fn pace(self) -> (Duration, Duration) {
        match self {
            Self::Loose => (ATTENDANCE_TTL, ATTENDANCE_EVERY),
            Self::Close => (ATTENDANCE_TTL_SEALED, ATTENDANCE_EVERY_SEALED),
        }
    }
}

/// Says it again and again until it is ended or dropped.
#[derive(Debug)]
pub(crate) struct Attendance {
    wanted: watch::Sender<Closeness>,
    noted: watch::Receiver<Closeness>,
    ended: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl Attendance {
    /// `operator` attends to the change from now on.
    pub(crate) fn begin(origin: Origin, change: ChangeId, operator: String) -> Self {
        let ended = CancellationToken::new();
        let stop = ended.clone();
        let (wanted, mut wish) = watch::channel(Closeness::Loose);
        let (note, noted) = watch::channel(Closeness::Loose);
        let task = tokio::spawn(async move {
            loop {
                let closeness = *wish.borrow_and_update();
                let (ttl, every) = closeness.pace();
                match origin.attend_change(change, &operator, ttl).await {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => tracing::debug!(%change, %error, "not noted that the change is attended to"),
                }
                note.send_replace(closeness);
                tokio::select! {
                    () = sleep(every) => {}
                    Ok(()) = wish.changed() => {}
                    () = stop.cancelled() => return,
                }
            }
        });
        Self { wanted, noted, ended, task: AbortOnDropHandle::new(task) }
    }

    /// From now on writes wait for the change: should its migrator die, somebody must notice before they are refused.
    /// Returns once the journal has this, or has failed to take it: it is no condition of the change.
    pub(crate) async fn closely(&self) {
        self.wanted.send_if_modified(|wanted| std::mem::replace(wanted, Closeness::Close) != Closeness::Close);
        // An error says that the change is over, which its next step will find.
        let _ = self.noted.clone().wait_for(|noted| *noted == Closeness::Close).await;
    }

    /// Ends it after the statement that is under way, if one is.
    pub(crate) async fn end(self) {
        self.ended.cancel();
        // A task that panicked has ended too, and has said so.
        let _ = self.task.await;
    }
}
