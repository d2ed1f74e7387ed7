//! The short form of fuzzing: every check on its corpus, on random bytes, and on changed pieces of the corpus.

use std::path::Path;

use fuzz::{CHECKS, Check};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// All inputs that the long form has kept.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let files = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    files.map(|file| std::fs::read(file.expect("an entry").path()).expect("a file")).collect()
}

#[test]
fn every_check_has_a_corpus_and_passes_on_it() {
    for (name, check) in CHECKS {
        let corpus = corpus(name);
        assert!(corpus.len() > 3, "{name} has {} files", corpus.len());
        corpus.iter().for_each(|input| check(input));
    }
}

fn check_named(name: &str) -> Check {
    CHECKS.iter().find(|(known, _)| *known == name).expect("one of the checks").1
}

fn any_name() -> impl Strategy<Value = &'static str> {
    select(CHECKS.map(|(name, _)| name).to_vec())
}

/// The beginning of one input and the end of another, with some bytes changed.
fn changed_piece(name: &'static str) -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    let input = select(corpus(name));
    let cut = any::<(Index, Index)>();
    let changes = vec((any::<Index>(), any::<u8>()), 0..4);
    (input.clone(), input, cut, changes).prop_map(move |(first, second, (cut, join), changes)| {
        let mut input = first[..cut.index(first.len() + 1)].to_vec();
        input.extend_from_slice(&second[join.index(second.len() + 1)..]);
        if !input.is_empty() {
            changes.iter().for_each(|(at, byte)| *at.get_mut(&mut input) = *byte);
        }
        (name, input)
    })
}

proptest! {
    // A failing input is printed; it belongs into the corpus.
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_check_passes_on_random_bytes(name in any_name(), input in vec(any::<u8>(), 0..600)) {
        check_named(name)(&input);
    }

    #[test]
    fn every_check_passes_on_changed_pieces_of_its_corpus((name, input) in any_name().prop_flat_map(changed_piece)) {
        check_named(name)(&input);
    }
}
