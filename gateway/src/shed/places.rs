//! The places for requests of one kind at one node, and the queue before them.
//!
//! First come, first served: the queue is so short (a quarter of the places) that nobody in it waits for longer than about a
//! quarter of what a request takes; where newest first would help, the wait is over.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::Refused;
use super::course::{Course, Window};
use super::own_delay::OwnDelay;
use crate::limits;

/// All places. What is taken and what is free together are `limit` and `surplus`.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    pub(super) limit: AtomicUsize,
    /// How many of those that are taken are not to come back.
    surplus: AtomicUsize,
    waiting: AtomicUsize,
    measured: Option<Measured>,
}

/// What is known of the node since the limit was set last.
#[derive(Debug)]
struct Measured {
    since: Instant,
    /// When the window ends, in nanoseconds from `since`.
    ends_ns: AtomicU64,
    answers: AtomicU64,
    took_ns: AtomicU64,
    busiest: AtomicUsize,
    course: Mutex<Course>,
    own_delay: OwnDelay,
}

/// A place at a node. Dropping it gives it back, or away if there are fewer now.
pub(crate) struct Place {
    places: Arc<Places>,
    permit: Option<OwnedSemaphorePermit>,
    began: Instant,
}

/// One in the queue.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Places {
    pub(super) fn new(limit: usize, own_delay: Option<OwnDelay>) -> Self {
        let measured = |own_delay| Measured {
            since: Instant::now(),
            ends_ns: AtomicU64::new(nanoseconds(limits::CONCURRENCY_WINDOW)),
            answers: AtomicU64::default(),
            took_ns: AtomicU64::default(),
            busiest: AtomicUsize::default(),
            course: Mutex::new(Course::new(limit)),
            own_delay,
        };
        Self {
            free: Arc::new(Semaphore::new(limit)),
            limit: AtomicUsize::new(limit),
            surplus: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            measured: own_delay.map(measured),
        }
    }

    /// A place that is free, unless somebody waits for it.
    pub(super) fn try_take(places: &Arc<Self>) -> Option<Place> {
        let permit = Arc::clone(&places.free).try_acquire_owned().ok()?;
        Some(places.taken(permit))
    }

    /// The next place that is given back, within a bounded wait in a bounded queue.
    pub(super) async fn wait(places: &Arc<Self>) -> Result<Place, Refused> {
        let queue = places.limit.load(Ordering::Relaxed).div_ceil(limits::CONCURRENCY_QUEUE_SHARE);
        let waiting = Waiting(&places.waiting);
        if waiting.0.fetch_add(1, Ordering::Relaxed) >= queue {
            return Err(Refused::queue_full);
        }
        let permit = timeout(limits::CONCURRENCY_WAIT, Arc::clone(&places.free).acquire_owned()).await;
        // The semaphore is never closed.
        permit.ok().and_then(Result::ok).map(|permit| places.taken(permit)).ok_or(Refused::waited)
    }

    fn taken(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Place {
        if let Some(measured) = &self.measured {
            measured.busiest.fetch_max(self.in_use(), Ordering::Relaxed);
        }
        Place { places: Arc::clone(self), permit: Some(permit), began: Instant::now() }
    }

    fn in_use(&self) -> usize {
        let all = self.limit.load(Ordering::Relaxed) + self.surplus.load(Ordering::Relaxed);
        all.saturating_sub(self.free.available_permits())
    }

    fn note_answer(&self, measured: &Measured, took: Duration) {
        measured.took_ns.fetch_add(nanoseconds(took), Ordering::Relaxed);
        let answers = measured.answers.fetch_add(1, Ordering::Relaxed) + 1;
        let now = Instant::now();
        let passed = nanoseconds(now.saturating_duration_since(measured.since));
        if answers < limits::CONCURRENCY_WINDOW_ANSWERS || passed < measured.ends_ns.load(Ordering::Relaxed) {
            return;
        }
        // Whoever comes meanwhile counts for the next window.
        let Ok(mut course) = measured.course.try_lock() else { return };
        let answers = measured.answers.swap(0, Ordering::Relaxed);
        let took_ns = measured.took_ns.swap(0, Ordering::Relaxed);
        if answers == 0 {
            return;
        }
        let own = measured.own_delay.of_an_answer();
        let window = Window {
            mean: Duration::from_nanos(took_ns / answers).saturating_sub(own),
            own,
            busiest: measured.busiest.swap(0, Ordering::Relaxed),
        };
        measured.ends_ns.store(passed + nanoseconds(limits::CONCURRENCY_WINDOW), Ordering::Relaxed);
        let limit = course.next(window, now);
        self.resize(limit);
    }

    /// Called by one at a time.
    fn resize(&self, limit: usize) {
        let before = self.limit.swap(limit, Ordering::Relaxed);
        if limit >= before {
            let mut more = limit - before;
            while more > 0 && self.forgive_one() {
                more -= 1;
            }
            self.free.add_permits(more);
        } else {
            let fewer = before - limit;
            // Counted first: a place that comes back meanwhile goes away, and is not missed twice.
            self.surplus.fetch_add(fewer, Ordering::AcqRel);
            for _ in 0..fewer {
                let Ok(free) = self.free.try_acquire() else { return };
                if self.forgive_one() {
                    free.forget();
                }
            }
        }
    }

    /// Whether a place was to go and may stay.
    fn forgive_one(&self) -> bool {
        self.surplus.try_update(Ordering::AcqRel, Ordering::Acquire, |surplus| surplus.checked_sub(1)).is_ok()
    }
}

impl Place {
    /// The node has answered: how long that took says how much it has to do.
    pub(crate) fn answered(&self) {
        if let Some(measured) = &self.places.measured {
            self.places.note_answer(measured, self.began.elapsed());
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take()
            && self.places.forgive_one()
        {
            permit.forget();
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
impl Places {
    /// How many are free and nobody's, how many wait.
    pub(super) fn free_and_waiting(&self) -> (usize, usize) {
        (self.free.available_permits(), self.waiting.load(Ordering::Relaxed))
    }

    pub(super) fn resize_for_test(&self, limit: usize) {
        self.resize(limit);
    }
}
