//! `fuzz::frames` under libFuzzer.
#![no_main]

fuzz_libfuzzer::target!(frames);
