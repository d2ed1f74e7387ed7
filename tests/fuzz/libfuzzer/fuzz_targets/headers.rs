//! `fuzz::headers` under libFuzzer.
#![no_main]

fuzz_libfuzzer::target!(headers);
