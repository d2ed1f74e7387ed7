//! The environments that the protocol is searched in. Budgets are small so that searches end; where one of them was the
//! scene of a known bug of an earlier draft, it is just large enough to hold that scene.

use crate::environment::{Budget, Environment, Kind, Moves};
use crate::pinning::NEIGHBOUR;

pub(crate) const NONE: Budget = Budget {
    l1_evictions: 0,
    l2_evictions: 0,
    expiries: 0,
    crashes: 0,
    takeovers: 0,
    changes: 0,
    late_seals: 0,
    breaks: 0,
    left_out: 0,
    unknown_writes: 0,
    lost_voids: 0,
    renewals: 0,
    lost_renewals: 0,
    dropped_writes: 0,
    failovers: 0,
    quiet_demotions: 0,
    redis_restarts: 0,
};

/// All environments.
pub fn environments() -> Vec<Environment> {
    let mut all = owners();
    all.extend(changes());
    all.extend(redis());
    all.extend(renewals());
    all.extend(pins());
    all.extend(larger());
    all
}

/// The environment of that name.
pub fn environment(name: &str) -> Option<Environment> {
    environments().into_iter().find(|environment| environment.name == name)
}

fn with_l2(environment: Environment) -> Environment {
    Environment { l2: true, ..environment }
}

fn cold(environment: Environment) -> Environment {
    Environment { cold: true, ..environment }
}

fn by_owner_only(environment: Environment) -> Environment {
    Environment { detached: false, ..environment }
}

/// Steady running, takeovers, crashes, unknown writes, dropped tasks.
fn owners() -> Vec<Environment> {
    let new = Environment::new;
    vec![
        with_l2(new("steady", "evictions, an unknown write, a lost void", 2, 2)).with(Budget {
            l1_evictions: 1,
            l2_evictions: 1,
            unknown_writes: 1,
            lost_voids: 1,
            ..NONE
        }),
        with_l2(new("three-writes", "evictions and a lost void", 3, 2)).with(Budget {
            l1_evictions: 1,
            l2_evictions: 1,
            lost_voids: 1,
            ..NONE
        }),
        {
            let plain = with_l2(new("deletion", "a write and a deletion", 2, 2));
            let mut environment = plain.with(Budget { l1_evictions: 1, l2_evictions: 1, unknown_writes: 1, ..NONE });
            environment.operations[1].0 = Kind::Delete;
            environment
        },
        with_l2(new("dropped", "the task of a write is dropped anywhere", 2, 2)).with(Budget {
            dropped_writes: 1,
            lost_voids: 1,
            ..NONE
        }),
        with_l2(new("takeover", "two pauses past the lease, two takeovers", 2, 2)).with(Budget {
            l1_evictions: 1,
            expiries: 2,
            takeovers: 2,
            ..NONE
        }),
        cold(with_l2(new("takeover-cold", "two pauses past the lease, two takeovers, an empty L1", 1, 2)))
            .with(Budget { l1_evictions: 1, l2_evictions: 1, expiries: 2, takeovers: 2, ..NONE }),
        with_l2(new("crash", "a crash, a takeover, an unknown write, a lost void", 2, 1)).with(Budget {
            expiries: 1,
            crashes: 1,
            takeovers: 1,
            unknown_writes: 1,
            lost_voids: 1,
            ..NONE
        }),
        cold(with_l2(new("crash-cold", "a crash and a restart", 1, 3))).with(Budget { crashes: 1, ..NONE }),
        new("unknown-twice", "two unknown writes, a crash, a takeover", 2, 2).with(Budget {
            l1_evictions: 1,
            expiries: 1,
            crashes: 1,
            takeovers: 1,
            unknown_writes: 2,
            ..NONE
        }),
        Environment { twin: true, nodes: 1, ..cold(with_l2(new("twin", "two processes of one node", 2, 2))) }
            .with(Budget { expiries: 2, unknown_writes: 1, ..NONE }),
    ]
}

/// Ring changes, broken streams, dead migrators.
fn changes() -> Vec<Environment> {
    let new = Environment::new;
    vec![
        new("there-and-back", "two changes, a broken stream", 1, 3).with(Budget {
            l1_evictions: 1,
            changes: 2,
            breaks: 1,
            ..NONE
        }),
        new("change-crash", "a change, a crash, an unknown write, a broken stream", 2, 2).with(Budget {
            crashes: 1,
            changes: 1,
            breaks: 1,
            unknown_writes: 1,
            ..NONE
        }),
        new("change-takeover", "two changes, two takeovers", 1, 2).with(Budget {
            l1_evictions: 1,
            expiries: 2,
            takeovers: 2,
            changes: 2,
            ..NONE
        }),
        new("change-takeover-writes", "a change, a takeover, two writes", 2, 2).with(Budget {
            expiries: 1,
            takeovers: 1,
            changes: 1,
            ..NONE
        }),
        with_l2(new("change-l2", "a change with Redis and evictions", 2, 2)).with(Budget {
            l1_evictions: 1,
            l2_evictions: 1,
            changes: 1,
            ..NONE
        }),
        cold(with_l2(new("there-and-back-l2", "two changes with Redis", 1, 2))).with(Budget {
            l1_evictions: 1,
            l2_evictions: 1,
            changes: 2,
            ..NONE
        }),
        with_l2(new("change-unknown", "a change, an unknown write, a lost void", 2, 1)).with(Budget {
            l1_evictions: 1,
            changes: 1,
            unknown_writes: 1,
            lost_voids: 1,
            ..NONE
        }),
        Environment { late_rows: true, ..new("late-rows", "rows are applied late; two changes", 1, 2) }
            .with(Budget { changes: 2, ..NONE }),
        new("late-seal", "a SEAL is late; two changes", 2, 1).with(Budget { changes: 2, late_seals: 1, ..NONE }),
        new("late-seal-takeover", "a SEAL is late; a change, a takeover", 1, 2).with(Budget {
            expiries: 1,
            takeovers: 1,
            changes: 1,
            late_seals: 1,
            ..NONE
        }),
        Environment { pauses: true, ..with_l2(new("pauses", "pauses in G1 and W2; a change, a takeover", 1, 2)) }
            .with(Budget { l1_evictions: 1, expiries: 1, takeovers: 1, changes: 1, ..NONE }),
    ]
}

/// Redis goes away and comes back.
fn redis() -> Vec<Environment> {
    let new = |name, about| by_owner_only(cold(with_l2(Environment::new(name, about, 1, 2))));
    vec![
        new("redis-restart", "two restarts, a takeover").with(Budget {
            redis_restarts: 2,
            expiries: 1,
            takeovers: 1,
            ..NONE
        }),
        new("failover", "the replica takes over, twice").with(Budget { l1_evictions: 1, failovers: 2, ..NONE }),
        new("failover-takeover", "the replica takes over, two takeovers").with(Budget {
            failovers: 1,
            expiries: 2,
            takeovers: 2,
            ..NONE
        }),
        new("failover-change", "the replica takes over, two changes").with(Budget { failovers: 1, changes: 2, ..NONE }),
        new("demoted-unnoticed", "the replica takes over, and back; clients stay").with(Budget {
            l1_evictions: 1,
            failovers: 1,
            quiet_demotions: 1,
            ..NONE
        }),
    ]
}

/// Tenures renewed for other keys of the slot.
fn renewals() -> Vec<Environment> {
    let new = Environment::new;
    vec![
        by_owner_only(with_l2(new("renewals", "two renewals for other keys, an unknown write, a lost void", 2, 2)))
            .with(Budget { l2_evictions: 1, unknown_writes: 1, lost_voids: 1, renewals: 2, ..NONE }),
        by_owner_only(cold(with_l2(new("renewal-takeover", "a renewal, two takeovers", 1, 2)))).with(Budget {
            expiries: 2,
            takeovers: 2,
            renewals: 1,
            ..NONE
        }),
        new("renewal-change", "two renewals, two changes, a broken stream", 1, 2).with(Budget {
            changes: 2,
            breaks: 1,
            renewals: 2,
            ..NONE
        }),
        by_owner_only(new("renewal-change-takeover", "a renewal, two changes, a takeover", 1, 2)).with(Budget {
            expiries: 1,
            takeovers: 1,
            changes: 2,
            renewals: 1,
            ..NONE
        }),
        new("renewal-change-unknown", "a renewal, a lost one, a change, an unknown write", 2, 2).with(Budget {
            changes: 1,
            unknown_writes: 1,
            renewals: 1,
            lost_renewals: 1,
            ..NONE
        }),
        Environment {
            late_rows: true,
            ..new("late-rows-takeover", "rows are applied late; a change, a takeover, a renewal", 1, 2)
        }
        .with(Budget { expiries: 1, takeovers: 1, changes: 1, renewals: 1, ..NONE }),
    ]
}

/// The user of key 0 may get a slot of its own.
pub(crate) fn pinning(environment: Environment) -> Environment {
    Environment { slots: 2, moves: &[Moves::User], ..environment }
}

/// Some of the operations are another user's of the same home.
fn with_neighbour(mut environment: Environment, operations: &[usize]) -> Environment {
    operations.iter().for_each(|operation| environment.operations[*operation].1 = NEIGHBOUR);
    environment
}

/// A user leaves its slot for one of its own.
fn pins() -> Vec<Environment> {
    let new = |name, about, writes, reads| pinning(Environment::new(name, about, writes, reads));
    let all = &[Moves::User, Moves::Slot, Moves::OwnSlot];
    vec![
        new("pin", "a user gets a slot of its own; a broken stream, an unknown write", 2, 2).with(Budget {
            l1_evictions: 1,
            changes: 1,
            breaks: 1,
            unknown_writes: 1,
            ..NONE
        }),
        new("pin-crash", "a user gets a slot of its own; a crash, an unknown write", 2, 2).with(Budget {
            crashes: 1,
            changes: 1,
            unknown_writes: 1,
            ..NONE
        }),
        new("pin-takeover", "a user gets a slot of its own; two takeovers", 1, 2).with(Budget {
            expiries: 2,
            takeovers: 2,
            changes: 1,
            ..NONE
        }),
        new("pin-takeover-writes", "a user gets a slot of its own; a takeover, two writes", 2, 2).with(Budget {
            expiries: 1,
            takeovers: 1,
            changes: 1,
            ..NONE
        }),
        with_neighbour(new("pin-neighbour", "a user leaves another behind", 2, 2), &[1, 3]).with(Budget {
            expiries: 1,
            takeovers: 1,
            changes: 1,
            ..NONE
        }),
        Environment { moves: all, ..new("pin-and-move", "a user's own slot or its home moves on", 1, 2) }
            .with(Budget { changes: 2, breaks: 1, ..NONE }),
        with_l2(new("pin-l2", "a user gets a slot of its own, with Redis and evictions", 2, 2)).with(Budget {
            l1_evictions: 1,
            l2_evictions: 1,
            changes: 1,
            ..NONE
        }),
        Environment {
            late_rows: true,
            streams: false,
            ..new("pin-late-rows", "rows are applied late; a renewal", 1, 2)
        }
        .with(Budget { changes: 1, renewals: 1, ..NONE }),
        new("pin-late-seal", "a user gets a slot of its own; a SEAL is late; a takeover", 1, 2).with(Budget {
            expiries: 1,
            takeovers: 1,
            changes: 1,
            late_seals: 1,
            ..NONE
        }),
        Environment { pauses: true, ..new("pin-pauses", "pauses in G1 and W2; a takeover", 1, 2) }.with(Budget {
            l1_evictions: 1,
            expiries: 1,
            takeovers: 1,
            changes: 1,
            ..NONE
        }),
        new("pin-renewals", "a user gets a slot of its own; a renewal, a lost one, an unknown write", 2, 1)
            .with(Budget { changes: 1, unknown_writes: 1, renewals: 1, lost_renewals: 1, ..NONE }),
    ]
}

/// More nodes, more slots: bounded by depth.
fn larger() -> Vec<Environment> {
    let new = Environment::new;
    let mut two_slots = new("two-slots", "one of two slots moves; takeovers", 2, 2).with(Budget {
        expiries: 1,
        takeovers: 1,
        changes: 1,
        ..NONE
    });
    two_slots.slots = 2;
    two_slots.operations[1].1 = 1;
    two_slots.operations[3].1 = 1;
    let overtaken = by_owner_only(new("overtaken", "a write outlives a takeover and a change back", 1, 1));
    let overtaken = overtaken.with(Budget { expiries: 1, takeovers: 1, changes: 1, ..NONE });
    let three_nodes = Environment { nodes: 3, ..new("three-nodes", "changes and takeovers among three nodes", 1, 2) };
    vec![overtaken, two_slots, three_nodes.with(Budget { expiries: 1, takeovers: 1, changes: 2, ..NONE })]
}
