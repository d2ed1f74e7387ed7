//! What can be done to the stack, to whom and for how long: the values that chance chooses among. Pure.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tests::chaos::ring_change::{self, Ending, Verb};
use tests::chaos::schedule::{self, Lanes, Planned};
use tests::chaos::settings;

/// Nodes of the stack.
pub(crate) const NODES: usize = 5;
/// Gateways of the stack.
pub(crate) const GATEWAYS: usize = 2;
/// Failure controllers of the stack.
pub(crate) const CONTROLLERS: usize = 2;
/// How long a node that is down is given to come back.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// The longest lease that the settings allow.
const LEASE_MAX: Duration = Duration::from_secs(3);

const FAULTS: Lanes = Lanes { count: 2, lull_ms: (200, 2500) };
const CHANGES: Lanes = Lanes { count: 1, lull_ms: (500, 4000) };

/// One container that runs all the time; numbers begin with 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    Node(usize),
    Gateway(usize),
    Controller(usize),
    Redis,
    Postgres,
}

/// One network: its server is on it, and all who call that server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    Database,
    L2,
    /// Where this node is called by gateways, controllers, migrators and other nodes.
    Peers(usize),
}

/// One thing done to the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Killed, and started again at the end.
    Kill(Who),
    /// Frozen until the end.
    Pause(Who),
    /// Stopped in order, and started again at the end.
    Stop(Who),
    /// The same by one command of the engine, at once.
    Restart(Who),
    /// Off this network until the end.
    Cut(Who, Network),
    /// Off all networks but the one where clients come in, until the end.
    Isolate(Who),
    /// All entries of Redis are gone at once.
    Flush,
    /// A change of the ring, its migrator killed after the time, or not.
    Change { verb: Verb, pick: usize, ending: Ending },
}

/// What a fault is done to: two faults of one target do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Container(Who),
    Ring,
}

/// All that chance decides of a run but for the clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Settings of every node.
    pub(crate) settings: Vec<(&'static str, &'static str)>,
    /// In the order of their beginnings; none lasts beyond the load.
    pub(crate) faults: Vec<Planned<Fault>>,
}

impl Schedule {
    /// The schedule of a run with so much load.
    pub(crate) fn draw(seed: u64, load: Duration) -> Self {
        let mut chance = SmallRng::seed_from_u64(seed);
        let settings = settings::draw(&mut chance);
        let mut faults = schedule::fill(&mut chance, load, FAULTS, draw_fault, Fault::target);
        faults.extend(schedule::fill(&mut chance, load, CHANGES, draw_change, Fault::target));
        faults.sort_by_key(|planned| planned.at);
        Self { settings, faults }
    }
}

impl Who {
    /// Everybody.
    pub(crate) fn all() -> Vec<Self> {
        let nodes = (1..=NODES).map(Self::Node);
        let gateways = (1..=GATEWAYS).map(Self::Gateway);
        let controllers = (1..=CONTROLLERS).map(Self::Controller);
        nodes.chain(gateways).chain(controllers).chain([Self::Redis, Self::Postgres]).collect()
    }

    /// Where it calls others, or is called; the gateways' network for clients, which is never cut, is not among them.
    pub(crate) fn networks(self) -> Vec<Network> {
        let peers = (1..=NODES).map(Network::Peers);
        match self {
            Self::Node(_) => [Network::Database, Network::L2].into_iter().chain(peers).collect(),
            Self::Gateway(_) | Self::Controller(_) => [Network::Database].into_iter().chain(peers).collect(),
            Self::Redis => vec![Network::L2],
            Self::Postgres => vec![Network::Database],
        }
    }
}

impl Fault {
    pub(crate) fn target(&self) -> Target {
        match *self {
            Self::Kill(who) | Self::Pause(who) | Self::Stop(who) | Self::Restart(who) => Target::Container(who),
            Self::Cut(who, _) | Self::Isolate(who) => Target::Container(who),
            Self::Flush => Target::Container(Who::Redis),
            Self::Change { .. } => Target::Ring,
        }
    }

    /// Its kind, for counts.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Kill(_) => "kill",
            Self::Pause(_) => "pause",
            Self::Stop(_) => "stop",
            Self::Restart(_) => "restart",
            Self::Cut(..) => "cut",
            Self::Isolate(_) => "isolate",
            Self::Flush => "flush",
            Self::Change { ending: Ending::Left, .. } => "change",
            Self::Change { .. } => "change, migrator killed",
        }
    }

    fn draw_length(&self, chance: &mut SmallRng) -> Duration {
        let mut between = |least: u64, most: u64| Duration::from_millis(chance.random_range(least..=most));
        let lease = LEASE_MAX.as_millis() as u64;
        match self {
            // Every other time long enough to be taken over.
            Self::Kill(Who::Node(_)) | Self::Isolate(Who::Node(_)) if between(0, 1).is_zero() => {
                LEASE_MAX + GRACE + between(1000, 4000)
            }
            Self::Restart(_) | Self::Flush => Duration::ZERO,
            Self::Pause(Who::Node(_)) => between(500, 2 * lease),
            Self::Cut(..) | Self::Isolate(_) | Self::Pause(_) => between(500, lease + 2000),
            Self::Kill(_) | Self::Stop(_) => between(0, 3000),
            Self::Change { ending: Ending::Left, .. } => between(500, 3000),
            Self::Change { .. } => between(0, 800),
        }
    }
}

/// Anything but a change of the ring.
fn draw_fault(chance: &mut SmallRng) -> (Duration, Fault) {
    let who = match chance.random_range(0..100) {
        0..55 => Who::Node(chance.random_range(1..=NODES)),
        55..65 => Who::Gateway(chance.random_range(1..=GATEWAYS)),
        65..73 => Who::Controller(chance.random_range(1..=CONTROLLERS)),
        73..92 => Who::Redis,
        _ => Who::Postgres,
    };
    let fault = match chance.random_range(0..100) {
        0..15 => Fault::Kill(who),
        15..30 => Fault::Pause(who),
        30..38 => Fault::Stop(who),
        38..45 => Fault::Restart(who),
        45..60 if who == Who::Redis => Fault::Flush,
        45..85 => Fault::Cut(who, draw_network(who, chance)),
        _ => Fault::Isolate(who),
    };
    (fault.draw_length(chance), fault)
}

/// Of a node's networks, every third time its own, where all others call it.
fn draw_network(who: Who, chance: &mut SmallRng) -> Network {
    match who {
        Who::Node(node) if chance.random_range(0..3) == 0 => Network::Peers(node),
        Who::Node(_) if chance.random() => *[Network::Database, Network::L2].choose(chance).expect("not empty"),
        _ => *who.networks().choose(chance).expect("not empty"),
    }
}

fn draw_change(chance: &mut SmallRng) -> (Duration, Fault) {
    let (verb, pick, ending) = ring_change::draw(chance);
    let fault = Fault::Change { verb, pick, ending };
    (fault.draw_length(chance), fault)
}

#[cfg(test)]
mod checks {
    use std::collections::BTreeSet;

    use super::*;

    const LOAD: Duration = Duration::from_secs(60);
    const SEEDS: u64 = 100;

    fn all() -> impl Iterator<Item = Fault> {
        (0..SEEDS).flat_map(|seed| Schedule::draw(seed, LOAD).faults).map(|planned| planned.fault)
    }

    #[test]
    fn a_seed_gives_the_same_schedule_each_time_and_another_one_another() {
        assert_eq!(Schedule::draw(7, LOAD), Schedule::draw(7, LOAD));
        assert_ne!(Schedule::draw(7, LOAD), Schedule::draw(8, LOAD));
    }

    #[test]
    fn every_kind_of_fault_and_every_target_occurs() {
        let kinds: BTreeSet<_> = all().map(|fault| fault.kind()).collect();
        assert_eq!(kinds.len(), 9, "{kinds:?}");
        let targets: BTreeSet<_> = all().map(|fault| fault.target()).collect();
        assert_eq!(targets.len(), Who::all().len() + 1, "{targets:?}");
    }

    #[test]
    fn every_link_is_cut_and_nobody_is_cut_off_a_network_it_is_not_on() {
        let cuts = all().filter_map(|fault| match fault {
            Fault::Cut(who, network) => Some((who, network)),
            _ => None,
        });
        let cuts: Vec<_> = cuts.collect();
        for who in Who::all() {
            for network in who.networks() {
                assert!(cuts.contains(&(who, network)), "{who:?} {network:?}");
            }
        }
        assert!(cuts.iter().all(|(who, network)| who.networks().contains(network)));
    }
}
