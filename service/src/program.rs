//! The frame of a program that runs until it is told to stop: logs, runtime, exit code.

use std::future::Future;
use std::io::Write;
use std::process::ExitCode;

use crate::logging;
use crate::settings::LogFormat;

/// Starts logs and runtime, runs `body` to its end, and says in one line on stderr why it failed (exit code 1).
pub fn run(name: &str, log_format: Option<LogFormat>, body: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    logging::init(log_format);
    let runtime = tokio::runtime::Runtime::new().map_err(anyhow::Error::from);
    match runtime.and_then(|runtime| runtime.block_on(body)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A reader that has gone away is no reason for another exit code.
            let _ = writeln!(std::io::stderr(), "{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
