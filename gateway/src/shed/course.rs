//! From how fast a node answers to how many requests it is given at a time. Pure: time comes in with what was measured.
//!
//! The base is what an answer takes while the node is not busy. As long as answers take at most twice that, the limit grows with
//! its own use; when they take longer, the requests wait for each other at the node, and the limit shrinks in proportion
//! (additive increase, multiplicative decrease; the gradient is that of Netflix' concurrency-limits). The base of a busy node
//! cannot be seen: when it is old and answers are slow, a window with few places shows it (as BBR probes for the round-trip
//! time), so that a node that has become slower for good is not held down.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits;

/// What was measured in one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    /// The mean time to the head of an answer, without the gateway's own delays.
    pub(super) mean: Duration,
    /// Those delays.
    pub(super) own: Duration,
    /// The most places in use at once.
    pub(super) busiest: usize,
}

/// How the limit got here.
#[derive(Debug)]
pub(super) struct Course {
    limit: f64,
    /// In seconds, with the moment it was last seen; `None`: not yet.
    base: Option<(f64, Instant)>,
    /// What the limit was before this window, in which there are few places.
    probing: Option<f64>,
}

/// So many times the base an answer may take.
const SLOW: f64 = 2.0;
/// What answers take for many reasons beside load, in seconds.
const NEVER_SLOW: f64 = 0.001;
/// The most that one window takes away.
const SHRINK_MAX: f64 = 0.7;
/// How fast the base follows the windows of a node that is not busy.
const BASE_WEIGHT: f64 = 0.1;

impl Course {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit as f64, base: None, probing: None }
    }

    /// The limit from now on.
    pub(super) fn next(&mut self, window: Window, now: Instant) -> usize {
        let mean = window.mean.as_secs_f64();
        if let Some(limit) = self.probing.take() {
            self.base = Some((mean, now));
            self.limit = limit;
        } else {
            let (base, seen) = *self.base.get_or_insert((mean, now));
            let busy = window.busiest as f64 >= self.limit / 2.0;
            let slow = mean > (SLOW * base).max(NEVER_SLOW);
            match (busy, slow) {
                (false, _) => self.base = Some((base.min(mean) + BASE_WEIGHT * (mean - base).max(0.0), now)),
                (true, false) => {
                    self.limit += self.limit.sqrt();
                    if mean <= base {
                        self.base = Some((mean, now));
                    }
                }
                // Who is late is the gateway itself: a refusal costs it nearly as much as an answer, and would help nobody.
                (true, true) if window.own >= window.mean => {}
                (true, true) if now.saturating_duration_since(seen) >= limits::CONCURRENCY_BASE_MAX_AGE => {
                    self.probing = Some(self.limit);
                    self.limit = limits::CONCURRENCY_MIN as f64;
                }
                (true, true) => self.limit *= (SLOW * base / mean).max(SHRINK_MAX),
            }
        }
        self.limit = self.limit.clamp(limits::CONCURRENCY_MIN as f64, limits::CONCURRENCY_MAX as f64);
        self.limit as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that works on so many requests at once, each for so long; the others wait.
    struct Node {
        at_once: usize,
        takes: Duration,
    }

    impl Node {
        /// The mean time of an answer while so many are asked for at a time.
        fn mean(&self, in_progress: usize) -> Duration {
            self.takes.mul_f64((in_progress as f64 / self.at_once as f64).max(1.0))
        }
    }

    /// Limits from window to window while so many want to be in progress.
    fn run(
        course: &mut Course,
        node: &Node,
        demand: impl Fn(usize) -> usize,
        windows: std::ops::Range<usize>,
    ) -> Vec<usize> {
        let begin = Instant::now();
        windows
            .map(|number| {
                let busiest = demand(number).min(course.limit as usize);
                let now = begin + limits::CONCURRENCY_WINDOW * number as u32;
                course.next(Window { mean: node.mean(busiest), own: Duration::ZERO, busiest }, now)
            })
            .collect()
    }

    #[test]
    fn an_overloaded_node_is_given_about_what_doubles_its_time_and_that_for_long() {
        let node = Node { at_once: 20, takes: Duration::from_millis(10) };
        let mut course = Course::new(limits::CONCURRENCY_FIRST);
        // Quiet at first, then three times what it can do wants to be in progress, and more every second.
        let limits = run(&mut course, &node, |number| if number < 50 { 5 } else { 3 * 40 + number }, 0..6000);
        let settled = &limits[80..];
        let within = |limit: &&usize| node.mean(**limit) <= node.takes * 3;
        assert!(settled.iter().all(|limit| within(&limit)), "{:?}", settled.iter().max());
        let mean = settled.iter().sum::<usize>() / settled.len();
        assert!((20..=50).contains(&mean), "{mean}: it has something to do all the time");
    }

    #[test]
    fn a_healthy_node_is_never_in_the_way_x() {
        let node = Node { at_once: 100_000, takes: Duration::from_millis(4) };
        let mut course = Course::new(limits::CONCURRENCY_FIRST);
        let demand = |number: usize| (20.0 * 1.5f64.powf(number as f64 / 10.0)).min(900.0) as usize;
        let limits = run(&mut course, &node, demand, 0..600);
        let short: Vec<_> = limits.iter().enumerate().filter(|(number, limit)| demand(number + 1) > **limit).collect();
        assert_eq!(short, []);
    }

    fn window(mean_us: u64, own_us: u64, busiest: usize) -> Window {
        Window { mean: Duration::from_micros(mean_us), own: Duration::from_micros(own_us), busiest }
    }

    #[test]
    fn a_gateway_that_is_late_itself_does_not_hold_its_nodes_back() {
        let mut course = Course::new(limits::CONCURRENCY_FIRST);
        let now = Instant::now();
        course.next(window(2000, 0, 3), now);
        let busy = |course: &mut Course, own_us| course.next(window(9000, own_us, limits::CONCURRENCY_FIRST), now);
        assert_eq!(busy(&mut course, 9000), limits::CONCURRENCY_FIRST);
        assert!(busy(&mut course, 1000) < limits::CONCURRENCY_FIRST);
    }

    #[test]
    fn hits_of_less_than_a_millisecond_are_never_slow() {
        let mut course = Course::new(limits::CONCURRENCY_FIRST);
        let now = Instant::now();
        course.next(window(80, 0, 3), now);
        let limit = course.next(window(900, 0, limits::CONCURRENCY_FIRST), now);
        assert!(limit > limits::CONCURRENCY_FIRST);
    }

    #[test]
    fn a_node_that_has_become_slower_for_good_is_given_work_again() {
        let mut course = Course::new(limits::CONCURRENCY_FIRST);
        run(&mut course, &Node { at_once: 1000, takes: Duration::from_millis(2) }, |_| 30, 0..20);
        let slower = Node { at_once: 1000, takes: Duration::from_millis(20) };
        let limits = run(&mut course, &slower, |_| 300, 20..1000);
        assert_eq!(limits.iter().min(), Some(&limits::CONCURRENCY_MIN));
        assert!(limits.last() > Some(&300), "{:?}", limits.last());
    }

    #[test]
    fn the_limit_keeps_its_bounds_whatever_is_measured() {
        let mut course = Course::new(limits::CONCURRENCY_FIRST);
        let now = Instant::now();
        for (mean, busiest) in [(0, 0), (u64::MAX, usize::MAX), (0, usize::MAX), (1, 1)].into_iter().cycle().take(5000)
        {
            let limit = course.next(Window { mean: Duration::from_nanos(mean), own: Duration::ZERO, busiest }, now);
            assert!((limits::CONCURRENCY_MIN..=limits::CONCURRENCY_MAX).contains(&limit), "{limit}");
        }
    }
}
