//! Who costs most, in memory that does not grow with the number of users: Space-Saving with weights.
//!
//! A. Metwally, D. Agrawal, A. El Abbadi, "Efficient computation of frequent and top-k elements in data streams" (2005): a user
//! without a counter takes over the smallest one, and what that one held counts as the newcomer's. So a counter is never below
//! the user's true cost, never more above it than `total / counters`, and a user of a larger share always has one.

use std::collections::HashMap;
use std::sync::Arc;

use super::cost::Amount;
use crate::clock::Moment;

/// The counters and what all users together came to.
pub(super) struct Sketch {
    capacity: usize,
    counters: Vec<Counter>,
    /// Numbers of counters; a parent costs no more than its children, so that the smallest is the first.
    heap: Vec<usize>,
    by_user: HashMap<Arc<str>, usize>,
    total: Amount,
}

/// One user's counter.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    pub(super) user: Arc<str>,
    /// Its cost has `over` in it; requests and bytes are the user's alone, since the counter is its.
    pub(super) amount: Amount,
    /// How much of the cost may be that of users before it.
    pub(super) over: u64,
    /// Since when the counter is the user's.
    pub(super) since: Moment,
    /// Where the heap has it.
    place: usize,
}

impl Counter {
    /// What the user has cost for certain.
    pub(super) fn certain_cost(&self) -> u64 {
        self.amount.cost_ns.saturating_sub(self.over)
    }
}

impl Sketch {
    /// With so many counters, at least one.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            counters: Vec::new(),
            heap: Vec::new(),
            by_user: HashMap::new(),
            total: Amount::default(),
        }
    }

    /// All users together, those without a counter too.
    pub(super) fn total(&self) -> Amount {
        self.total
    }

    pub(super) fn counters(&self) -> &[Counter] {
        &self.counters
    }

    /// Adds to what the user came to.
    pub(super) fn add(&mut self, user: &str, amount: Amount, now: Moment) {
        self.total.add(amount);
        if let Some(&number) = self.by_user.get(user) {
            self.counters[number].amount.add(amount);
            self.sift_down(self.counters[number].place);
        } else if self.counters.len() < self.capacity {
            self.begin(user, amount, now);
        } else {
            self.take_over_smallest(user, amount, now);
        }
    }

    /// Halves what everybody came to: what is old counts less and less. Counters that come to nothing are given up.
    pub(super) fn halve(&mut self) {
        self.total.halve();
        for counter in &mut self.counters {
            counter.amount.halve();
            // Rounded up, so that what is certain stays so.
            counter.over = counter.over.div_ceil(2);
        }
        // Halving keeps the order: the smallest is still the first.
        if self.heap.first().is_some_and(|&smallest| self.counters[smallest].amount.cost_ns == 0) {
            self.counters.retain(|counter| counter.amount.cost_ns > 0);
            self.order_anew();
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.capacity);
    }

    fn begin(&mut self, user: &str, amount: Amount, since: Moment) {
        let (user, number, place): (Arc<str>, _, _) = (user.into(), self.counters.len(), self.heap.len());
        self.by_user.insert(Arc::clone(&user), number);
        self.counters.push(Counter { user, amount, over: 0, since, place });
        self.heap.push(number);
        self.sift_up(place);
    }

    fn take_over_smallest(&mut self, user: &str, amount: Amount, since: Moment) {
        let number = self.heap[0];
        let counter = &mut self.counters[number];
        self.by_user.remove(&counter.user);
        let (user, over): (Arc<str>, _) = (user.into(), counter.amount.cost_ns);
        let cost_ns = over.saturating_add(amount.cost_ns);
        *counter = Counter { user: Arc::clone(&user), amount: Amount { cost_ns, ..amount }, over, since, place: 0 };
        self.by_user.insert(user, number);
        self.sift_down(0);
    }

    fn order_anew(&mut self) {
        let mut heap: Vec<usize> = (0..self.counters.len()).collect();
        heap.sort_by_key(|&number| self.counters[number].amount.cost_ns);
        for (place, &number) in heap.iter().enumerate() {
            self.counters[number].place = place;
        }
        self.by_user =
            self.counters.iter().enumerate().map(|(number, counter)| (Arc::clone(&counter.user), number)).collect();
        self.heap = heap;
    }

    fn cost_at(&self, place: usize) -> u64 {
        self.counters[self.heap[place]].amount.cost_ns
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for place in [one, other] {
            self.counters[self.heap[place]].place = place;
        }
    }

    fn sift_up(&mut self, mut place: usize) {
        while place > 0 && self.cost_at(place) < self.cost_at((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    fn sift_down(&mut self, mut place: usize) {
        loop {
            let children = (2 * place + 1..2 * place + 3).filter(|&child| child < self.heap.len());
            let Some(smaller) = children.min_by_key(|&child| self.cost_at(child)) else { return };
            if self.cost_at(place) <= self.cost_at(smaller) {
                return;
            }
            self.swap(place, smaller);
            place = smaller;
        }
    }
}

#[cfg(test)]
mod tests;
