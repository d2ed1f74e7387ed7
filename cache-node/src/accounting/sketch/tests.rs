//! The sketch against exact counts: streams drawn by chance, with a printed seed.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const NOW: Moment = Moment::from_nanos(0);

fn costing(cost_ns: u64) -> Amount {
    Amount { requests: 1, bytes: 10, cost_ns }
}

fn seeded() -> StdRng {
    let seed = rand::random();
    println!("seed {seed}");
    StdRng::seed_from_u64(seed)
}

/// A sketch and the truth.
struct Watched {
    sketch: Sketch,
    exact: HashMap<String, Amount>,
}

impl Watched {
    fn new(capacity: usize) -> Self {
        Self { sketch: Sketch::new(capacity), exact: HashMap::new() }
    }

    fn add(&mut self, user: &str, amount: Amount) {
        self.sketch.add(user, amount, NOW);
        self.exact.entry(user.to_owned()).or_default().add(amount);
    }

    fn halve(&mut self) {
        self.sketch.halve();
        self.exact.values_mut().for_each(Amount::halve);
    }

    fn assert_bounds(&self) {
        let sketch = &self.sketch;
        assert!(sketch.counters.len() <= sketch.capacity);
        assert_eq!((sketch.heap.len(), sketch.by_user.len()), (sketch.counters.len(), sketch.counters.len()));
        let bound = sketch.total.cost_ns / sketch.capacity as u64 + 1;
        for counter in &sketch.counters {
            let exact = self.exact[&*counter.user];
            assert!(exact.cost_ns <= counter.amount.cost_ns, "{exact:?} {counter:?}");
            assert!(counter.certain_cost() <= exact.cost_ns && counter.over <= bound, "{exact:?} {counter:?}");
            assert!(counter.amount.requests <= exact.requests && counter.amount.bytes <= exact.bytes);
        }
        for (user, exact) in self.exact.iter().filter(|(_, exact)| exact.cost_ns > bound) {
            assert!(sketch.by_user.contains_key(user.as_str()), "{exact:?} has no counter");
        }
        for place in 1..sketch.heap.len() {
            assert!(sketch.cost_at((place - 1) / 2) <= sketch.cost_at(place));
            assert_eq!(sketch.counters[sketch.heap[place]].place, place);
        }
    }
}

#[test]
fn costs_stay_within_their_bounds_whatever_comes() {
    let mut chance = seeded();
    for capacity in [1, 2, 7, 64] {
        let mut watched = Watched::new(capacity);
        for step in 0..20_000 {
            // The square makes some users far more frequent than others.
            let user = (chance.random::<f64>().powi(2) * 500.0) as u32;
            watched.add(&format!("u{user}"), costing(chance.random_range(1..100_000)));
            if chance.random_ratio(1, 2_000) {
                watched.halve();
            }
            if step % 1_000 == 0 {
                watched.assert_bounds();
            }
        }
        watched.assert_bounds();
    }
}

#[test]
fn a_user_of_more_than_one_in_1024_is_found_among_a_hundred_thousand_in_the_same_memory() {
    let mut watched = Watched::new(1024);
    for number in 0..100_000_u32 {
        watched.add(&format!("one of many {number}"), costing(1_000));
        if number % 900 == 0 {
            watched.add("heavy", costing(1_000));
        }
    }
    watched.assert_bounds();
    assert!(watched.sketch.by_user.contains_key("heavy"));
    assert_eq!(watched.sketch.counters.len(), 1024);
    assert!(watched.sketch.counters.capacity() <= 2048 && watched.sketch.heap.capacity() <= 2048);
    // Users that come and go leave nothing behind in the table of names.
    assert!(watched.sketch.by_user.capacity() <= 4096, "{}", watched.sketch.by_user.capacity());
}

#[test]
fn with_a_counter_for_everybody_nothing_is_uncertain() {
    let mut watched = Watched::new(10);
    for round in 1..=50 {
        for user in 0..10 {
            watched.add(&format!("u{user}"), costing(round * user + 1));
        }
    }
    for counter in watched.sketch.counters() {
        assert_eq!((counter.over, counter.amount), (0, watched.exact[&*counter.user]));
    }
}

#[test]
fn who_stops_is_forgotten_after_enough_halvings_and_makes_room() {
    let mut watched = Watched::new(4);
    watched.add("gone", costing(1_000));
    watched.add("here", costing(1_000_000));
    for _ in 0..10 {
        watched.halve();
    }
    watched.assert_bounds();
    assert_eq!(watched.sketch.counters().iter().map(|counter| &*counter.user).collect::<Vec<_>>(), ["here"]);
    watched.add("new", costing(5));
    assert!(watched.sketch.counters().iter().all(|counter| counter.over == 0));
}
