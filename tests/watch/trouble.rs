//! Nodes and controllers killed, frozen and stopped by chance, one after the other: the cluster heals by itself each time, and
//! every key stays a register.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tests::checker::Checker;
use tests::cluster::Cluster;
use tests::door::Door;
use tests::poll::eventually;
use tests::processes::Process;

use crate::support::{HEALED, Users, cluster, done, leader, shares};

const ROUNDS: usize = 6;
const GRACE: &str = "1s";

/// What befalls a node.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Killed,
    Frozen,
    Stopped,
}

impl Blow {
    fn strike(self, process: &mut Process) {
        match self {
            Self::Killed => process.kill(),
            Self::Frozen => process.pause(),
            Self::Stopped => process.ask_to_stop(),
        }
    }

    async fn end(self, cluster: &mut Cluster, name: &str) {
        let member = cluster.node(name);
        match self {
            Self::Frozen => member.process.resume(),
            Self::Killed | Self::Stopped => member.restart(),
        }
    }
}

async fn all_have_slots(cluster: &Cluster) -> bool {
    shares(cluster).await.values().all(|slots| *slots > 0)
}

#[tokio::test]
async fn whatever_happens_to_one_at_a_time_the_cluster_heals_and_no_read_is_old() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut cluster = cluster().await;
    cluster.add_gateway().await;
    let mut watches = [leader(&cluster, GRACE).await, cluster.start_migrator(&["watch", "--grace", GRACE])];
    let users = Users::new(&cluster, 60);
    let clients = Checker::start(vec![Door::of(&cluster, 0)], seed);
    clients.goes_on(500).await;
    for round in 0..ROUNDS {
        let name = ["n1", "n2", "n3"][rng.random_range(0..3)];
        let blow = [Blow::Killed, Blow::Frozen, Blow::Stopped][rng.random_range(0..3)];
        let away = Duration::from_millis(rng.random_range(0..8000));
        let controller_too = rng.random_bool(0.4);
        println!("round {round}: {name} {blow:?} for {away:?}, controller killed: {controller_too}");
        blow.strike(&mut cluster.node(name).process);
        if controller_too {
            watches[round % 2].kill();
            watches[round % 2] = cluster.start_migrator(&["watch", "--grace", GRACE]);
        }
        tokio::time::sleep(away).await;
        blow.end(&mut cluster, name).await;
        eventually("every member has slots", HEALED, async || all_have_slots(&cluster).await).await;
        eventually("all can write", HEALED, async || users.can_put_all(&format!("round {round}")).await).await;
        clients.goes_on(200).await;
    }
    let seen = clients.finish().await;
    let (answered, errors) = (seen.reads + seen.writes, seen.read_errors.len() + seen.write_errors.len());
    println!("{answered} answers, {errors} errors, {} unknown, {:?}", seen.unknown, done(&cluster).await);
    assert!(seen.violations.is_empty(), "seed {seed}: {:#?}", seen.violations);
}
