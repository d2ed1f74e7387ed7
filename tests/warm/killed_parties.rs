//! Node "n5" comes and goes under checked load; in every second change somebody is killed. Whoever it is, the change ends by
//! itself, the ring is wholly old or wholly new, and no read is stale.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tests::cluster::Cluster;
use tests::door::{Door, members};
use tests::poll::eventually;
use tests::processes::Process;

use crate::load::{Load, Outcome, cluster, setting};

/// How many changes, unless `SHARDCACHE_TEST_CHANGES` says otherwise.
const CHANGES: u64 = 8;
/// The load of a change that nobody disturbs, and of one in which somebody is killed: lease, grace and all.
const UNHARMED: Duration = Duration::from_secs(5);
const HARMED: Duration = Duration::from_secs(14);
/// How soon a change ends after a kill: what is left of a lease, attendance, and a few tries.
const END_BOUND: Duration = Duration::from_secs(45);
/// How long a killed node is away: well under the grace.
const AWAY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Nobody,
    Migrator,
    /// The migrator, as soon as it seals: writes wait for it then.
    SealingMigrator,
    Controller,
    OldOwner,
    Receiver,
}

/// What a client may be told of users whose node is killed: not executed, or a write that was on its way.
const OF_A_KILLED_NODE: [&str; 2] = ["owner_unavailable", "write_outcome_unknown"];

struct Controllers([Process; 2]);

impl Controllers {
    fn start(cluster: &Cluster) -> Self {
        Self([cluster.start_migrator(&["watch"]), cluster.start_migrator(&["watch"])])
    }

    fn kill_one(&mut self, cluster: &Cluster, index: usize) {
        self.0[index].kill();
        self.0[index] = cluster.start_migrator(&["watch"]);
    }
}

/// Runs the verb and kills the victim so long after its start; a node is started again after a while.
async fn change(
    cluster: &mut Cluster,
    controllers: &mut Controllers,
    verb: &[&str],
    victim: Victim,
    after: Duration,
) -> Option<i32> {
    let mut migrator = cluster.start_migrator(&[verb, &["--json"]].concat());
    let node = match (victim, verb[0]) {
        (Victim::OldOwner, "add-node") | (Victim::Receiver, "remove-node") => Some("n2"),
        (Victim::OldOwner, _) | (Victim::Receiver, _) => Some("n5"),
        _ => None,
    };
    if victim == Victim::Nobody {
        return migrator.wait_end(END_BOUND).await.code();
    }
    if victim == Victim::SealingMigrator {
        let seals = r#"{"event":"phase_began","phase":"flip_epoch""#;
        eventually("the migrator seals", END_BOUND, async || migrator.log().contains(seals)).await;
    } else {
        tokio::time::sleep(after).await;
    }
    match victim {
        Victim::Migrator | Victim::SealingMigrator => migrator.kill(),
        Victim::Controller => controllers.kill_one(cluster, usize::from(after.as_millis().is_multiple_of(2))),
        _ => {}
    }
    if let Some(node) = node {
        cluster.node(node).process.kill();
        tokio::time::sleep(AWAY).await;
        cluster.node(node).restart();
    }
    let died = matches!(victim, Victim::Migrator | Victim::SealingMigrator);
    if died { None } else { migrator.wait_end(END_BOUND).await.code() }
}

/// Waits until no change is under way and all members are up; whether "n5" is one.
async fn settled(gateway: &Door) -> bool {
    eventually("the change is over and all members are up", END_BOUND, async || {
        let ring = gateway.ring().await;
        let up = ring["members"].as_array().is_some_and(|all| all.iter().all(|member| member["state"] == "up"));
        ring["change"].is_null() && up
    })
    .await;
    let ring = gateway.ring().await;
    let names = members(&ring);
    let (four, five) = (["n1", "n2", "n3", "n4"], ["n1", "n2", "n3", "n4", "n5"]);
    assert!(names == four || names == five, "{names:?}");
    // Wholly old or wholly new: a member has its share, and who is none has nothing.
    for member in ring["members"].as_array().expect("members") {
        let slots = member["slots"].as_u64().expect("a count");
        let share = 4096 / names.len() as u64;
        assert!(slots.abs_diff(share) * 10 < share, "{ring}");
    }
    names == five
}

#[tokio::test]
async fn changes_go_unnoticed_and_with_somebody_killed_they_end_by_themselves_and_nothing_is_stale() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut cluster = cluster(1, &[]).await;
    let mut controllers = Controllers::start(&cluster);
    let gateway = Door::of(&cluster, 0);
    Load::preload(&gateway).await;
    let victims = [Victim::Migrator, Victim::OldOwner, Victim::Receiver, Victim::Controller];
    let mut is_in = false;
    println!("| change | killed | exit | in the ring | requests | errors | p99 ms | longest ms |");
    for round in 0..setting("SHARDCACHE_TEST_CHANGES", CHANGES) {
        // An addition and a removal undisturbed, a removal and an addition not.
        let disturbed = matches!(round % 4, 1 | 2);
        let victim = match (disturbed, round) {
            (false, _) => Victim::Nobody,
            (true, 1) => Victim::SealingMigrator,
            (true, _) => *victims.choose(&mut rng).expect("not empty"),
        };
        let verb = if is_in { ["remove-node", "n5"] } else { ["add-node", "n5"] };
        let after = Duration::from_millis(rng.random_range(20..700));
        let length = if victim == Victim::Nobody { UNHARMED } else { HARMED };
        let load = Load::start(&gateway, seed.wrapping_add(round), length).await;
        let exit = change(&mut cluster, &mut controllers, &verb, victim, after).await;
        let Outcome { requests, errors, wrong, p99_ms, longest_ms } = load.ended().await;
        // Only now: a migrator that was killed may have left a statement on its way, and the change begins after its end.
        is_in = settled(&gateway).await;
        println!(
            "| {} | {victim:?} after {} ms | {exit:?} | {is_in} | {requests} | {errors:?} | {p99_ms:.1} | {longest_ms:.1} |",
            verb.join(" "),
            after.as_millis(),
        );
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
        let nodes_killed = matches!(victim, Victim::OldOwner | Victim::Receiver);
        let undocumented = errors.keys().any(|code| !nodes_killed || !OF_A_KILLED_NODE.contains(&code.as_str()));
        assert!(!undocumented, "seed {seed}: {errors:?}\n{}", cluster.log_tails());
        if victim == Victim::Nobody {
            assert_eq!((exit, is_in), (Some(0), verb[0] == "add-node"), "seed {seed}");
        }
    }
}
