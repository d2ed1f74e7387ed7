//! Which reads are sampled (protocol U1): of each N in a row one, drawn by chance.
//!
//! By chance, for reads come in turns: every N-th of a cycle whose length divides N would be the same key for ever.
//! The draw is computed from the number of the N reads and a seed, so that no reader waits for another to make it.

use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Counts reads and says which of them are samples.
pub(super) struct Sampling {
    every: u64,
    seed: u64,
    reads: AtomicU64,
    /// What spares most reads the draw: the low [`NUMBER_BITS`] of a sample's number, and above them how many reads before it
    /// are none. It stays true whoever stored it, and when.
    known: AtomicU64,
}

/// A read that is late by as many reads would be taken for another; they take days.
const NUMBER_BITS: u32 = 40;
const NUMBER: u64 = (1 << NUMBER_BITS) - 1;

impl Sampling {
    /// One of `every` reads; 0: none.
    pub(super) fn new(every: u64, seed: u64) -> Self {
        let sampling = Self { every, seed, reads: AtomicU64::new(0), known: AtomicU64::new(0) };
        if every > 0 {
            let first = sampling.draw(0);
            sampling.know(first, first);
        }
        sampling
    }

    /// Whether this read is a sample. From one sample to the next are 1 to 2N − 1 reads, N in the mean.
    pub(super) fn takes_this_read(&self) -> bool {
        if self.every == 0 {
            return false;
        }
        let read = self.reads.fetch_add(1, Ordering::Relaxed);
        let known = self.known.load(Ordering::Relaxed);
        if (1..=known >> NUMBER_BITS).contains(&(known.wrapping_sub(read) & NUMBER)) {
            return false;
        }
        let lot = read / self.every;
        let taken = read == self.draw(lot);
        if taken {
            let next = self.draw(lot.saturating_add(1));
            self.know(next, next.saturating_sub(read + 1));
        }
        taken
    }

    #[cfg(test)]
    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    fn know(&self, sample: u64, none_before: u64) {
        // With draws too far apart for the number's bits, nothing is known.
        let none_before = if self.every < NUMBER / 2 { none_before.min(u64::MAX >> NUMBER_BITS) } else { 0 };
        self.known.store(sample & NUMBER | none_before << NUMBER_BITS, Ordering::Relaxed);
    }

    /// Which read of the lot is the sample.
    fn draw(&self, lot: u64) -> u64 {
        let place = xxh3_64_with_seed(&lot.to_le_bytes(), self.seed) % self.every;
        lot.saturating_mul(self.every).saturating_add(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeded(every: u64) -> Sampling {
        let seed = rand::random();
        println!("seed {seed}");
        Sampling::new(every, seed)
    }

    /// The numbers of the sampled ones among so many reads.
    fn sampled(every: u64, reads: u64) -> Vec<u64> {
        let sampling = seeded(every);
        (0..reads).filter(|_| sampling.takes_this_read()).collect()
    }

    #[test]
    fn every_read_is_sampled_at_one_and_none_at_zero() {
        assert_eq!((sampled(1, 50).len(), sampled(0, 50).len()), (50, 0));
    }

    #[test]
    fn each_so_many_reads_in_a_row_give_one_sample() {
        let lots: Vec<_> = sampled(10, 1000).iter().map(|read| read / 10).collect();
        assert_eq!(lots, Vec::from_iter(0..100));
    }

    #[test]
    fn what_is_known_of_the_next_sample_changes_no_draw() {
        for every in [1, 2, 7, 1000, NUMBER, u64::MAX] {
            let sampling = seeded(every);
            for read in 0..5000 {
                assert_eq!(sampling.takes_this_read(), read == sampling.draw(read / every), "{read} of {every}");
            }
        }
    }

    #[test]
    fn from_one_sample_to_the_next_are_less_than_twice_as_many_reads_and_not_always_as_many() {
        let sampled = sampled(10, 10_000);
        let gaps: Vec<_> = sampled.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (1..=19).contains(gap)), "{gaps:?}");
        assert!(gaps.iter().any(|gap| *gap < 10) && gaps.iter().any(|gap| *gap > 10), "{gaps:?}");
    }

    #[test]
    fn keys_that_are_read_in_turn_are_all_sampled() {
        // That chance leaves one of ten out in 1000 draws: 10 * 0.9^1000, less than 10^-44.
        let mut keys: Vec<_> = sampled(100, 100 * 1000).iter().map(|read| read % 10).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys, Vec::from_iter(0..10));
    }

    #[test]
    fn readers_at_the_same_time_neither_lose_samples_nor_add_any() {
        let sampling = seeded(10);
        let of_one = || (0..10_000).filter(|_| sampling.takes_this_read()).count();
        let of_all: usize = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..4).map(|_| scope.spawn(of_one)).collect();
            readers.into_iter().map(|reader| reader.join().expect("a reader")).sum()
        });
        assert_eq!(of_all, 4000);
    }
}
