//! The whole protocol holds in every environment, as far as a short search goes. The long form: `cargo run --release -p model`.

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
