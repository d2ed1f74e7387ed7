//! Fenced writes: a few at a time have a statement each; more share statements and their commits (W3).
//!
//! Each is a registered write with its void confirmed (W1, W2), of a key of its own, and fenced by itself: what shares a
//! statement could as well have committed one right after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use origin::{FencedWrite, Origin, OriginError, WriteAnswer, WriteError};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::limits;
use crate::shared_trips::{Bounds, RoundTrip, SharedTrips};

/// The writes of one node.
pub(crate) struct OriginWrites {
    origin: Origin,
    trips: Arc<SharedTrips<Statement>>,
    under_way: AtomicUsize,
}

/// A write under way. Ends when dropped.
struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    /// Also answers how many others are.
    fn begin(count: &'a AtomicUsize) -> (Self, usize) {
        let others = count.fetch_add(1, Ordering::Relaxed);
        (Self(count), others)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl OriginWrites {
    pub(crate) fn new(origin: Origin, tasks: TaskTracker) -> Self {
        let bounds = Bounds {
            trips: limits::ORIGIN_WRITE_STATEMENTS,
            questions: limits::ORIGIN_WRITES_PER_STATEMENT,
            waiting: limits::ORIGIN_WRITES_WAITING_MAX,
        };
        let trips = SharedTrips::new(Statement(origin.clone()), bounds, tasks);
        Self { origin, trips, under_way: AtomicUsize::new(0) }
    }

    /// The fenced statement. Dropped at any point, it may be executed at any later time, once, or never (W6).
    pub(crate) async fn write(&self, write: FencedWrite) -> Result<WriteAnswer, WriteError> {
        let (_under_way, others) = UnderWay::begin(&self.under_way);
        if others < limits::ORIGIN_WRITES_ALONE || !self.origin.may_put_together(&write) {
            return self.origin.write_entry(&write).await;
        }
        let write = Arc::new(write);
        let asked = self.trips.ask(Question { write: Arc::clone(&write), asked_at: Instant::now() });
        match asked.answer().await {
            Some(Ok(Some(answer))) => Ok(answer),
            // An answer has said that it was not executed, so that nothing is sent twice (A4). Alone it is told why, and it
            // waits alone for a change of its slot's tenure.
            Some(Ok(None)) => self.origin.write_entry(&write).await,
            Some(Err(WriteError::NotExecuted(error))) if error.may_be_of_one_row() => {
                self.origin.write_entry(&write).await
            }
            Some(Err(error)) => Err(error),
            // Given up half-way: it has perhaps been sent.
            None => Err(WriteError::Unknown(OriginError::Unreachable("the statement was given up"))),
        }
    }
}

/// One statement.
struct Statement(Origin);

struct Question {
    write: Arc<FencedWrite>,
    asked_at: Instant,
}

impl RoundTrip for Statement {
    type Question = Question;
    /// `None`: not executed, and to be tried alone.
    type Answer = Result<Option<WriteAnswer>, WriteError>;

    async fn make(&self, asked: Vec<Question>) -> Vec<Self::Answer> {
        // Whoever has waited too long is told, and not sent.
        let late: Vec<bool> =
            asked.iter().map(|question| question.asked_at.elapsed() > limits::ORIGIN_WRITE_WAIT).collect();
        let sent: Vec<&FencedWrite> =
            asked.iter().zip(&late).filter(|(_, late)| !**late).map(|(question, _)| &*question.write).collect();
        let outcome = if sent.is_empty() { Ok(Vec::new()) } else { self.0.put_together(&sent).await };
        let mut answers = outcome.map(Vec::into_iter);
        let answer = |late: bool| match &mut answers {
            _ if late => Err(WriteError::NotExecuted(OriginError::Timeout)),
            Ok(answers) => Ok(answers.next().flatten()),
            Err(error) => Err(error.clone()),
        };
        late.into_iter().map(answer).collect()
    }
}
