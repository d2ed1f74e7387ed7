//! `fuzz::bodies` under libFuzzer.
#![no_main]

fuzz_libfuzzer::target!(bodies);
