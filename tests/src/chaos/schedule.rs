//! Chance fills lanes with faults: when, what, how long. The same seed gives the same list.

use std::fmt;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::SmallRng;

/// One fault at its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned<Fault> {
    /// Since the start of the load.
    pub at: Duration,
    /// How long it lasts.
    pub lasting: Duration,
    /// What is done.
    pub fault: Fault,
}

/// How many faults go on at a time, and how much peace there is between them.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    /// Faults that may go on at a time.
    pub count: usize,
    /// The shortest and the longest time without a fault in a lane, in ms.
    pub lull_ms: (u64, u64),
}

impl<Fault> Planned<Fault> {
    /// Since the start of the load.
    pub fn ends(&self) -> Duration {
        self.at + self.lasting
    }
}

impl<Fault: fmt::Debug> fmt::Display for Planned<Fault> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, lasting, fault } = self;
        write!(out, "{:8.3} s for {:6.3} s: {fault:?}", at.as_secs_f64(), lasting.as_secs_f64())
    }
}

/// Faults in the order of their beginnings. All end before the load does; those of one target do not overlap.
pub fn fill<Fault, Target: PartialEq>(
    chance: &mut SmallRng,
    load: Duration,
    lanes: Lanes,
    mut draw: impl FnMut(&mut SmallRng) -> (Duration, Fault),
    target: impl Fn(&Fault) -> Target,
) -> Vec<Planned<Fault>> {
    let mut faults: Vec<Planned<Fault>> = Vec::new();
    let mut free_at = vec![Duration::ZERO; lanes.count];
    while let Some((lane, free)) = free_at.iter().copied().enumerate().min_by_key(|(_, free)| *free) {
        let at = free + lull(chance, lanes.lull_ms);
        let (lasting, fault) = draw(chance);
        let planned = Planned { at, lasting, fault };
        if at >= load {
            break;
        }
        free_at[lane] = at;
        let collides = |other: &Planned<Fault>| {
            target(&other.fault) == target(&planned.fault) && other.at <= planned.ends() && planned.at <= other.ends()
        };
        if planned.ends() < load && !faults.iter().any(collides) {
            free_at[lane] = planned.ends();
            faults.push(planned);
        }
    }
    faults.sort_by_key(|planned| planned.at);
    faults
}

fn lull(chance: &mut SmallRng, (least, most): (u64, u64)) -> Duration {
    Duration::from_millis(chance.random_range(least..=most))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const LOAD: Duration = Duration::from_secs(60);

    /// The number is the target.
    fn drawn(seed: u64) -> Vec<Planned<u32>> {
        let draw =
            |chance: &mut SmallRng| (Duration::from_millis(chance.random_range(0..6000)), chance.random_range(0..5));
        let lanes = Lanes { count: 2, lull_ms: (100, 2000) };
        fill(&mut SmallRng::seed_from_u64(seed), LOAD, lanes, draw, |fault| *fault)
    }

    #[test]
    fn a_seed_gives_the_same_faults_each_time_and_another_one_others() {
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn faults_of_one_target_do_not_overlap_those_of_two_do_and_all_end_with_the_load() {
        let mut overlaps = 0;
        for seed in 0..50 {
            let faults = drawn(seed);
            for (index, one) in faults.iter().enumerate() {
                assert!(one.ends() < LOAD, "seed {seed}: {one}");
                for other in faults[index + 1..].iter().filter(|other| other.at <= one.ends()) {
                    assert_ne!(one.fault, other.fault, "seed {seed}: {one} and {other}");
                    overlaps += 1;
                }
            }
        }
        assert!(overlaps > 0);
    }
}
