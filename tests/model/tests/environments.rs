//! The whole protocol holds in every environment, as far as a short search goes. The long form: `cargo run --release -p model`.

use std::collections::BTreeSet;

use model::catalogue::environments;
use model::environment::Environment;
use model::mutation::Rules;
use model::search::{Bounds, Found, search};
use model::step::Model;

/// So many states are searched here of each environment.
const SHORT: Bounds = Bounds { states: 150_000, depth: usize::MAX, seconds: f64::INFINITY };

fn whole(environment: Environment) -> Found {
    let name = environment.name;
    let found = search(&Model::new(environment, Rules::WHOLE), SHORT);
    println!("{name}: {} states, {} steps, all: {}", found.states, found.depth, found.exhausted);
    found
}

#[test]
fn clients_see_one_register_and_the_invariants_hold_in_every_environment() {
    for environment in environments() {
        let name = environment.name;
        if let Some(counterexample) = whole(environment).counterexample {
            panic!("{name}\n{counterexample}");
        }
    }
}

#[test]
fn a_search_that_ends_has_seen_every_state_and_says_so() {
    let small = |name| model::catalogue::environment(name).expect("it is in the catalogue");
    let found = whole(small("crash-cold"));
    assert!(found.exhausted);
    assert!(found.states > 1_000);
    let cut = search(&Model::new(small("crash-cold"), Rules::WHOLE), Bounds { depth: 5, ..SHORT });
    assert!(!cut.exhausted);
    assert_eq!(cut.depth, 5);
}

/// The rules that have steps of their own.
const RULES: [&str; 31] = [
    "G1", "G2", "G3", "G5", "G6", "W1", "W2", "W3", "W4", "W5", "W6", "X2", "T1", "T2", "L1", "L2", "L3", "L4", "R1",
    "R3", "R4", "R7", "R8", "C1", "C2", "C3", "C4", "C5", "C6", "C9", "P4",
];

#[test]
fn every_rule_is_walked_through() {
    // Walks by chance: what a search of all orders comes to is no narrower.
    let seed: u64 = 20_260_730;
    println!("seed {seed}");
    let mut chance = seed;
    let mut walked = BTreeSet::new();
    for environment in environments() {
        let model = Model::new(environment, Rules::WHOLE);
        for _ in 0..240 {
            let mut state = model.beginning();
            for _ in 0..80 {
                let mut next = Vec::new();
                model.successors(&state, &mut |after, label| next.push((after, label.rule)));
                // Xorshift (Marsaglia, "Xorshift RNGs", 2003).
                chance ^= chance << 13;
                chance ^= chance >> 7;
                chance ^= chance << 17;
                let Some(choice) = chance.checked_rem(next.len() as u64) else { break };
                let (after, rule) = next.swap_remove(usize::try_from(choice).expect("few successors"));
                walked.insert(rule);
                state = after;
            }
        }
    }
    let missing: Vec<_> = RULES.iter().filter(|rule| !walked.contains(*rule)).collect();
    assert!(missing.is_empty(), "no walk came to {missing:?}");
}
