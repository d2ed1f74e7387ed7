//! Slow start: which share of its reads a node gets after it was ejected. Pure.
//!
//! The rest is read past it, from the origin: a node that fails under load does not get all of it back at once.

use std::time::Duration;

/// After how long a node has all its reads again.
pub(crate) const LASTS: Duration = Duration::from_secs(10);
/// The share that it begins with: with none it could not show how it does.
const FIRST: f64 = 0.1;

/// The share of its reads, from [`FIRST`] to 1, that a node gets so long after it came back.
pub(crate) fn share(back_for: Duration) -> f64 {
    let grown = back_for.as_secs_f64() / LASTS.as_secs_f64();
    (FIRST + (1.0 - FIRST) * grown).min(1.0)
}

/// Whether a read is of that share; `chance` is evenly from 0 to 1.
pub(crate) fn takes(share: f64, chance: f64) -> bool {
    share >= 1.0 || chance < share
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn the_share_grows_from_a_tenth_to_all_and_stays() {
        let shares: Vec<f64> = (0..=12).map(|seconds| share(Duration::from_secs(seconds))).collect();
        assert_eq!((shares[0], shares[10], shares[12]), (FIRST, 1.0, 1.0));
        assert!(shares.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(takes(1.0, 1.0) && !takes(0.5, 0.5));
    }

    #[test]
    fn so_many_reads_are_taken_as_the_share_says() {
        let mut chance = StdRng::seed_from_u64(7);
        for seconds in [0, 2, 5, 8] {
            let share = share(Duration::from_secs(seconds));
            let taken = (0..10_000).filter(|_| takes(share, chance.random())).count();
            // Four deviations of a binomial count.
            let slack = 4.0 * (10_000.0 * share * (1.0 - share)).sqrt();
            assert!((taken as f64 - 10_000.0 * share).abs() <= slack, "{taken} of 10000 at {share}");
        }
    }
}
