//! The controller's post: held under a term that a task of its own renews, so that no ring change can keep it from that.
//!
//! The database is the judge of the term (it refuses the takeover of a term that is over); the clock here only makes a
//! leader that was frozen or cut off stop what it has under way.

use origin::{Origin, Term};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::limits::{RELEASE_WAIT, TERM_PAUSE, TERM_TTL};

/// A term of ours.
#[derive(Debug)]
pub struct Post {
    /// Its number.
    pub term: Term,
    /// Cancelled once it is over, or we are to stop.
    pub over: CancellationToken,
    note: watch::Sender<String>,
    keeper: tokio::task::JoinHandle<()>,
}

impl Post {
    /// Keeps the term, which was asked for at `asked_at`, until it is lost or `over` is cancelled.
    pub fn keep(origin: &Origin, term: Term, asked_at: Instant, over: CancellationToken) -> Self {
        let (note, notes) = watch::channel(String::new());
        let keeper = tokio::spawn(keep(origin.clone(), term, asked_at, notes, over.clone()));
        Self { term, over, note, keeper }
    }

    /// Says to operators, in the log and with the term, how things stand; once for as long as it does not change.
    pub fn say(&self, note: &str) {
        self.note.send_if_modified(|said| {
            let news = said != note;
            if news {
                tracing::info!("{note}");
                note.clone_into(said);
            }
            news
        });
    }

    /// Gives the post back at once, for another controller and for nodes that would wait for this one.
    pub async fn release(self, origin: &Origin) {
        self.over.cancel();
        // The last renewal is bounded by the term; one that lands later finds the term over.
        self.keeper.abort();
        match timeout(RELEASE_WAIT, origin.release_control(self.term)).await {
            Ok(Ok(true)) => tracing::info!("no longer leading"),
            Ok(Ok(false)) => tracing::info!("no longer leading: the term is another's"),
            Ok(Err(error)) => tracing::warn!(%error, "the term could not be given back and runs out"),
            Err(_) => tracing::warn!("the term could not be given back in time and runs out"),
        }
    }
}

async fn keep(
    origin: Origin,
    term: Term,
    asked_at: Instant,
    mut notes: watch::Receiver<String>,
    over: CancellationToken,
) {
    let mut valid_until = asked_at + TERM_TTL;
    loop {
        let news = tokio::select! {
            () = over.cancelled() => return,
            () = sleep(TERM_PAUSE) => Ok(()),
            news = notes.changed() => news,
        };
        let note = notes.borrow_and_update().clone();
        let asked_at = Instant::now();
        let kept = timeout_at(valid_until, origin.keep_control(term, TERM_TTL, &note)).await;
        match kept {
            Ok(Ok(true)) => valid_until = asked_at + TERM_TTL,
            Ok(Err(error)) if Instant::now() < valid_until => tracing::debug!(%error, "the term was not renewed now"),
            Ok(_) | Err(_) => {
                over.cancel();
                return;
            }
        }
        if news.is_err() {
            return;
        }
    }
}
