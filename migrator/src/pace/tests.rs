//! Windows from reports, and when copying pauses and goes on.

use placement::{Incarnation, NodeId};
use wire::control::{DurationBucket, LoadReport};

use super::window::Percentile;
use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn report(name: &str, incarnation: i64, durations: &[(Option<u64>, u64)], origin_reads: u64) -> LoadReport {
    let node: NodeId = name.parse().expect("a node id");
    let bucket = |&(at_most_us, requests): &(Option<u64>, u64)| DurationBucket { at_most_us, requests };
    let durations = durations.iter().map(bucket).collect();
    LoadReport { node, incarnation: Incarnation(incarnation), durations, origin_reads }
}

/// A node that answered so many requests fast, and so many slowly.
fn load(name: &str, fast: u64, slow: u64, reads: u64) -> LoadReport {
    report(name, 1, &[(Some(1_000), fast), (Some(500_000), slow), (None, 0)], reads)
}

fn within(ms: u64) -> Option<Percentile> {
    Some(Percentile { within: Some(Duration::from_millis(ms)) })
}

#[test]
fn a_window_adds_up_what_all_nodes_did_since_the_last_reports() {
    let before = [load("n1", 1_000, 500, 40), load("n2", 10, 10, 7)];
    let after = [load("n1", 1_990, 500, 60), load("n2", 20, 11, 17)];
    let window = window(&before, &after, 2 * SECOND);
    assert_eq!((window.requests, window.origin_reads, window.origin_reads_per_second), (1_001, 30, 15.0));
    assert_eq!(window.p99, within(1), "one slow request in a thousand");
}

#[test]
fn two_slow_requests_in_a_hundred_are_the_99th_percentile() {
    let of = |fast, slow| window(&[load("n1", 0, 0, 0)], &[load("n1", fast, slow, 0)], SECOND).p99;
    assert_eq!(of(99, 1), within(1));
    assert_eq!(of(98, 2), within(500));
    assert_eq!(of(0, 100), within(500));
}

#[test]
fn few_requests_say_nothing_about_the_99th_percentile() {
    let of = |slow| window(&[load("n1", 0, 0, 0)], &[load("n1", 0, slow, 5)], SECOND);
    assert_eq!((of(99).p99, of(99).origin_reads), (None, 5));
    assert_eq!(of(100).p99, within(500));
    assert_eq!(window(&[], &[], SECOND), Window::default());
}

#[test]
fn requests_beyond_the_last_bound_are_over_any_bound() {
    let after = report("n1", 1, &[(Some(1_000), 90), (None, 10)], 0);
    let window = window(&[report("n1", 1, &[], 0)], &[after], SECOND);
    assert_eq!(window.p99, Some(Percentile { within: None }));
    let bounds = Bounds { max_p99: Some(Duration::from_secs(3600)), ..Bounds::default() };
    let over = bounds.broken_by(&window).expect("over");
    assert!(over.to_string().contains("longer than nodes measure"), "{over}");
}

#[test]
fn a_node_that_is_new_or_was_started_again_counts_from_its_next_report() {
    let before = [load("n1", 0, 0, 100), report("n2", 1, &[(Some(1_000), 50)], 100)];
    let restarted = report("n2", 2, &[(Some(1_000), 5_000)], 5_000);
    let fewer_reads = load("n1", 500, 0, 99);
    let stranger = load("n3", 5_000, 0, 5_000);
    assert_eq!(window(&before, &[fewer_reads, restarted, stranger], SECOND), Window::default());
    let fewer_requests = report("n2", 1, &[(Some(1_000), 49)], 200);
    assert_eq!(window(&before, &[fewer_requests], SECOND), Window::default());
    assert_eq!(window(&before, &[load("n1", 0, 0, 103)], Duration::ZERO).origin_reads, 3, "no division by zero");
}

fn slow() -> Window {
    Window { requests: 100, p99: within(500), ..Window::default() }
}

fn good() -> Window {
    Window { requests: 100, p99: within(250), origin_reads: 10, origin_reads_per_second: 10.0 }
}

fn bounds() -> Bounds {
    Bounds { max_origin_reads: Some(10), max_p99: Some(Duration::from_millis(250)) }
}

#[test]
fn what_is_at_the_bound_is_within_it() {
    assert_eq!(bounds().broken_by(&good()), None);
    assert!(matches!(bounds().broken_by(&slow()), Some(Over::P99 { .. })));
    let reads = Window { origin_reads_per_second: 10.5, ..good() };
    assert!(matches!(bounds().broken_by(&reads), Some(Over::OriginReads { allowed: 10, .. })));
    assert_eq!(Bounds::default().broken_by(&Window { origin_reads_per_second: 1e9, ..slow() }), None);
    assert_eq!(bounds().broken_by(&Window::default()), None, "nothing known breaks nothing");
}

#[test]
fn copying_pauses_at_the_first_bad_window_and_goes_on_after_two_good_ones_in_a_row() {
    let start = Instant::now();
    let at = |seconds: u32| start + SECOND * seconds;
    let mut governor = Governor::new(bounds());
    assert_eq!(governor.judge(at(1), &good()), None);
    assert!(matches!(governor.judge(at(2), &slow()), Some(Turn::Pause(Over::P99 { .. }))));
    assert!(governor.paused().is_some());
    for (second, window) in [(3, good()), (4, slow()), (5, good())] {
        assert_eq!(governor.judge(at(second), &window), None, "second {second}");
    }
    assert_eq!(governor.judge(at(6), &Window::default()), Some(Turn::Resume), "no traffic is no bad traffic");
    assert_eq!(governor.paused(), None);
    governor.judge(at(10), &slow());
    assert_eq!(governor.paused_for(at(13)), 7 * SECOND, "all pauses together");
}
