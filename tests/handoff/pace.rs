//! How fast a warm change copies is the operator's to say: a rate that holds, and bounds beyond which copying pauses.

use std::time::Duration;

use reqwest::Method;
use tests::cluster::ClusterOptions;
use tests::door::{Door, users};
use tests::http::send;
use tests::poll::eventually;
use tests::processes::Process;
use tests::ring_change::json;
use tokio::task::JoinSet;

use crate::scene::{CHANGE_BOUND, Ended, HEAVY_BYTES, STREAM, Scene, assert_clean, events};

/// The members, each of which gives a part of its slots to "n4".
const OLD_OWNERS: [&str; 3] = ["n1", "n2", "n3"];
/// How soon a copy pauses that is over a bound: two looks at the load, a second apart, of a busy machine.
const PAUSE_BOUND: Duration = Duration::from_secs(15);
/// How long a paused copy is watched: longer than the next looks.
const WATCHED: Duration = Duration::from_secs(3);
/// What may still be copied after that, in bytes: two entries of each old owner. At the rate of these tests it would be more.
const QUEUED: u64 = 6 * HEAVY_BYTES as u64;
/// How many read what is nowhere, one key after the other.
const READERS: usize = 8;

/// Waits until the verb has printed this.
async fn printed(migrator: &Process, words: &str) {
    eventually(words, PAUSE_BOUND, async || migrator.log().contains(words)).await;
}

/// Bytes copied so far, as the verb tells.
fn copied(migrator: &Process) -> u64 {
    let told = events(&migrator.log(), "progress");
    told.last().and_then(|event| event["bytes"].as_u64()).expect("copying has begun")
}

/// That hardly anything is copied for a while, and that nothing is sealed.
async fn stands_still(scene: &Scene, migrator: &Process) {
    let before = copied(migrator);
    tokio::time::sleep(WATCHED).await;
    let after = copied(migrator);
    assert!(after <= before + QUEUED, "{before} bytes, then {after}");
    assert_eq!(json(&scene.cluster, &["status"]).await["change"]["phase"], "copy");
}

/// Reads of keys that are nowhere: each goes to the database. They end when dropped.
fn misses(door: &Door) -> JoinSet<()> {
    let mut readers = JoinSet::new();
    for reader in users(READERS) {
        let door = door.clone();
        readers.spawn(async move {
            for number in 0_u64.. {
                // What is answered is no matter here.
                let _ = send(door.request(Method::GET, &reader, &format!("/v1/entries/none-{number}"))).await;
            }
        });
    }
    readers
}

#[tokio::test]
async fn the_rate_holds_and_a_resumed_change_copies_at_the_rate_of_its_own() {
    const RATE: f64 = 256.0 * 1024.0;
    let scene = Scene::start(STREAM, ClusterOptions::default()).await;
    let result =
        Ended::of(scene.change(&["add-node", "n4", "--max-rate", "256KiB", "--max-p99", "0"]), CHANGE_BOUND).await;
    let (summary, last) = (result.done(), result.events("progress"));
    let bytes = summary["copied_bytes"].as_f64().expect("a count");
    let seconds = summary["phases_ms"]["copy_keys"].as_f64().expect("a time") / 1000.0;
    println!("{bytes} bytes in {seconds} s: {:.0} per second, allowed are {RATE}", bytes / seconds);
    assert!(bytes / seconds <= 1.2 * RATE, "{bytes} bytes in {seconds} s");
    // Told on the way: never backwards, and to the end.
    let told: Vec<f64> =
        last.iter().filter(|event| event["phase"] == "copy_keys").filter_map(|event| event["bytes"].as_f64()).collect();
    assert!(told.len() > 3 && told.is_sorted() && told.last() == Some(&bytes), "{told:?}");

    // So slow that it would take a quarter of a minute; its migrator dies, and the next has no rate in mind.
    scene.put_heavy().await;
    let before = scene.sent(&["n4"]).await;
    let mut migrator = scene.change(&["remove-node", "n4", "--max-rate", "64KiB", "--max-p99", "0"]);
    scene.copying(&["n4"], &before).await;
    migrator.kill();
    let resumed = Ended::of(scene.change(&["resume", "--max-p99", "0"]), CHANGE_BOUND).await.done();
    println!("{resumed}");
    assert_eq!(resumed["cold_slots"], 0, "{resumed}");
    let seconds = resumed["phases_ms"]["copy_keys"].as_f64().expect("a time") / 1000.0;
    assert!(seconds < 8.0, "{seconds} s");
    scene.ring_is(3, false).await;
    scene.all_serve().await;
}

#[tokio::test]
async fn over_the_bound_of_p99_copying_pauses_says_so_and_goes_on_when_the_load_is_gone() {
    let seed = rand::random();
    let scene = Scene::start(STREAM, ClusterOptions::default()).await;
    let checker = scene.checked(seed);
    let verb = ["add-node", "n4", "--max-rate", "128KiB", "--max-p99", "1ms"];
    let migrator = scene.change(&verb);
    printed(&migrator, "\"event\":\"paused\"").await;
    stands_still(&scene, &migrator).await;
    // It gives up when asked to: nothing is half done.
    migrator.ask_to_stop();
    let ended = Ended::of(migrator, CHANGE_BOUND).await;
    ended.given_up("interrupted by a signal");
    let paused = ended.events("paused");
    println!("{paused:?}");
    assert!(paused[0]["reason"].to_string().contains("allowed are 1 ms"), "{paused:?}");
    scene.ring_is(1, false).await;

    // The same as lines.
    let migrator = scene.cluster.start_migrator(&verb);
    printed(&migrator, "copying is paused: ").await;
    assert_clean(checker, seed, false).await;
    printed(&migrator, "copying goes on").await;
    let ended = Ended::of(migrator, CHANGE_BOUND).await;
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(ended.log.contains("0 slots start cold"), "{}", ended.log);
    scene.ring_is(2, true).await;
    let (hits, own) = scene.warm_at("n4").await;
    assert!(own > 0 && hits == own, "{hits} of {own} heavy users of n4 are warm");
}

#[tokio::test]
async fn over_the_bound_of_database_reads_copying_pauses_and_goes_on() {
    let scene = Scene::start(STREAM, ClusterOptions::default()).await;
    let misses = misses(&scene.gateway);
    let migrator =
        scene.change(&["add-node", "n4", "--max-rate", "128KiB", "--max-origin-reads", "1", "--max-p99", "0"]);
    printed(&migrator, "\"event\":\"paused\"").await;
    stands_still(&scene, &migrator).await;
    drop(misses);
    let ended = Ended::of(migrator, CHANGE_BOUND).await;
    let result = ended.done();
    let (paused, resumed) = (ended.events("paused"), ended.events("resumed"));
    println!("{paused:?}, {resumed:?}, {result}");
    assert!(paused[0]["reason"].to_string().contains("reads per second to the database, allowed are 1"), "{paused:?}");
    assert!(!resumed.is_empty() && result["cold_slots"] == 0, "{}", ended.log);
    scene.ring_is(2, true).await;
    let sent: u64 = scene.sent(&OLD_OWNERS).await.iter().sum();
    assert!(sent >= result["copied_entries"].as_u64().expect("a count"), "{result}");
    let (hits, own) = scene.warm_at("n4").await;
    assert!(own > 0 && hits == own, "{hits} of {own} heavy users of n4 are warm");
}
