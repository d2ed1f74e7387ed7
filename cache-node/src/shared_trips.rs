//! Questions that come while others are on their way share the next round trip.
//!
//! No timer: while fewer trips are under way than allowed, a question goes at once; else it waits, and the next trip takes
//! along whatever waits by then. Nobody gets the answer of a trip that began before he asked (G3). Not here: what is asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

/// One round trip for several questions.
pub(crate) trait RoundTrip: Send + Sync + 'static {
    type Question: Send;
    type Answer: Send;

    /// An answer to each question, in their order; bounded in time by itself.
    fn make(&self, questions: Vec<Self::Question>) -> impl Future<Output = Vec<Self::Answer>> + Send;
}

/// How much may be on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Trips at the same time.
    pub(crate) trips: usize,
    /// Questions of one trip.
    pub(crate) questions: usize,
    /// Questions that wait for a trip.
    pub(crate) waiting: usize,
}

/// The questions to one server, and the trips that carry them.
pub(crate) struct SharedTrips<T: RoundTrip> {
    trip: T,
    bounds: Bounds,
    state: Mutex<State<T>>,
    /// Owns the tasks that travel: each ends when nobody waits any more.
    tasks: TaskTracker,
}

struct State<T: RoundTrip> {
    waiting: VecDeque<(T::Question, oneshot::Sender<T::Answer>)>,
    under_way: usize,
}

/// A question that was asked. May be dropped at any time: nobody else notices.
pub(crate) struct Asked<A>(oneshot::Receiver<A>);

impl<A> Asked<A> {
    /// `None`: too many questions wait, or the trip was given up.
    pub(crate) async fn answer(self) -> Option<A> {
        self.0.await.ok()
    }
}

impl<T: RoundTrip> SharedTrips<T> {
    pub(crate) fn new(trip: T, bounds: Bounds, tasks: TaskTracker) -> Arc<Self> {
        let state = Mutex::new(State { waiting: VecDeque::new(), under_way: 0 });
        Arc::new(Self { trip, bounds, state, tasks })
    }

    /// Asks a question. A trip that takes it along begins after this call.
    pub(crate) fn ask(self: &Arc<Self>, question: T::Question) -> Asked<T::Answer> {
        let (to, answer) = oneshot::channel();
        self.enqueue(std::iter::once((question, to)));
        Asked(answer)
    }

    /// Asks many at once: they share a trip as far as one has room for them.
    pub(crate) fn ask_all(self: &Arc<Self>, questions: impl IntoIterator<Item = T::Question>) -> Vec<Asked<T::Answer>> {
        let (asked, answers): (Vec<_>, Vec<_>) = questions
            .into_iter()
            .map(|question| {
                let (to, answer) = oneshot::channel();
                ((question, to), Asked(answer))
            })
            .unzip();
        self.enqueue(asked.into_iter());
        answers
    }

    /// In one critical section, so that no trip leaves with a part of them. Those beyond the bound get no answer.
    fn enqueue(self: &Arc<Self>, asked: impl Iterator<Item = (T::Question, oneshot::Sender<T::Answer>)>) {
        let mut state = self.lock();
        let room = self.bounds.waiting.saturating_sub(state.waiting.len());
        state.waiting.extend(asked.take(room));
        let travels = state.under_way < self.bounds.trips && !state.waiting.is_empty();
        state.under_way += usize::from(travels);
        drop(state);
        if travels {
            self.tasks.spawn(Turn { of: Arc::clone(self), over: false }.travel());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The questions of one trip, and whom each answer is for.
struct Trip<T: RoundTrip> {
    questions: Vec<T::Question>,
    askers: Vec<oneshot::Sender<T::Answer>>,
}

/// One of the turns to travel.
struct Turn<T: RoundTrip> {
    of: Arc<SharedTrips<T>>,
    over: bool,
}

impl<T: RoundTrip> Turn<T> {
    /// One trip after the other as long as anybody waits.
    async fn travel(mut self) {
        // Whoever is about to ask in the same turn of the scheduler comes along.
        tokio::task::yield_now().await;
        while let Some(Trip { questions, askers }) = self.next_trip() {
            let answers = self.of.trip.make(questions).await;
            for (asker, answer) in askers.into_iter().zip(answers) {
                // Whoever has gone away needs none.
                let _ = asker.send(answer);
            }
        }
    }

    /// What the next trip takes along. `None` when nobody waits: the turn is over in the same critical section, so that the
    /// next to ask begins another.
    fn next_trip(&mut self) -> Option<Trip<T>> {
        let mut state = self.of.lock();
        let (mut questions, mut askers) = (Vec::new(), Vec::new());
        while questions.len() < self.of.bounds.questions
            && let Some((question, asker)) = state.waiting.pop_front()
        {
            // A question whose asker has gone away is not sent.
            if !asker.is_closed() {
                questions.push(question);
                askers.push(asker);
            }
        }
        if questions.is_empty() {
            state.under_way -= 1;
            self.over = true;
            return None;
        }
        Some(Trip { questions, askers })
    }
}

impl<T: RoundTrip> Drop for Turn<T> {
    /// A turn that was given up half-way leaves nobody waiting for ever.
    fn drop(&mut self) {
        if !self.over {
            let mut state = self.of.lock();
            state.under_way -= 1;
            if state.under_way == 0 {
                state.waiting.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests;
