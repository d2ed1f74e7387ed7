//! A migrator killed at any moment leaves a change that `status` explains and that `resume` or `abort` ends (D01).

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tests::checker::Checker;
use tests::cluster::Cluster;
use tests::poll::eventually;

use crate::support::{Door, FlipHeld, add_standby, cluster, done, json, members, refused, users};

/// When the migrator is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Copy,
    Sealed,
    Flipped,
    /// So long after its start.
    After(Duration),
}

/// Starts a change that takes slots of `giver`, and kills its migrator.
async fn killed(cluster: &Cluster, gateway: &Door, args: &[&str], giver: &str, moment: Moment) {
    let giver_process = &cluster.nodes[giver].process;
    match moment {
        Moment::After(delay) => {
            let mut migrator = cluster.start_migrator(args);
            tokio::time::sleep(delay).await;
            migrator.kill();
        }
        // It waits for the seal of a node that does not answer.
        Moment::Copy => {
            giver_process.pause();
            let mut migrator = cluster.start_migrator(args);
            gateway.sees_phase("copy").await;
            migrator.kill();
            giver_process.resume();
        }
        Moment::Sealed => {
            let held = FlipHeld::of(cluster, giver).await;
            let mut migrator = cluster.start_migrator(args);
            gateway.sees_phase("sealed").await;
            migrator.kill();
            held.release().await;
        }
        // The old owner does not confirm.
        Moment::Flipped => {
            let held = FlipHeld::of(cluster, giver).await;
            let mut migrator = cluster.start_migrator(args);
            gateway.sees_phase("sealed").await;
            giver_process.pause();
            held.release().await;
            gateway.sees_phase("flipped").await;
            migrator.kill();
            giver_process.resume();
        }
    }
}

/// What `status` says is under way: phase and allowed commands, both empty when there is nothing.
async fn under_way(cluster: &Cluster) -> (String, Vec<String>) {
    let change = json(cluster, &["status"]).await["change"].clone();
    let allowed = change["allowed"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    (change["phase"].as_str().unwrap_or_default().to_owned(), allowed.collect())
}

/// Ends what is under way by the verb if it is allowed, else by `resume`; whether the new ring is in force.
async fn ended_by(cluster: &Cluster, verb: &str, epoch: u64) -> bool {
    let (phase, allowed) = under_way(cluster).await;
    let expected: &[&str] = match phase.as_str() {
        "copy" | "sealed" => &["migrator resume", "migrator abort"],
        "flipped" => &["migrator resume"],
        _ => &[],
    };
    assert_eq!(allowed, expected, "in phase {phase}");
    match (phase.as_str(), verb) {
        ("", verb) => {
            refused(cluster, &[verb], 1, "no ring change is active").await;
            json(cluster, &["status"]).await["epoch"] == epoch + 1
        }
        ("flipped", "abort") => {
            refused(cluster, &["abort"], 1, "it can only be resumed").await;
            done(cluster, &["resume"]).await;
            true
        }
        (_, verb) => {
            done(cluster, &[verb]).await;
            verb == "resume"
        }
    }
}

#[tokio::test]
async fn a_change_whose_migrator_was_killed_ends_in_the_new_or_the_old_ring_entirely() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut cluster = cluster(2).await;
    add_standby(&mut cluster, "n4", &[]).await;
    let gateways = [Door::of(&cluster, 0), Door::of(&cluster, 1)];
    let few = users(24);
    let checker = Checker::start(gateways.to_vec(), seed);
    let mut moments: Vec<Moment> =
        [Moment::Copy, Moment::Sealed, Moment::Flipped].into_iter().flat_map(|m| [m, m]).collect();
    moments.extend((0..6).map(|_| Moment::After(Duration::from_millis(rng.random_range(0..400)))));

    let (mut epoch, mut is_in) = (1, false);
    for (round, moment) in moments.into_iter().enumerate() {
        let (args, giver) = if is_in { (["remove-node", "n4"], "n4") } else { (["add-node", "n4"], "n1") };
        killed(&cluster, &gateways[0], &args, giver, moment).await;
        let verb = if round % 2 == 0 { "resume" } else { "abort" };
        let changed = ended_by(&cluster, verb, epoch).await;
        println!(
            "round {round}: {args:?} killed at {moment:?}, {verb}: {}",
            if changed { "new ring" } else { "old ring" }
        );
        epoch += u64::from(changed);
        is_in ^= changed;
        let expected: &[&str] = if is_in { &["n1", "n2", "n3", "n4"] } else { &["n1", "n2", "n3"] };
        for gateway in &gateways {
            gateway.follows(epoch).await;
            assert_eq!(members(&gateway.ring().await), expected);
        }
        let value = format!("round {round}");
        gateways[round % 2].put_all(&few, &value).await;
        gateways[(round + 1) % 2].read_all(&few, &value).await;
    }
    let seen = checker.finish().await;
    println!("{} reads, {} writes, {} unknown, {:?}", seen.reads, seen.writes, seen.unknown, seen.write_errors);
    assert!(seen.violations.is_empty(), "seed {seed}: {seen:#?}");
    assert!(seen.read_errors.len() as u64 * 1000 <= seen.reads, "seed {seed}: {seen:#?}");
}

#[tokio::test]
async fn slots_sealed_for_a_change_that_nobody_carries_on_take_writes_again_by_themselves() {
    // The nodes abort the change after 15 s.
    const ABORT_BOUND: Duration = Duration::from_secs(25);
    let mut cluster = cluster(1).await;
    add_standby(&mut cluster, "n4", &[]).await;
    let gateway = Door::of(&cluster, 0);
    let all = users(200);
    gateway.put_all(&all, "before").await;
    killed(&cluster, &gateway, &["add-node", "n4"], "n1", Moment::Sealed).await;
    gateway.read_all(&all, "before").await;
    eventually("the change is given up", ABORT_BOUND, async || gateway.ring().await["change"].is_null()).await;
    let last = json(&cluster, &["status"]).await["last_change"].clone();
    assert_eq!((&last["phase"], &last["action"]), (&"aborted".into(), &"add-node n4".into()), "{last}");
    assert!(last["reason"].to_string().contains("waited too long for the flip"), "{last}");
    gateway.follows(1).await;
    gateway.put_all(&all, "after").await;
    gateway.read_all(&all, "after").await;
    done(&cluster, &["add-node", "n4"]).await;
    gateway.follows(2).await;
    gateway.read_all(&all, "after").await;
}
