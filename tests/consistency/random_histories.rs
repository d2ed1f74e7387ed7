//! Random histories: those of a simulated register pass; of small ones the checker says what trying every order says.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tests::history::{Action, History, Operation, Outcome};
use tests::linearizable::{Wrong, check};

use crate::simulated::{Mix, simulate, without_versions};

const SMALL: Mix = Mix { clients: 4, operations: 8, writes: 60, deletes: 30, unknown: 20, refused: 10, longest: 60 };
/// As a hot key of a real run.
const LARGE: Mix =
    Mix { clients: 16, operations: 5000, writes: 40, deletes: 15, unknown: 5, refused: 2, longest: 3000 };

fn seeded() -> (u64, StdRng) {
    let given = std::env::var("SHARDCACHE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    println!("seed {seed}");
    (seed, StdRng::seed_from_u64(seed))
}

/// Whether there is an order, by trying all: as the definition says, with nothing clever.
fn has_an_order(operations: &[Operation]) -> bool {
    let executed: Vec<_> = operations.iter().filter(|operation| operation.outcome != Outcome::Refused).collect();
    try_orders(&executed, None)
}

fn try_orders(left: &[&Operation], state: Option<u64>) -> bool {
    if left.iter().all(|operation| operation.outcome == Outcome::Unknown) {
        return true;
    }
    (0..left.len()).any(|first| {
        let operation = left[first];
        let waits = left.iter().any(|other| other.settled().is_some_and(|settled| settled < operation.begun));
        let after = match (operation.outcome, operation.action) {
            (Outcome::Read { value, .. }, _) if value == state => state,
            (Outcome::Done { .. } | Outcome::Unknown, Action::Put(value)) => Some(value),
            (Outcome::Done { .. } | Outcome::Unknown, Action::Delete) => None,
            _ => return false,
        };
        let rest: Vec<_> = left.iter().enumerate().filter(|(at, _)| *at != first).map(|(_, other)| *other).collect();
        !waits && try_orders(&rest, after)
    })
}

/// Gives one read another answer; false if there is no read.
fn lie(history: &mut History, chance: &mut StdRng) -> bool {
    let values = history.operations.iter().filter_map(|operation| match operation.action {
        Action::Put(value) => Some(value),
        _ => None,
    });
    let values: Vec<_> = values.map(Some).chain([None]).collect();
    let mut reads: Vec<_> = history
        .operations
        .iter_mut()
        .filter(|operation| operation.action == Action::Get && matches!(operation.outcome, Outcome::Read { .. }))
        .collect();
    if reads.is_empty() {
        return false;
    }
    let read = chance.random_range(0..reads.len());
    reads[read].outcome = Outcome::Read { value: values[chance.random_range(0..values.len())], version: None };
    true
}

/// The checker and all orders say the same; and what is left of a violation has no order either. Whether it had one.
fn assert_agreed(history: &History, seed: u64) -> bool {
    let expected = has_an_order(&history.operations);
    match check(history) {
        Ok(_) => assert!(expected, "seed {seed}: no order, and not found: {history:#?}"),
        Err(violation) => {
            assert!(!expected, "seed {seed}: there is an order: {violation}");
            assert!(!has_an_order(&violation.minimal), "seed {seed}: the minimal history has an order: {violation}");
        }
    }
    expected
}

#[test]
fn of_small_histories_with_a_lie_the_checker_says_what_all_orders_say() {
    let (seed, mut chance) = seeded();
    let mut bad = 0;
    for _ in 0..4000 {
        let mut history = without_versions(simulate(&SMALL, &mut chance));
        assert!(assert_agreed(&history, seed), "seed {seed}: the simulated register is none: {history:#?}");
        if lie(&mut history, &mut chance) {
            bad += u32::from(!assert_agreed(&history, seed));
        }
    }
    assert!(bad > 500, "seed {seed}: {bad} lies showed");
}

#[test]
fn of_small_histories_made_of_anything_the_checker_says_what_all_orders_say() {
    let (seed, mut chance) = seeded();
    let (mut good, mut bad) = (0, 0);
    for _ in 0..8000 {
        let operations = (1..=chance.random_range(2..8)).map(|number| anything(number, &mut chance)).collect();
        let history = History { operations, ..History::default() };
        if assert_agreed(&history, seed) { good += 1 } else { bad += 1 }
    }
    assert!(good > 500 && bad > 500, "seed {seed}: {good} good, {bad} bad");
}

/// An operation at any time, long or short, with any answer; times meet often.
fn anything(number: u64, chance: &mut StdRng) -> Operation {
    let begun = chance.random_range(0..12);
    let ended = begun + chance.random_range(1..8);
    let value = Some(chance.random_range(0..5)).filter(|value| *value > 0);
    let read = Outcome::Read { value, version: None };
    let done = Outcome::Done { version: None };
    let (action, outcome) = match chance.random_range(0..12) {
        0..4 => (Action::Get, read),
        4..7 => (Action::Put(number), done),
        7 => (Action::Put(number), Outcome::Unknown),
        8 => (Action::Put(number), Outcome::Refused),
        9 => (Action::Delete, done),
        10 => (Action::Delete, Outcome::Unknown),
        _ => (Action::Delete, Outcome::Read { value: None, version: None }),
    };
    let (begun, ended) = (Duration::from_millis(begun), Duration::from_millis(ended));
    Operation { client: number as u32, key: 0, action, outcome, begun, ended }
}

#[test]
fn long_histories_of_a_register_pass_in_about_as_many_steps_as_operations() {
    let (seed, mut chance) = seeded();
    for mix in [
        LARGE,
        Mix { writes: 70, unknown: 33, ..LARGE },
        Mix { deletes: 60, unknown: 33, ..LARGE },
        Mix { clients: 32, writes: 90, deletes: 50, ..LARGE },
        // A few operations last as long as hundreds of others.
        Mix { longest: 100_000, ..LARGE },
    ] {
        let history = simulate(&mix, &mut chance);
        let checked = check(&history).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        println!("{checked:?}");
        assert!(checked.steps < 20 * mix.operations as u64, "seed {seed}: {checked:?}");
    }
}

#[test]
fn a_lie_in_a_long_history_is_judged_in_few_steps_too() {
    let (seed, mut chance) = seeded();
    let mut bad = 0;
    for clients in [8, 16, 32] {
        for longest in [500, 3000, 30_000] {
            let mix = Mix { clients, operations: 1500, writes: 70, deletes: 50, longest, ..LARGE };
            let mut history = without_versions(simulate(&mix, &mut chance));
            lie(&mut history, &mut chance);
            if let Err(violation) = check(&history) {
                assert!(
                    violation.wrong != Wrong::Undecided && violation.minimal.len() < 20,
                    "seed {seed}: {violation}"
                );
                bad += 1;
            }
        }
    }
    assert!(bad > 3, "seed {seed}: {bad} lies showed");
}

#[test]
fn one_stale_read_in_a_long_history_is_found_and_shown_with_few_others() {
    let (seed, mut chance) = seeded();
    let mut history = without_versions(simulate(&LARGE, &mut chance));
    history.operations.sort_by_key(|operation| operation.begun);
    let written = history.operations[1000].begun;
    let is_old = |value: u64| {
        // Of known outcome: one that may take effect at any time takes another read to be shown too old.
        let done =
            |operation: &Operation| matches!(operation.outcome, Outcome::Done { .. }) && operation.ended < written;
        history.operations.iter().any(|operation| operation.action == Action::Put(value) && done(operation))
    };
    // A value that was read long ago was overwritten long ago.
    let old = history.operations[..1000].iter().rev().find_map(|operation| match operation.outcome {
        Outcome::Read { value: Some(value), .. } if is_old(value) => Some(value),
        _ => None,
    });
    let read = history.operations[4000..].iter().position(|operation| operation.action == Action::Get);
    let read = 4000 + read.expect("a read");
    history.operations[read].outcome = Outcome::Read { value: old, version: None };
    let violation = check(&history).expect_err("a stale read");
    println!("{violation}");
    assert_eq!(violation.wrong, Wrong::NoOrder, "seed {seed}");
    assert!(violation.minimal.len() <= 4, "seed {seed}: {violation}");
    assert!(violation.minimal.contains(&history.operations[read]), "seed {seed}: {violation}");
}
