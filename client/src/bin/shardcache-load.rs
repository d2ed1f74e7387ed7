//! `shardcache-load`: the load generator that checks what it reads.

use std::process::ExitCode;

use client::load::{self, Options};

#[tokio::main]
async fn main() -> ExitCode {
    let options: Options = service::settings::parse_args();
    let report = match load::run(&options).await {
        Ok(report) => report,
        Err(error) => {
            eprintln!("error: {:#}", anyhow::Error::from(error));
            return ExitCode::FAILURE;
        }
    };
    if options.json {
        println!("{}", serde_json::to_string(&report).expect("a report is JSON"));
    } else {
        println!("{report}");
    }
    if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
