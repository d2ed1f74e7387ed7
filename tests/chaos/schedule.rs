//! A seed becomes a list of faults: when, what, how long. Pure; the same seed gives the same list.
//!
//! Two faults go on at a time, of different targets, and beside them one change of the ring after the other.

use std::fmt;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::fault::{Fault, draw_env};

/// Faults that may go on at a time.
const LANES: usize = 2;
/// The shortest and the longest time without a fault in a lane, in ms.
const LULL_MS: (u64, u64) = (100, 2500);
/// The same between two changes of the ring.
const CHANGE_LULL_MS: (u64, u64) = (200, 2500);

/// One fault at its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    /// Since the start of the load.
    pub(crate) at: Duration,
    pub(crate) lasting: Duration,
    pub(crate) fault: Fault,
}

/// All that chance decides of a run but for the clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Settings of every program.
    pub(crate) env: Vec<(String, String)>,
    /// In the order of their beginnings; no fault lasts beyond the load.
    pub(crate) faults: Vec<Planned>,
}

impl Planned {
    pub(crate) fn ends(&self) -> Duration {
        self.at + self.lasting
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, lasting, fault } = self;
        write!(out, "{:8.3} s for {:6.3} s: {fault:?}", at.as_secs_f64(), lasting.as_secs_f64())
    }
}

/// The schedule of a run with so much load.
pub(crate) fn draw(seed: u64, load: Duration) -> Schedule {
    let mut chance = SmallRng::seed_from_u64(seed);
    let env = draw_env(&mut chance);
    let mut faults = Vec::new();
    let mut free_at = [Duration::ZERO; LANES];
    while let Some((lane, free)) = free_at.iter().copied().enumerate().min_by_key(|(_, free)| *free) {
        let at = free + lull(&mut chance, LULL_MS);
        let fault = Fault::draw(&mut chance);
        let planned = Planned { at, lasting: fault.draw_length(&mut chance), fault };
        if at >= load {
            break;
        }
        free_at[lane] = at;
        if planned.ends() < load && !faults.iter().any(|other| collide(other, &planned)) {
            free_at[lane] = planned.ends();
            faults.push(planned);
        }
    }
    let mut at = lull(&mut chance, CHANGE_LULL_MS);
    while at < load {
        let fault = Fault::draw_change(&mut chance);
        let planned = Planned { at, lasting: fault.draw_length(&mut chance), fault };
        at = planned.ends() + lull(&mut chance, CHANGE_LULL_MS);
        faults.extend((planned.ends() < load).then_some(planned));
    }
    faults.sort_by_key(|planned| planned.at);
    Schedule { env, faults }
}

fn lull(chance: &mut SmallRng, (least, most): (u64, u64)) -> Duration {
    Duration::from_millis(chance.random_range(least..=most))
}

fn collide(one: &Planned, other: &Planned) -> bool {
    one.fault.target() == other.fault.target() && one.at <= other.ends() && other.at <= one.ends()
}

mod checks {
    use std::collections::BTreeSet;

    use super::*;

    const LOAD: Duration = Duration::from_secs(60);
    const SEEDS: u64 = 50;

    fn all() -> impl Iterator<Item = Planned> {
        (0..SEEDS).flat_map(|seed| draw(seed, LOAD).faults)
    }

    #[test]
    fn a_seed_gives_the_same_schedule_each_time_and_another_one_another() {
        assert_eq!(draw(7, LOAD), draw(7, LOAD));
        assert_ne!(draw(7, LOAD), draw(8, LOAD));
    }

    #[test]
    fn every_kind_of_fault_occurs() {
        let kinds: BTreeSet<_> = all().map(|planned| planned.fault.kind()).collect();
        assert_eq!(kinds.len(), 23, "{kinds:?}");
    }

    #[test]
    fn every_link_process_and_end_of_a_change_occurs() {
        let targets: BTreeSet<_> = all().map(|planned| format!("{:?}", planned.fault.target())).collect();
        // Processes: 6 + 2 + 2; links: 3 of each node, 2 of gateways, 1 of migrators; Redis, Postgres, the ring.
        assert_eq!(targets.len(), 10 + 18 + 2 + 1 + 3, "{targets:?}");
        let changes = all().filter_map(|planned| match planned.fault {
            Fault::Change { verb, ending, .. } => Some(format!("{verb:?} {ending:?}")),
            _ => None,
        });
        assert_eq!(changes.collect::<BTreeSet<_>>().len(), 16);
    }

    #[test]
    fn faults_of_one_target_do_not_overlap_those_of_two_do_and_all_end_with_the_load() {
        let mut overlaps = 0;
        for seed in 0..SEEDS {
            let faults = draw(seed, LOAD).faults;
            for (index, one) in faults.iter().enumerate() {
                assert!(one.ends() < LOAD, "{one}");
                for other in &faults[index + 1..] {
                    assert!(!collide(one, other), "seed {seed}: {one} and {other}");
                    overlaps += usize::from(other.at < one.ends());
                }
            }
        }
        assert!(overlaps > 0);
    }
}
