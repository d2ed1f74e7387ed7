//! Which key is next.

use anyhow::Context;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, Zipf};

use super::options::{Distribution, Options};

/// Draws key numbers.
pub(super) struct Draw {
    order: Order,
    first: u64,
    keys: u64,
    rng: SmallRng,
}

enum Order {
    Uniform,
    Sequential(u64),
    Zipf(Zipf<f64>),
    Written(std::vec::IntoIter<u32>),
}

impl Draw {
    pub(super) fn new(options: &Options) -> anyhow::Result<Self> {
        anyhow::ensure!(options.keys > 0 && options.users > 0, "there is at least one key and one user");
        let order = match (&options.sequence, options.distribution) {
            (Some(path), _) => {
                let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
                let numbers: Vec<u32> = bytes.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four)).collect();
                Order::Written(numbers.into_iter())
            }
            (None, Distribution::Uniform) => Order::Uniform,
            (None, Distribution::Sequential) => Order::Sequential(0),
            (None, Distribution::Zipf(theta)) => Order::Zipf(Zipf::new(options.keys as f64, theta)?),
        };
        let rng = SmallRng::seed_from_u64(options.seed);
        Ok(Self { order, first: options.first_key, keys: options.keys, rng })
    }

    /// The next key; none when a written sequence is over.
    pub(super) fn next(&mut self) -> Option<u64> {
        let offset = match &mut self.order {
            Order::Uniform => self.rng.random_range(0..self.keys),
            Order::Sequential(next) => {
                let key = *next;
                *next = (key + 1) % self.keys;
                key
            }
            Order::Zipf(zipf) => zipf.sample(&mut self.rng) as u64 - 1,
            Order::Written(numbers) => u64::from(numbers.next()?),
        };
        Some(self.first + offset)
    }

    /// Whether a request is one of the `percent` of 100.
    pub(super) fn one_of(&mut self, percent: f64) -> bool {
        percent > 0.0 && self.rng.random_range(0.0..100.0) < percent
    }
}
