//! Which node gets a request that needs no owner: a list, a detached read, a hedge.
//!
//! The policies are pure, each in a file of its own. Whatever the policy, a node that looks sick comes after all that look well.

pub(crate) mod peak_ewma;
mod smooth;
mod two_choices;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::ring_view::{NodeView, RingView};
use crate::upstream::Upstream;

/// How a node is chosen among those that look well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Balance {
    /// One after the other.
    RoundRobin,
    /// One after the other, each as often as its weight says, spread as evenly as can be.
    Weighted,
    /// Of two chosen at random, the one with fewer requests under way.
    #[default]
    LeastRequests,
    /// Any, each as likely.
    Random,
    /// Of two chosen at random, the one where waiting costs less: its latency, peaks first, times its requests under way.
    LatencyAware,
}

/// Chooses by one policy.
#[derive(Debug)]
pub(crate) struct Balancer {
    policy: Balance,
    turn: AtomicUsize,
    /// Two choices by the smooth round robin at a time would spend the same credit twice.
    choosing: Mutex<()>,
}

impl Balancer {
    pub(crate) fn new(policy: Balance) -> Self {
        Self { policy, turn: AtomicUsize::new(0), choosing: Mutex::new(()) }
    }

    /// All nodes but `not`, in the order in which they are to be asked.
    pub(crate) fn order(&self, view: &RingView, not: Option<&Arc<Upstream>>) -> Vec<Arc<Upstream>> {
        let others = view.nodes().iter().filter(|node| not.is_none_or(|not| !Arc::ptr_eq(not, &node.upstream)));
        let mut left: Vec<&NodeView> = others.collect();
        rand::seq::SliceRandom::shuffle(left.as_mut_slice(), &mut rand::rng());
        left.sort_by_key(|node| sickness(node));
        // The policy decides who is first; who follows matters only where that one fails.
        let best = left.first().map(|node| sickness(node));
        let candidates = left.iter().take_while(|node| Some(sickness(node)) == best).count();
        if candidates > 1 {
            let first = self.choose(view, &left[..candidates]);
            left[..=first].rotate_right(1);
        }
        left.into_iter().map(|node| Arc::clone(&node.upstream)).collect()
    }

    /// The place of the chosen one; there are two candidates at least, in an order of chance.
    fn choose(&self, view: &RingView, candidates: &[&NodeView]) -> usize {
        let in_flight = |place: usize| candidates[place].upstream.load().in_flight();
        match self.policy {
            Balance::RoundRobin => {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed) % candidates.len();
                // The turn goes by name: chance has mixed the candidates.
                let mut places: Vec<usize> = (0..candidates.len()).collect();
                places.sort_by_key(|place| &candidates[*place].id);
                places[turn]
            }
            Balance::Weighted => self.choose_by_weight(view, candidates),
            Balance::LeastRequests => {
                two_choices::choose(candidates.len(), &mut rand::rng(), |place| in_flight(place) as f64)
            }
            Balance::Random => 0,
            Balance::LatencyAware => two_choices::choose(candidates.len(), &mut rand::rng(), |place| {
                candidates[place].upstream.load().peak.cost(in_flight(place))
            }),
        }
    }

    fn choose_by_weight(&self, view: &RingView, candidates: &[&NodeView]) -> usize {
        let weights: Vec<u32> = candidates.iter().map(|node| view.weight(node).into()).collect();
        let credits = || candidates.iter().map(|node| &node.upstream.load().credit);
        let _one_at_a_time = self.choosing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut present: Vec<i64> = credits().map(|credit| credit.load(Ordering::Relaxed)).collect();
        let chosen = smooth::choose(&mut present, &weights);
        for (credit, present) in credits().zip(present) {
            credit.store(present, Ordering::Relaxed);
        }
        chosen
    }
}

/// The lease says more than what this gateway has met, and a node that answers is better than one that does not.
fn sickness(node: &NodeView) -> (bool, bool, bool) {
    let standing = node.upstream.standing();
    (!node.up, standing.is_silent(), standing.is_ejected())
}

#[cfg(test)]
mod tests;
