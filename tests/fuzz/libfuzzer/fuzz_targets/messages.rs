//! `fuzz::messages` under libFuzzer.
#![no_main]

fuzz_libfuzzer::target!(messages);
