//! Who is ejected, for how long, and how many at most.

use proptest::prelude::*;

use super::*;

const TICK: Duration = Duration::from_millis(500);

/// Nodes by number with their counters, looked at each half second.
struct Cluster {
    detector: Detector,
    now: Duration,
    counts: Vec<Counts>,
    answers: Vec<bool>,
}

impl Cluster {
    fn of(nodes: usize, by_latency: bool) -> Self {
        let detector = Detector::new(by_latency);
        Self { detector, now: Duration::ZERO, counts: vec![Counts::default(); nodes], answers: vec![true; nodes] }
    }

    fn good(&mut self, node: usize, count: u64) {
        self.counts[node].good += count;
        self.counts[node].in_a_row = 0;
    }

    fn fail(&mut self, node: usize, count: u32) {
        self.counts[node].failed += u64::from(count);
        self.counts[node].in_a_row += count;
    }

    fn time_out(&mut self, node: usize, count: u32) {
        self.counts[node].timed_out += u64::from(count);
        self.counts[node].in_a_row += count;
    }

    fn look(&mut self) -> Verdict {
        self.now += TICK;
        let names: Vec<String> = (0..self.counts.len()).map(|node| node.to_string()).collect();
        let seen: Vec<Seen<'_>> = names
            .iter()
            .enumerate()
            .map(|(node, name)| Seen { name, counts: self.counts[node], answers: self.answers[node], probed: false })
            .collect();
        let verdict = self.detector.look(self.now, &seen);
        // As the caller does: what comes back begins anew.
        for name in &verdict.back {
            let node: usize = name.parse().expect("a number");
            self.counts[node].in_a_row = 0;
        }
        verdict
    }

    /// Looks with no failures until the node is back; how long that took.
    fn until_back(&mut self, node: usize) -> Duration {
        let from = self.now;
        while !self.look().back.contains(&node.to_string()) {
            assert!(self.now - from < EJECTED_MAX * 2, "never back");
        }
        self.now - from
    }
}

#[test]
fn five_failures_in_a_row_eject_and_four_do_not() {
    let mut cluster = Cluster::of(3, false);
    cluster.fail(1, 4);
    assert_eq!(cluster.look(), Verdict::default());
    cluster.good(1, 1);
    cluster.fail(1, 4);
    assert_eq!(cluster.look(), Verdict::default(), "a good answer between them");
    cluster.fail(1, 1);
    let verdict = cluster.look();
    assert_eq!(verdict.ejected, [("1".to_owned(), Reason::InARow)]);
    assert_eq!((verdict.avoided, verdict.panic), (vec!["1".to_owned()], false));
}

#[test]
fn a_node_that_fails_half_the_time_is_ejected_though_there_are_but_three() {
    let mut cluster = Cluster::of(3, false);
    for node in 0..3 {
        cluster.good(node, 200);
    }
    cluster.fail(2, 200);
    cluster.good(2, 1);
    assert_eq!(cluster.look().ejected, [("2".to_owned(), Reason::SuccessRate)]);
}

#[test]
fn a_fault_of_all_ejects_nobody_by_rate_and_a_low_volume_says_nothing() {
    let mut cluster = Cluster::of(3, false);
    for node in 0..3 {
        cluster.fail(node, 100);
        cluster.good(node, 100);
    }
    assert_eq!(cluster.look(), Verdict::default());
    let mut cluster = Cluster::of(3, false);
    for node in 0..3 {
        cluster.good(node, 20);
    }
    cluster.fail(0, 20);
    cluster.good(0, 1);
    assert_eq!(cluster.look(), Verdict::default());
}

#[test]
fn time_outs_that_the_others_have_too_are_the_origins() {
    let mut cluster = Cluster::of(3, false);
    cluster.time_out(0, 20);
    cluster.time_out(1, 1);
    assert_eq!(cluster.look(), Verdict::default());
    let mut cluster = Cluster::of(3, false);
    cluster.time_out(0, 20);
    assert_eq!(cluster.look().ejected, [("0".to_owned(), Reason::InARow)], "it alone");
}

#[test]
fn a_silent_node_is_not_ejected_and_what_it_failed_before_it_answers_is_forgotten() {
    let mut cluster = Cluster::of(3, false);
    cluster.fail(0, 50);
    cluster.answers[0] = false;
    assert_eq!(cluster.look().ejected, []);
    // It was found silent and answers now.
    cluster.counts[0].lapses += 1;
    cluster.counts[0].in_a_row = 0;
    cluster.answers[0] = true;
    assert_eq!(cluster.look(), Verdict::default());
    cluster.fail(0, 4);
    assert_eq!(cluster.look(), Verdict::default());
}

#[test]
fn a_slow_node_is_ejected_only_where_that_is_asked_for() {
    for by_latency in [false, true] {
        let mut cluster = Cluster::of(3, by_latency);
        for node in 0..3 {
            cluster.good(node, 100);
            cluster.counts[node].reads_timed += 100;
            cluster.counts[node].reads_us += 100 * if node == 0 { 200_000 } else { 1_000 };
        }
        assert_eq!(!cluster.look().ejected.is_empty(), by_latency);
    }
}

#[test]
fn each_ejection_is_longer_up_to_the_longest_and_good_time_forgives_them() {
    let mut cluster = Cluster::of(3, false);
    let mut last = Duration::ZERO;
    for time in 1..=40 {
        cluster.fail(0, 5);
        assert_eq!(cluster.look().ejected.len(), 1, "time {time}");
        let took = cluster.until_back(0);
        assert_eq!(took, (EJECTED_BASE * time).min(EJECTED_MAX), "time {time}");
        assert!(took >= last);
        last = took;
    }
    let good = cluster.now + FORGIVEN_AFTER * 30;
    while cluster.now < good {
        assert_eq!(cluster.look(), Verdict::default());
    }
    cluster.fail(0, 5);
    cluster.look();
    assert_eq!(cluster.until_back(0), EJECTED_BASE, "all is forgiven");
}

#[test]
fn where_fewer_than_half_would_be_left_all_are_used() {
    let mut alone = Cluster::of(1, false);
    alone.fail(0, 5);
    let verdict = alone.look();
    assert_eq!((verdict.panic, verdict.avoided, verdict.ejected.len()), (true, vec![], 1));
    let mut three = Cluster::of(3, false);
    three.fail(0, 5);
    assert!(!three.look().panic);
    three.answers[1] = false;
    let verdict = three.look();
    assert!(verdict.panic && verdict.avoided.is_empty());
    three.answers[1] = true;
    assert_eq!(three.look().avoided, ["0"], "its time is not over");
}

#[test]
fn a_node_that_has_gone_is_forgotten() {
    let mut cluster = Cluster::of(3, false);
    cluster.fail(2, 5);
    cluster.look();
    cluster.counts.pop();
    assert_eq!(cluster.look().avoided, Vec::<String>::new());
    assert_eq!(cluster.detector.nodes.len(), 2);
}

/// What may happen to a node between two looks.
#[derive(Clone, Copy, Debug)]
enum Event {
    Good(u64),
    Failed(u32),
    TimedOut(u32),
    Silent(bool),
}

fn events() -> impl Strategy<Value = Vec<Vec<Event>>> {
    let event = prop_oneof![
        (1..200_u64).prop_map(Event::Good),
        (1..200_u32).prop_map(Event::Failed),
        (1..20_u32).prop_map(Event::TimedOut),
        any::<bool>().prop_map(Event::Silent),
    ];
    (1..12_usize)
        .prop_flat_map(move |nodes| proptest::collection::vec(proptest::collection::vec(event.clone(), nodes), 1..120))
}

proptest! {
    #[test]
    fn the_cap_is_never_exceeded_and_a_panic_avoids_nobody(rounds in events()) {
        let nodes = rounds[0].len();
        let mut cluster = Cluster::of(nodes, true);
        let mut ejected = 0;
        for round in rounds {
            for (node, event) in round.into_iter().enumerate() {
                match event {
                    Event::Good(count) => cluster.good(node, count),
                    Event::Failed(count) => cluster.fail(node, count),
                    Event::TimedOut(count) => cluster.time_out(node, count),
                    Event::Silent(silent) => cluster.answers[node] = !silent,
                }
            }
            let verdict = cluster.look();
            ejected = ejected + verdict.ejected.len() - verdict.back.len();
            prop_assert!(ejected <= (nodes * EJECTED_PERCENT_MAX / 100).max(1));
            let answering = cluster.answers.iter().filter(|answers| **answers).count();
            if verdict.panic {
                prop_assert!(verdict.avoided.is_empty());
            } else {
                prop_assert_eq!(verdict.avoided.len(), ejected);
                prop_assert!(answering * 2 >= nodes);
            }
            prop_assert!(verdict.ejected.iter().all(|(name, _)| cluster.counts[name.parse::<usize>().expect("a number")] != Counts::default()));
        }
    }

    #[test]
    fn a_healthy_cluster_is_left_alone(rounds in proptest::collection::vec(proptest::collection::vec(0..5_000_u64, 6), 1..100)) {
        let mut cluster = Cluster::of(6, false);
        for round in rounds {
            for (node, good) in round.into_iter().enumerate() {
                cluster.good(node, good);
            }
            prop_assert_eq!(cluster.look(), Verdict::default());
        }
    }
}
