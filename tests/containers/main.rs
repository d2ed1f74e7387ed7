//! Chaos across hosts: the containers of the compose stack, each server on a network of its own, under checked load
//! while chance cuts links, freezes, kills, stops and restarts containers, and changes the ring.
//!
//! Run by `tests/docker/chaos.sh`, which makes the images and takes away what a run that was ended has left. Settings, all
//! from the environment: `SHARDCACHE_TEST_SEEDS` (runs), `SHARDCACHE_TEST_SEED` (of the first), `SHARDCACHE_TEST_SECONDS`
//! (load of each); `SHARDCACHE_TEST_COMPOSE` (the command), `COMPOSE_PROJECT_NAME`.

mod change;
mod claims;
mod engine;
mod fault;
mod heal;
mod inflict;
mod stack;
mod tiers;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use tests::chaos::logs::{PANIC, WRONG_ENTRY};
use tests::clients::{Clients, ClientsOptions, Recorded};
use tests::door::Door;
use tests::linearizable::check;
use tokio::signal::unix::{SignalKind, signal};

use claims::Claims;
use fault::{Schedule, Who};
use inflict::Inflicted;
use stack::{Stack, root};

/// Load of a run that is not told how much.
const SECONDS: u64 = 45;
/// What the clients must at least have got done, or the run has shown nothing.
const OPERATIONS_MIN: u64 = 100;

#[tokio::main]
async fn main() -> ExitCode {
    let mut ended = signal(SignalKind::terminate()).expect("a signal can be listened for");
    let mut claims = Claims::default();
    tokio::select! {
        () = all_runs(&mut claims) => {}
        // With the runs go the commands they wait for, so that nothing is started after the caller has cleaned up.
        _ = ended.recv() => return ExitCode::FAILURE,
    }
    println!("{} passed, {} failed", claims.passed(), claims.failed());
    if claims.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn all_runs(claims: &mut Claims) {
    let compose = std::env::var("SHARDCACHE_TEST_COMPOSE").unwrap_or_else(|_| "docker-compose".to_owned());
    let project = std::env::var("COMPOSE_PROJECT_NAME").unwrap_or_else(|_| "shardcache-chaos".to_owned());
    let load = Duration::from_secs(number("SHARDCACHE_TEST_SECONDS").unwrap_or(SECONDS));
    for run in 0..number("SHARDCACHE_TEST_SEEDS").unwrap_or(1) {
        let first = number("SHARDCACHE_TEST_SEED").filter(|_| run == 0);
        let seed = first.unwrap_or_else(|| u64::from(rand::random::<u32>()));
        let schedule = Schedule::draw(seed, load);
        println!("seed {seed}: {load:?} of load, settings {:?}", schedule.settings);
        match Stack::new(&compose, &project, &schedule.settings) {
            Ok(mut stack) => {
                let started = stack.start().await;
                if claims.holds(seed, "the stack starts", started.map(|()| String::new())) {
                    one_run(claims, seed, &stack, &schedule, load).await;
                }
                let taken_down = stack.take_down().await;
                claims.holds(seed, "the stack can be taken down", taken_down.map(|()| String::new()));
            }
            Err(error) => drop(claims.holds(seed, "the stack can be laid out", Err(error))),
        }
    }
}

async fn one_run(claims: &mut Claims, seed: u64, stack: &Stack, schedule: &Schedule, load: Duration) {
    let failed_before = claims.failed();
    let doors = stack.doors();
    let options = ClientsOptions { hang_ups_percent: 33, ..ClientsOptions::default() };
    let clients = Clients::start(doors.clone(), options, seed);
    let (inflicted, ()) = tokio::join!(inflict::inflict(stack, &schedule.faults), tokio::time::sleep(load));
    let answered = clients.answered();
    let recorded = clients.finish();
    let troubles = inflicted.troubles();
    let all_made = if troubles.is_empty() { Ok(inflicted.made()) } else { Err(anyhow::anyhow!(troubles.join("\n"))) };
    claims.holds(seed, "every fault could be made and ended", all_made);
    let mut recorded = recorded.await;
    ends(claims, seed, stack, &mut recorded, &doors).await;
    let enough = if answered >= OPERATIONS_MIN { Ok(()) } else { Err(anyhow::anyhow!("{answered}")) };
    claims.holds(
        seed,
        &format!("at least {OPERATIONS_MIN} requests were served meanwhile"),
        enough.map(|()| said(&recorded)),
    );
    let dir = root().join("target/containers");
    claims.holds(seed, "every key was a linearizable register", linearizable(&recorded, &dir, seed));
    let strange = recorded.protocol_errors.first().map_or(Ok(String::new()), |first| Err(anyhow::anyhow!("{first}")));
    claims.holds(seed, "every answer is a documented one", strange);
    let logs = logs(stack, &inflicted).await;
    claims.holds(seed, "nobody panicked", nobody_said(PANIC, &logs));
    claims.holds(seed, "no audit found a wrong entry", nobody_said(WRONG_ENTRY, &logs));
    if claims.failed() > failed_before {
        match save(&dir.join(seed.to_string()), &inflicted, &logs) {
            Ok(()) => println!("        what happened, history and logs: target/containers/{seed}/"),
            Err(error) => println!("        nothing could be saved: {error:#}"),
        }
    }
}

/// All is put right, and must be right within its times.
async fn ends(claims: &mut Claims, seed: u64, stack: &Stack, recorded: &mut Recorded, doors: &[Door]) {
    let healed = heal::heal(stack).await;
    claims.holds(seed, "everything runs and is on its networks", healed.map(|done| done.join(", ")));
    let users: Vec<String> = recorded.history.names.iter().map(|name| name.user.clone()).collect();
    let users: Vec<String> = users.into_iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect();
    let served = heal::served_again(doors, &users).await;
    let claim = format!("every request is served again within {:?}", heal::SERVED_BOUND);
    claims.holds(seed, &claim, served.map(|time| format!("{:.1} s", time.as_secs_f64())));
    let rests = heal::at_rest(&doors[0]).await;
    let claim = format!("no change is stuck and every member is up within {:?}", heal::AT_REST_BOUND);
    claims.holds(seed, &claim, rests.map(|()| String::new()));
    let compared = tiers::agree(stack, recorded, doors).await;
    claims.holds(seed, "all tiers agree with Postgres", compared.map(|reads| format!("{reads} reads")));
}

fn linearizable(recorded: &Recorded, dir: &Path, seed: u64) -> anyhow::Result<String> {
    match check(&recorded.history) {
        Ok(checked) => Ok(format!(
            "{} operations on {} keys: {} reads, {} writes, {} refused, {} unknown",
            checked.operations, checked.keys, checked.reads, checked.writes, checked.refused, checked.unknown
        )),
        Err(violation) => {
            violation.save(dir, seed)?;
            anyhow::bail!("{violation}")
        }
    }
}

/// The log of each container, and what migrators printed.
async fn logs(stack: &Stack, inflicted: &Inflicted) -> BTreeMap<String, anyhow::Result<String>> {
    let mut logs = BTreeMap::from([("migrators".to_owned(), Ok(inflicted.migrators()))]);
    for who in Who::all() {
        logs.insert(format!("{who:?}"), stack.log(who).await);
    }
    logs
}

fn nobody_said(what: &str, logs: &BTreeMap<String, anyhow::Result<String>>) -> anyhow::Result<String> {
    for (name, log) in logs {
        let log = log.as_ref().map_err(|error| anyhow::anyhow!("no log of {name}: {error:#}"))?;
        if let Some(line) = log.lines().find(|line| line.contains(what)) {
            anyhow::bail!("{name}: {line}");
        }
    }
    Ok(format!("{} logs", logs.len()))
}

fn save(dir: &Path, inflicted: &Inflicted, logs: &BTreeMap<String, anyhow::Result<String>>) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join("faults.txt"), inflicted.story())?;
    for (name, log) in logs {
        if let Ok(log) = log {
            std::fs::write(dir.join(format!("{name}.log")), log)?;
        }
    }
    Ok(())
}

fn said(recorded: &Recorded) -> String {
    format!(
        "reads refused: {:?}; writes: {:?}; hung up {}",
        recorded.read_errors, recorded.write_errors, recorded.hung_up
    )
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}")))
}
