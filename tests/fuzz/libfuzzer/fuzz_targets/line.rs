//! `fuzz::line` under libFuzzer.
#![no_main]

fuzz_libfuzzer::target!(line);
