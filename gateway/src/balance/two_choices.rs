//! The better of two nodes chosen at random: nearly as even as looking at all, and many gateways do not run to the same one. Pure.

use rand::{Rng, RngExt};

/// Of two places below `count`, which is at least 1, that of lower cost; of equal costs, either as likely.
pub(super) fn choose(count: usize, chance: &mut impl Rng, cost: impl Fn(usize) -> f64) -> usize {
    if count < 2 {
        return 0;
    }
    let first = chance.random_range(0..count);
    let other = chance.random_range(0..count - 1);
    let second = if other < first { other } else { other + 1 };
    if cost(second) < cost(first) { second } else { first }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::balance::tests::assert_even;

    #[test]
    fn equal_nodes_are_chosen_evenly() {
        let mut chance = StdRng::seed_from_u64(11);
        let mut counts = [0; 5];
        (0..10_000).for_each(|_| counts[choose(5, &mut chance, |_| 3.0)] += 1);
        assert_even(&counts);
        assert_eq!(choose(1, &mut chance, |_| 0.0), 0);
    }

    #[test]
    fn requests_that_stay_are_spread_far_better_than_by_chance() {
        let mut chance = StdRng::seed_from_u64(12);
        let mut in_flight = [0_u32; 10];
        for _ in 0..10_000 {
            let place = choose(10, &mut chance, |place| f64::from(in_flight[place]));
            in_flight[place] += 1;
        }
        let (least, most) = (in_flight.iter().min().expect("ten"), in_flight.iter().max().expect("ten"));
        // By chance alone the deviation is 30 and the span about 100.
        assert!(most - least <= 10, "{in_flight:?}");
    }

    #[test]
    fn the_costly_one_is_chosen_only_against_itself() {
        let mut chance = StdRng::seed_from_u64(13);
        let costs = [1.0, 1.0, 1.0, 50.0];
        let mut counts = [0; 4];
        (0..9_000).for_each(|_| counts[choose(4, &mut chance, |place| costs[place])] += 1);
        assert_eq!(counts[3], 0);
        assert_even(&counts[..3]);
    }
}
