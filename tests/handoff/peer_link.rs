//! The link between old owners and receiver fails in the middle of a warm change: cut, cut for good, half-open, slow.

use std::time::{Duration, Instant};

use tests::cluster::ClusterOptions;
use tests::door::owned_by;
use tests::fault_proxy::Fault;
use tests::ring_change::json;

use crate::scene::{CHANGE_BOUND, EVERYTHING, Ended, HEAVY_BYTES, SLOWLY, STREAM, Scene, assert_clean, percentile_99};

/// The members, each of which gives a part of its slots to "n4".
const OLD_OWNERS: [&str; 3] = ["n1", "n2", "n3"];
/// How soon a change is given up whose streams break as soon as they are opened: three times, a second apart, each after
/// at most 3 s of connecting; and a busy machine's share.
const BREAKS_BOUND: Duration = Duration::from_secs(25);
/// How soon a change is given up whose open streams fall silent: 30 s without progress, two more tries at most, and the
/// machine's share.
const SILENCE_BOUND: Duration = Duration::from_secs(50);

/// A scene and a change in the middle of its copy.
async fn amid_the_copy(only: &'static str, more: &[&str]) -> (Scene, tests::processes::Process) {
    let scene = Scene::start(only, ClusterOptions::default()).await;
    let migrator = scene.change(&[&["add-node", "n4"], more].concat());
    scene.copying(&OLD_OWNERS, &[0; 3]).await;
    (scene, migrator)
}

/// After a change that was given up: the ring is as before, the reason is in the journal, and the next change is warm.
async fn as_before_and_then_warm(scene: &Scene) {
    scene.ring_is(1, false).await;
    let last = json(&scene.cluster, &["status"]).await["last_change"].clone();
    assert!(last["reason"].to_string().contains("--cold"), "{last}");
    scene.all_serve().await;
    scene.link.set(Fault::Pass).await;
    let result = Ended::of(scene.change(&["add-node", "n4"]), CHANGE_BOUND).await.done();
    assert_eq!(result["cold_slots"], 0, "{result}");
    scene.ring_is(2, true).await;
    let (hits, own) = scene.warm_at("n4").await;
    assert!(own > 0 && hits == own, "{hits} of {own} heavy users of n4 are warm");
}

#[tokio::test]
async fn a_link_cut_during_the_copy_costs_a_second_stream_and_the_change_is_warm() {
    let seed = rand::random();
    let (scene, migrator) = amid_the_copy(STREAM, &SLOWLY).await;
    let checker = scene.checked(seed);
    scene.link.set(Fault::Reset).await;
    scene.link.set(Fault::Pass).await;
    checker.goes_on(100).await;
    let ended = Ended::of(migrator, CHANGE_BOUND).await;
    let result = ended.done();
    println!("{result}");
    let again = ended.events("note").into_iter().filter(|note| note["text"].to_string().contains("the stream broke"));
    let again: Vec<_> = again.collect();
    assert!(!again.is_empty(), "a stream was cut: {}", ended.log);
    println!("{again:#?}");
    assert_eq!(result["cold_slots"], 0, "{result}");
    scene.ring_is(2, true).await;
    let (hits, own) = scene.warm_at("n4").await;
    assert!(own > 0 && hits == own, "{hits} of {own} heavy users of n4 are warm");
    assert_clean(checker, seed, false).await;
}

#[tokio::test]
async fn a_link_that_stays_cut_gives_the_change_up_soon_and_the_ring_is_as_before() {
    let seed = rand::random();
    let (scene, migrator) = amid_the_copy(EVERYTHING, &SLOWLY).await;
    let checker = scene.checked(seed);
    scene.link.set(Fault::Reset).await;
    let cut = Instant::now();
    let ended = Ended::of(migrator, BREAKS_BOUND).await;
    println!("given up after {:?}: {}", cut.elapsed(), ended.result());
    ended.given_up("to n4 broke");
    as_before_and_then_warm(&scene).await;
    assert_clean(checker, seed, false).await;
}

#[tokio::test]
async fn a_link_that_takes_connections_and_passes_nothing_on_gives_the_change_up_within_its_bound() {
    let seed = rand::random();
    let scene = Scene::start(STREAM, ClusterOptions::default()).await;
    let checker = scene.checked(seed);
    scene.link.set(Fault::Blackhole).await;
    let began = Instant::now();
    let ended = Ended::of(scene.change(&["add-node", "n4"]), BREAKS_BOUND).await;
    println!("given up after {:?}: {}", began.elapsed(), ended.result());
    ended.given_up("the receiver does not answer");
    as_before_and_then_warm(&scene).await;
    assert_clean(checker, seed, false).await;
}

#[tokio::test]
async fn streams_that_fall_silent_in_the_middle_give_the_change_up_within_their_bound() {
    let (scene, migrator) = amid_the_copy(STREAM, &SLOWLY).await;
    scene.link.set(Fault::Blackhole).await;
    let silent = Instant::now();
    let ended = Ended::of(migrator, SILENCE_BOUND).await;
    println!("given up after {:?}: {}", silent.elapsed(), ended.result());
    ended.given_up("n4");
    as_before_and_then_warm(&scene).await;
}

#[tokio::test]
async fn a_slow_link_makes_the_copy_longer_and_nobody_elses_requests() {
    /// What the link passes in each stream, in bytes per second.
    const RATE: u32 = 64 << 10;
    let seed = rand::random();
    let scene = Scene::start(STREAM, ClusterOptions::default()).await;
    let owners = scene.gateway.owners(&scene.heavy).await;
    let others: Vec<String> = OLD_OWNERS.iter().flat_map(|owner| owned_by(&owners, owner)).collect();
    let checker = scene.checked(seed);
    let usual = percentile_99(&scene.gateway, &others, Duration::from_secs(3), async || false).await;
    scene.link.set(Fault::Throttle(RATE)).await;
    let began = Instant::now();
    let mut migrator = scene.change(&["add-node", "n4"]);
    let slow = percentile_99(&scene.gateway, &others, CHANGE_BOUND, async || !migrator.is_running()).await;
    let took = began.elapsed();
    let result = Ended::of(migrator, CHANGE_BOUND).await.done();
    let bytes = result["copied_bytes"].as_u64().expect("a count");
    println!("{bytes} bytes in {took:?}; p99 of reads {usual:?} before, {slow:?} meanwhile; {result}");
    assert_eq!(result["cold_slots"], 0, "{result}");
    // Three streams side by side.
    let at_least = Duration::from_secs_f64(bytes as f64 / (3.0 * f64::from(RATE)));
    assert!(bytes > 8 * HEAVY_BYTES as u64 && took > at_least, "{bytes} bytes in {took:?}");
    // Generous: the machine may be busy with other tests.
    assert!(slow < 4 * usual + Duration::from_millis(250), "{usual:?} before, {slow:?} meanwhile");
    scene.ring_is(2, true).await;
    assert_clean(checker, seed, false).await;
}
