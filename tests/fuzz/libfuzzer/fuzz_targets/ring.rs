//! `fuzz::ring` under libFuzzer.
#![no_main]

fuzz_libfuzzer::target!(ring);
