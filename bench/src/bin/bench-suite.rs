//! `bench-suite`: runs the measurements and writes their table and plots.

use std::process::ExitCode;

use bench::suite::{self, Options};
use clap::Parser;

fn main() -> ExitCode {
    match suite::run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
