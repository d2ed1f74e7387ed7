//! `fuzz::keys` under libFuzzer.
#![no_main]

fuzz_libfuzzer::target!(keys);
