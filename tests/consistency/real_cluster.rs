//! The clients of two gateways of a real cluster see linearizable registers: at rest, while the ring changes, and when
//! clients hang up.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tests::clients::{Clients, ClientsOptions, Recorded};
use tests::cluster::Cluster;
use tests::door::Door;
use tests::linearizable::{Checked, check};
use tests::ring_change::{add_standby, cluster, done, l2_in_use};
use tokio::sync::Mutex;

/// How long the clients of a test are at work, unless `SHARDCACHE_TEST_SECONDS` says otherwise.
const SECONDS: u64 = 6;

/// They go on until so many reads and writes are answered, however slow the machine is.
const ANSWERED: u64 = 1500;

/// So few that keys are replaced, and read again as old ones, in a short run.
const OPERATIONS_PER_KEY: u64 = 60;

/// One cluster at a time: several at once leave a small machine no room.
static TURN: Mutex<()> = Mutex::const_new(());

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}

fn length() -> Duration {
    Duration::from_secs(setting("SHARDCACHE_TEST_SECONDS").unwrap_or(SECONDS))
}

/// A cluster under load.
struct Scene {
    cluster: Cluster,
    doors: Vec<Door>,
    seed: u64,
    clients: Clients,
    started: Instant,
}

impl Scene {
    async fn start(standby: Option<&str>, hang_ups_percent: u32) -> Self {
        let seed = setting("SHARDCACHE_TEST_SEED").unwrap_or_else(rand::random);
        println!("seed {seed}");
        let mut cluster = cluster(2).await;
        if let Some(name) = standby {
            add_standby(&mut cluster, name, &[]).await;
        }
        l2_in_use(&cluster).await;
        let doors = vec![Door::of(&cluster, 0), Door::of(&cluster, 1)];
        let operations_per_key = OPERATIONS_PER_KEY;
        let options = ClientsOptions { operations_per_key, hang_ups_percent, ..ClientsOptions::default() };
        let clients = Clients::start(doors.clone(), options, seed);
        Self { cluster, doors, seed, clients, started: Instant::now() }
    }

    fn is_to_go_on(&self) -> bool {
        self.started.elapsed() < length() || self.clients.answered() < ANSWERED
    }

    /// Lets the clients work as long as they are to.
    async fn goes_on(&self) {
        while self.is_to_go_on() {
            self.clients.goes_on(100).await;
        }
    }

    /// Ends the clients, reads every key through both gateways, and judges all of it.
    async fn judged(self) -> (Recorded, Checked) {
        let mut recorded = self.clients.finish().await;
        assert_eq!(recorded.read_every_key(&self.doors).await, 0, "{:?}", recorded.read_errors);
        assert_eq!(recorded.protocol_errors, Vec::<String>::new(), "seed {}", self.seed);
        let checked = check(&recorded.history).unwrap_or_else(|violation| {
            let saved = violation.save(&target(), self.seed).expect("it can be saved");
            panic!("seed {}: {violation}saved in {}\n{}", self.seed, saved.display(), self.cluster.log_tails());
        });
        println!("{checked:?}, {} hung up", recorded.hung_up);
        assert!(checked.reads > 500 && checked.writes > 100, "{checked:?}");
        let ClientsOptions { users, keys_per_user, .. } = ClientsOptions::default();
        assert!(checked.keys > (users * keys_per_user) as usize, "no key was replaced: {checked:?}");
        (recorded, checked)
    }
}

/// `target/consistency`.
fn target() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.ancestors().nth(3).map(|target| target.join("consistency")).unwrap_or_else(|| Path::new("consistency").into())
}

/// Nothing was wrong with the cluster, so hardly a request was refused or left in doubt; a busy machine may be too slow
/// for a few.
fn assert_served(recorded: &Recorded, checked: &Checked) {
    let refused = recorded.read_errors.values().chain(recorded.write_errors.values()).sum::<u64>();
    let served = (checked.reads + checked.writes) as u64;
    assert!(refused * 100 <= served, "{:?} {:?}", recorded.read_errors, recorded.write_errors);
}

#[tokio::test]
async fn clients_of_two_gateways_see_registers() {
    let _turn = TURN.lock().await;
    let scene = Scene::start(None, 0).await;
    scene.goes_on().await;
    let (recorded, checked) = scene.judged().await;
    assert_served(&recorded, &checked);
}

#[tokio::test]
async fn they_do_while_nodes_come_and_go() {
    let _turn = TURN.lock().await;
    let scene = Scene::start(Some("n4"), 0).await;
    let mut changes = 0;
    for change in [["add-node", "n4"], ["remove-node", "n4"]].iter().cycle() {
        scene.clients.goes_on(300).await;
        done(&scene.cluster, change).await;
        changes += 1;
        if changes >= 2 && !scene.is_to_go_on() {
            break;
        }
    }
    scene.clients.goes_on(300).await;
    println!("{changes} changes");
    let (recorded, checked) = scene.judged().await;
    assert_served(&recorded, &checked);
}

#[tokio::test]
async fn they_do_when_a_third_of_the_requests_is_given_up() {
    let _turn = TURN.lock().await;
    let scene = Scene::start(None, 33).await;
    scene.goes_on().await;
    let (recorded, checked) = scene.judged().await;
    assert!(recorded.hung_up > 100 && checked.unknown > 20, "{} hung up, {checked:?}", recorded.hung_up);
}
