//! A seed becomes a list of faults: when, what, how long. Pure; the same seed gives the same list.
//!
//! Two faults go on at a time, of different targets, and beside them one change of the ring after the other.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use tests::chaos::schedule::{self, Lanes};
use tests::chaos::settings;

use crate::fault::Fault;

const FAULTS: Lanes = Lanes { count: 2, lull_ms: (100, 2500) };
const CHANGES: Lanes = Lanes { count: 1, lull_ms: (200, 2500) };

/// One fault at its time.
pub(crate) type Planned = schedule::Planned<Fault>;

/// All that chance decides of a run but for the clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Settings of every program.
    pub(crate) env: Vec<(String, String)>,
    /// In the order of their beginnings; no fault lasts beyond the load.
    pub(crate) faults: Vec<Planned>,
}

/// The schedule of a run with so much load.
pub(crate) fn draw(seed: u64, load: Duration) -> Schedule {
    let mut chance = SmallRng::seed_from_u64(seed);
    let settings = settings::draw(&mut chance).into_iter();
    let env = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let with_length = |fault: Fault, chance: &mut SmallRng| (fault.draw_length(chance), fault);
    let fault = |chance: &mut SmallRng| with_length(Fault::draw(chance), chance);
    let change = |chance: &mut SmallRng| with_length(Fault::draw_change(chance), chance);
    let mut faults = schedule::fill(&mut chance, load, FAULTS, fault, Fault::target);
    faults.extend(schedule::fill(&mut chance, load, CHANGES, change, Fault::target));
    faults.sort_by_key(|planned| planned.at);
    Schedule { env, faults }
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
        assert_eq!(kinds.len(), 24, "{kinds:?}");
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
}
