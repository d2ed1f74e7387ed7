//! The switch itself: in the program that is made for it, and in no other.

use std::time::Duration;

use tests::processes::{binary, run};

use crate::scene::{PROGRAM, VARIABLE};

const BUGS: [&str; 7] = [
    "fill-after-invalidate",
    "copy-overtakes-write",
    "owner-switch-before-acknowledgement",
    "failed-drop-taken-for-done",
    "returning-owners-entries",
    "join-older-load",
    "late-reply",
];
const BOUND: Duration = Duration::from_secs(10);

#[tokio::test]
async fn an_unknown_bug_is_refused_with_the_names_of_all() {
    let env = vec![(VARIABLE.to_owned(), "no-such-bug".to_owned())];
    let refused = run(PROGRAM, &[], &env, BOUND).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for word in BUGS.into_iter().chain([VARIABLE, "no-such-bug"]) {
        assert!(refused.stderr.contains(word), "it should say {word}: {refused:?}");
    }
}

#[test]
fn the_real_programs_have_no_trace_of_them() {
    let [with, node, standalone] = [PROGRAM, "cache-node", "shardcache"].map(|program| {
        let bytes = std::fs::read(binary(program)).expect("a readable file");
        String::from_utf8_lossy(&bytes).into_owned()
    });
    for trace in BUGS.into_iter().chain([VARIABLE, "WRONG ON PURPOSE"]) {
        assert!(with.contains(trace), "{trace} is not where it belongs: the search finds nothing");
        assert!(!node.contains(trace) && !standalone.contains(trace), "{trace} is in a real program");
    }
}
