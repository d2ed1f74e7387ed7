//! `fuzz::lane` under libFuzzer.
#![no_main]

fuzz_libfuzzer::target!(lane);
