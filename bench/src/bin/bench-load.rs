//! `bench-load`: the load generator of the suite.

use std::process::ExitCode;

use bench::load::{self, Options};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<ExitCode> {
    let report = load::run(&Options::parse())?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
