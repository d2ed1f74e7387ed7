//! Each policy's choices over many requests, and that sick nodes come last.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::ring_view::tests::view_of;

/// By the sum of squared deviations: what even chance exceeds in fewer than one of a hundred thousand runs.
pub(super) fn assert_even(counts: &[u32]) {
    let expected = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    let chi_square: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
    let freedom = (counts.len() - 1) as f64;
    // The normal approximation of Wilson and Hilferty, at 4.3 deviations.
    let bound = freedom * (1.0 - 2.0 / (9.0 * freedom) + 4.3 * (2.0 / (9.0 * freedom)).sqrt()).powi(3);
    assert!(chi_square <= bound, "{counts:?}: {chi_square:.1} > {bound:.1}");
}

/// How often each node is asked first.
fn firsts(policy: Balance, view: &RingView, times: usize) -> BTreeMap<String, u32> {
    let balancer = Balancer::new(policy);
    let mut counts = BTreeMap::new();
    for _ in 0..times {
        let first = balancer.order(view, None).remove(0);
        *counts.entry(first.address().to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn round_robin_gives_each_node_the_same() {
    let counts = firsts(Balance::RoundRobin, &view_of(&[100, 200, 300]), 3_000);
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [1_000; 3]);
}

#[test]
fn weighted_gives_each_node_what_its_weight_says() {
    let counts = firsts(Balance::Weighted, &view_of(&[100, 200, 300]), 6_000);
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [1_000, 2_000, 3_000]);
}

#[test]
fn chance_and_equal_nodes_are_even_under_every_policy() {
    for policy in [Balance::Random, Balance::LeastRequests, Balance::LatencyAware] {
        let counts = firsts(policy, &view_of(&[100, 200, 300, 400]), 8_000);
        assert_even(&counts.into_values().collect::<Vec<_>>());
    }
}

#[test]
fn a_busy_node_gets_less_and_what_is_under_way_ends_when_dropped() {
    let view = view_of(&[100; 3]);
    let busy = &view.nodes()[0].upstream;
    let underway: Vec<_> = (0..10).map(|_| busy.load().begin()).collect();
    let counts = firsts(Balance::LeastRequests, &view, 1_000);
    assert_eq!(counts.get(busy.address()), None);
    drop(underway);
    let counts = firsts(Balance::LeastRequests, &view, 3_000);
    assert_even(&counts.into_values().collect::<Vec<_>>());
}

#[test]
fn a_slow_node_gets_less_where_latency_counts() {
    let view = view_of(&[100; 3]);
    let slow = &view.nodes()[0].upstream;
    for node in view.nodes() {
        node.upstream.load().peak.note(Duration::from_millis(1));
    }
    slow.load().peak.note(Duration::from_millis(200));
    assert_eq!(firsts(Balance::LatencyAware, &view, 1_000).get(slow.address()), None);
    assert!(firsts(Balance::LeastRequests, &view, 1_000).contains_key(slow.address()));
}

#[test]
fn sick_nodes_come_last_under_every_policy_and_the_one_left_out_never() {
    let view = view_of(&[100; 4]);
    let nodes = view.nodes();
    nodes[0].upstream.standing().set_in_doubt(true);
    nodes[1].upstream.standing().set_ejected(true);
    for policy in
        [Balance::RoundRobin, Balance::Weighted, Balance::LeastRequests, Balance::Random, Balance::LatencyAware]
    {
        let balancer = Balancer::new(policy);
        for _ in 0..20 {
            let order = balancer.order(&view, Some(&nodes[2].upstream));
            let order: Vec<&str> = order.iter().map(|node| node.address()).collect();
            let expected = [&nodes[3], &nodes[1], &nodes[0]].map(|node| node.upstream.address());
            assert_eq!(order, expected);
        }
    }
}
