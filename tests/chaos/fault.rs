//! What can be done to a cluster, to whom and for how long: the values that chance chooses among.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::SmallRng;
use tests::chaos::ring_change::{self, Ending, Verb};
use tests::cluster::Link;
use tests::fault_proxy::{self, Way};

/// Nodes of a run: the first are members of the first ring, the others stand by.
pub(crate) const NODES: usize = 6;
/// Members of the first ring.
pub(crate) const FIRST_MEMBERS: usize = 4;
/// Gateways of a run.
pub(crate) const GATEWAYS: usize = 2;
/// Failure controllers of a run.
pub(crate) const CONTROLLERS: usize = 2;

/// How long a node that is down is given to come back.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// The longest lease of a run.
pub(crate) const LEASE_MAX: Duration = Duration::from_secs(3);

/// One process of the cluster's own programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Node(usize),
    Gateway(usize),
    Controller(usize),
}

/// What is done to a process; it runs again when the fault ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessFault {
    /// SIGKILL.
    Kill,
    /// SIGSTOP, then SIGCONT.
    Pause,
    /// SIGTERM; a node started again has its slots handed off, or not, at its next stop.
    Stop { next_hands_off: bool },
}

/// What is done to the L2 servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedisFault {
    /// Killed; it comes back empty, as somebody else.
    Restart,
    /// All entries are gone at once.
    Flush,
    /// SIGSTOP.
    Pause,
    /// The other server is brought in step with the primary, and grows old from here on.
    Copy,
    /// The primary becomes a replica of the other server, and then a primary again, with the other's old entries.
    Demote,
    /// The links lead to the other server, brought in step before or old as it is, for good; connections to the old primary
    /// are closed, or not.
    FailOver { in_step: bool, close: bool },
    /// Out of memory: every write is refused.
    Fill,
    /// Every connection is closed by the server.
    KillClients,
}

/// What is done to Postgres.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostgresFault {
    /// An orderly stop.
    Restart,
    /// SIGKILL.
    Crash,
    /// New transactions are read-only.
    ReadOnly,
    /// Every session is ended.
    Terminate,
    /// Nobody gets at `entries`.
    LockEntries,
    /// Nobody gets at `slots`.
    LockSlots,
    /// SIGSTOP.
    Pause,
}

/// One thing done to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Process(Who, ProcessFault),
    Link(Link, fault_proxy::Fault),
    Redis(RedisFault),
    Postgres(PostgresFault),
    Change { verb: Verb, pick: usize, ending: Ending },
}

/// What a fault is done to: two faults of one target do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Process(Who),
    Link(Link),
    Redis,
    Postgres,
    Ring,
}

impl Fault {
    /// Anything but a change of the ring.
    pub(crate) fn draw(chance: &mut SmallRng) -> Self {
        match chance.random_range(0..100) {
            0..25 => Self::Process(Who::Node(chance.random_range(0..NODES)), process_fault(chance)),
            25..30 => Self::Process(Who::Gateway(chance.random_range(0..GATEWAYS)), process_fault(chance)),
            30..37 => Self::Process(Who::Controller(chance.random_range(0..CONTROLLERS)), process_fault(chance)),
            37..65 => Self::Link(link(chance), link_fault(chance)),
            65..85 => Self::Redis(redis_fault(chance)),
            _ => Self::Postgres(postgres_fault(chance)),
        }
    }

    /// A change of the ring.
    pub(crate) fn draw_change(chance: &mut SmallRng) -> Self {
        let (verb, pick, ending) = ring_change::draw(chance);
        Self::Change { verb, pick, ending }
    }

    pub(crate) fn target(&self) -> Target {
        match self {
            Self::Process(who, _) => Target::Process(*who),
            Self::Link(link, _) => Target::Link(link.clone()),
            Self::Redis(_) => Target::Redis,
            Self::Postgres(_) => Target::Postgres,
            Self::Change { .. } => Target::Ring,
        }
    }

    /// How long it lasts.
    pub(crate) fn draw_length(&self, chance: &mut SmallRng) -> Duration {
        let mut between = |least: u64, most: u64| Duration::from_millis(chance.random_range(least..=most));
        let lease = LEASE_MAX.as_millis() as u64;
        match self {
            // Every third time long enough to be taken over.
            Self::Process(Who::Node(_), ProcessFault::Kill) if between(0, 2).is_zero() => {
                LEASE_MAX + GRACE + between(1000, 3500)
            }
            Self::Process(_, ProcessFault::Kill) => between(0, 1500),
            Self::Process(Who::Node(_), ProcessFault::Pause) => between(200, 2 * lease),
            Self::Process(_, ProcessFault::Pause) => between(200, lease + 2000),
            Self::Process(_, ProcessFault::Stop { .. }) => between(1500, 5000),
            Self::Link(..) => between(200, lease + 2000),
            Self::Redis(RedisFault::Demote | RedisFault::Restart | RedisFault::Pause | RedisFault::Fill) => {
                between(100, 3500)
            }
            Self::Redis(_) => Duration::ZERO,
            Self::Postgres(PostgresFault::Terminate) => Duration::ZERO,
            Self::Postgres(PostgresFault::Pause) => between(500, lease + 1500),
            Self::Postgres(PostgresFault::Restart | PostgresFault::Crash) => between(0, 1500),
            Self::Postgres(_) => between(500, 4000),
            Self::Change { ending: Ending::Left, .. } => between(500, 3000),
            // Most changes are over soon.
            Self::Change { pick, .. } if pick.is_multiple_of(2) => between(10, 250),
            Self::Change { .. } => between(20, 1500),
        }
    }

    /// Its kind, for counts.
    pub(crate) fn kind(&self) -> &'static str {
        use fault_proxy::Fault as Link;
        match self {
            Self::Process(_, ProcessFault::Kill) => "kill",
            Self::Process(_, ProcessFault::Pause) => "pause",
            Self::Process(_, ProcessFault::Stop { .. }) => "stop",
            Self::Link(_, Link::Cut | Link::Refuse | Link::HalfClose) => "cut",
            Self::Link(_, Link::Vanish(_)) => "half-open",
            Self::Link(_, Link::Blackhole | Link::Hold(_)) => "held back",
            Self::Link(_, Link::Reset | Link::ResetAfter(_) | Link::Answer(_)) => "reset",
            Self::Link(_, Link::Delay(_) | Link::Jitter { .. } | Link::Throttle(_) | Link::Pass) => "slow",
            Self::Redis(RedisFault::Restart) => "redis restart",
            Self::Redis(RedisFault::Flush) => "redis flush",
            Self::Redis(RedisFault::Pause) => "redis pause",
            Self::Redis(RedisFault::Copy) => "redis copy",
            Self::Redis(RedisFault::Demote) => "redis demote",
            Self::Redis(RedisFault::FailOver { .. }) => "redis failover",
            Self::Redis(RedisFault::Fill) => "redis full",
            Self::Redis(RedisFault::KillClients) => "redis clients killed",
            Self::Postgres(PostgresFault::Restart) => "postgres restart",
            Self::Postgres(PostgresFault::Crash) => "postgres crash",
            Self::Postgres(PostgresFault::ReadOnly) => "postgres read-only",
            Self::Postgres(PostgresFault::Terminate) => "postgres sessions ended",
            Self::Postgres(PostgresFault::LockEntries | PostgresFault::LockSlots) => "postgres locked",
            Self::Postgres(PostgresFault::Pause) => "postgres pause",
            Self::Change { ending: Ending::Left, .. } => "change",
            Self::Change { .. } => "change, migrator killed",
        }
    }
}

/// The name of a node.
pub(crate) fn node_name(number: usize) -> String {
    format!("n{}", number + 1)
}

fn process_fault(chance: &mut SmallRng) -> ProcessFault {
    match chance.random_range(0..3) {
        0 => ProcessFault::Kill,
        1 => ProcessFault::Pause,
        _ => ProcessFault::Stop { next_hands_off: chance.random() },
    }
}

fn link(chance: &mut SmallRng) -> Link {
    let node = node_name(chance.random_range(0..NODES));
    match chance.random_range(0..10) {
        0..3 => Link::NodeDatabase(node),
        3..6 => Link::NodeRedis(node, 0),
        6..8 => Link::NodePeer(node),
        8 => Link::GatewayDatabase(chance.random_range(0..GATEWAYS)),
        _ => Link::MigratorDatabase,
    }
}

fn link_fault(chance: &mut SmallRng) -> fault_proxy::Fault {
    use fault_proxy::Fault;
    let ms = |chance: &mut SmallRng, least: u64, most: u64| Duration::from_millis(chance.random_range(least..=most));
    match chance.random_range(0..16) {
        0..2 => Fault::Cut,
        2 => Fault::Refuse,
        3 => Fault::HalfClose,
        4 => Fault::Delay(ms(chance, 5, 600)),
        5 => {
            let least = ms(chance, 0, 50);
            Fault::Jitter { least, most: least + ms(chance, 20, 800), seed: chance.random() }
        }
        6 => Fault::Vanish(Way::There),
        7..9 => Fault::Vanish(Way::Back),
        // What is held back arrives when the fault is over: statements and commands of long ago.
        9..12 => Fault::Blackhole,
        12 => Fault::Reset,
        13..15 => Fault::ResetAfter(chance.random_range(1..4000)),
        _ => Fault::Throttle(chance.random_range(500..50_000)),
    }
}

fn redis_fault(chance: &mut SmallRng) -> RedisFault {
    match chance.random_range(0..12) {
        0 => RedisFault::Restart,
        1 => RedisFault::Flush,
        2 => RedisFault::Pause,
        // Old entries come by copies, and are seen by what follows them.
        3..6 => RedisFault::Copy,
        6..8 => RedisFault::Demote,
        8..10 => RedisFault::FailOver { in_step: chance.random(), close: chance.random() },
        10 => RedisFault::Fill,
        _ => RedisFault::KillClients,
    }
}

fn postgres_fault(chance: &mut SmallRng) -> PostgresFault {
    match chance.random_range(0..8) {
        0 => PostgresFault::Restart,
        1 => PostgresFault::Crash,
        2 => PostgresFault::ReadOnly,
        3..5 => PostgresFault::Terminate,
        5 => PostgresFault::LockEntries,
        6 => PostgresFault::LockSlots,
        _ => PostgresFault::Pause,
    }
}
