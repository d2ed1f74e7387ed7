//! `fuzz::envelope` under libFuzzer.
#![no_main]

fuzz_libfuzzer::target!(envelope);
