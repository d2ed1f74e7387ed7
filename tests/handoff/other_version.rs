//! A receiver that does not speak the stream of its old owners: the change is given up and says what to do; cold it works.

use std::time::Duration;

use tests::cluster::ClusterOptions;
use tests::fault_proxy::Fault;
use tests::ring_change::done;

use crate::scene::{CHANGE_BOUND, Ended, STREAM, Scene, assert_clean};

/// How soon a change is given up whose streams are refused at once: three times, a second apart, on a busy machine.
const REFUSED_BOUND: Duration = Duration::from_secs(20);
/// What such receivers answer, and words of the reason. The first are of nodes of another version, the rest of none at all.
const ANSWERS: [(&str, &str); 5] = [
    (
        "HTTP/1.1 404 Not Found\r\ncontent-type: application/problem+json\r\ncontent-length: 20\r\n\r\n\
         {\"code\":\"not_found\"}",
        "n4 does not take streams of version shardcache-handoff/1 (404)",
    ),
    (
        "HTTP/1.1 409 Conflict\r\ncontent-length: 0\r\n\r\n",
        "n4 does not take streams of version shardcache-handoff/1 (409)",
    ),
    (
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: shardcache-handoff/2\r\n\r\n",
        "n4 does not take streams of version shardcache-handoff/1 (101)",
    ),
    (
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: shardcache-handoff/1\r\n\r\n\
         \x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f, and what is no frame",
        "to n4 broke",
    ),
    ("SSH-2.0-OpenSSH_9.6\r\n", "to n4 broke"),
];

#[tokio::test]
async fn a_receiver_of_another_version_is_named_with_what_to_do_and_takes_its_slots_cold() {
    let seed = rand::random();
    let scene = Scene::start(STREAM, ClusterOptions::default()).await;
    let checker = scene.checked(seed);
    for (answer, words) in ANSWERS {
        scene.link.set(Fault::Answer(answer)).await;
        let ended = Ended::of(scene.change(&["add-node", "n4"]), REFUSED_BOUND).await;
        println!("{}", ended.result()["reason"]);
        ended.given_up(words);
        ended.given_up("--cold");
        scene.ring_is(1, false).await;
    }
    scene.all_serve().await;
    let result = Ended::of(scene.change(&["add-node", "n4", "--cold"]), CHANGE_BOUND).await.done();
    assert_eq!((&result["cold_slots"], &result["copied_entries"]), (&result["moved_slots"], &0.into()), "{result}");
    scene.ring_is(2, true).await;
    scene.all_serve().await;
    // It gives its slots back warm: only what it takes is of another version.
    let back = done(&scene.cluster, &["remove-node", "n4", "--json"]).await;
    assert!(back.stdout.contains("\"cold_slots\":0"), "{back:#?}");
    scene.ring_is(3, false).await;
    scene.all_serve().await;
    assert_clean(checker, seed, false).await;
}
