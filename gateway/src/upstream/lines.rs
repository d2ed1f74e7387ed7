//! The lines to one node: opened when there is something to ask, by a task each that also carries. Until a line is open, and
//! where a node knows none, everything goes by the pool.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::{HeaderValue, StatusCode};
use service::tls::{NodeDialler, NodeStream};
use tokio::time::Instant;

use super::Upstream;
use super::line::{Line, Refused, carry, open};
use crate::limits;

/// One place for each line that there may be.
#[derive(Debug, Default)]
pub(super) struct Lines([Mutex<Place>; limits::LINES_PER_NODE]);

#[derive(Debug)]
enum Place {
    /// None is there, and none is opened before this moment.
    Closed(Option<Instant>),
    Opening,
    Open(Arc<Line>),
}

impl Default for Place {
    fn default() -> Self {
        Self::Closed(None)
    }
}

impl Lines {
    fn place(&self, index: usize) -> MutexGuard<'_, Place> {
        self.0[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are open.
    pub(super) fn open(&self) -> usize {
        (0..self.0.len()).filter(|index| matches!(*self.place(*index), Place::Open(_))).count()
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        for index in 0..self.0.len() {
            if let Place::Open(line) = &*self.place(index) {
                line.retire();
            }
        }
    }
}

impl Upstream {
    /// The line of this thread; `None`: it is not open, and will be soon if that can be.
    pub(super) fn line(self: &Arc<Self>, authorization: Option<&HeaderValue>) -> Option<Arc<Line>> {
        let index = index_of_this_thread();
        let mut place = self.lines.place(index);
        match &*place {
            Place::Open(line) => return Some(Arc::clone(line)),
            Place::Opening => return None,
            Place::Closed(Some(not_before)) if Instant::now() < *not_before => return None,
            Place::Closed(_) => {}
        }
        *place = Place::Opening;
        drop(place);
        let held = Held { upstream: Arc::downgrade(self), index, pause: limits::LINE_PAUSE };
        tokio::spawn(open_and_carry(held, self.dialler.clone(), self.host.clone(), authorization.cloned()));
        None
    }
}

/// A place whose line is being opened or carried: closed again however that ends.
struct Held {
    upstream: Weak<Upstream>,
    index: usize,
    pause: Duration,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(upstream) = self.upstream.upgrade() {
            *upstream.lines.place(self.index) = Place::Closed(Some(Instant::now() + self.pause));
        }
    }
}

async fn open_and_carry(mut held: Held, dialler: NodeDialler, host: HeaderValue, authorization: Option<HeaderValue>) {
    let (stream, read) = match open(&dialler, &host, authorization).await {
        Ok(opened) => opened,
        Err(Refused::Unreachable) => return,
        Err(Refused::Status(status)) => {
            // An older node: what it cannot do today it may do after its upgrade.
            held.pause = limits::LINE_PAUSE_REFUSED;
            let Some(upstream) = held.upstream.upgrade() else { return };
            upstream.note_token(status != StatusCode::UNAUTHORIZED);
            tracing::debug!(node = upstream.address, status = status.as_u16(), "the node opens no line");
            return;
        }
    };
    let line = Arc::new(Line::default());
    {
        let Some(upstream) = held.upstream.upgrade() else { return };
        *upstream.lines.place(held.index) = Place::Open(Arc::clone(&line));
    }
    let carried = match stream {
        // Its halves need no lock.
        NodeStream::Plain(stream) => carry(&line, stream.into_split(), read).await,
        NodeStream::Tls(stream) => carry(&line, tokio::io::split(*stream), read).await,
    };
    if let Err(error) = carried {
        tracing::debug!(%error, "a line ended");
    }
}

/// Threads share no line as long as there are enough: what one turn of a thread asks is written together.
fn index_of_this_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
    }
    THREAD.with(|thread| {
        let index = thread.get().unwrap_or_else(|| THREADS.fetch_add(1, Ordering::Relaxed));
        thread.set(Some(index));
        index % limits::LINES_PER_NODE
    })
}
