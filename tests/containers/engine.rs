//! Commands of the container engine, each bounded.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::Command;

/// The longest that one command about one container may take: an orderly stop waits for the program's drain.
const COMMAND_BOUND: Duration = Duration::from_secs(60);

/// How a command ended, and what it printed.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) well: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `docker …` to a good end; what it printed.
pub(crate) async fn docker(args: &[&str]) -> anyhow::Result<Ended> {
    let mut command = Command::new("docker");
    command.args(args);
    let ended = run(command, COMMAND_BOUND).await?;
    if !ended.well {
        bail!("docker {}: {}", args.join(" "), ended.stderr);
    }
    Ok(ended)
}

/// Runs a command to its end, and kills it after `bound`.
pub(crate) async fn run(mut command: Command, bound: Duration) -> anyhow::Result<Ended> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let said = format!("{:?}", command.as_std());
    let output = tokio::time::timeout(bound, command.output())
        .await
        .with_context(|| format!("no end within {bound:?}: {said}"))?
        .with_context(|| format!("cannot be run: {said}"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end().to_owned();
    Ok(Ended { well: output.status.success(), stdout: text(output.stdout), stderr: text(output.stderr) })
}
