//! A server's process and its children: signals, waiting, and never outliving the test.

use std::fs::File;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::{Child, Command};

/// How long a helper command (`cp`, `psql`, …) may take.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// Ports of servers: below Linux's `ip_local_port_range`, which begins with 32768.
const PORTS: Range<u16> = 10_000..32_000;
/// How long the killed may take to be gone.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// A running server; killed with its children when dropped.
pub(crate) struct ServerProcess {
    child: Child,
    pid: u32,
    gone: bool,
}

impl ServerProcess {
    pub(crate) fn spawn(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {:?}", command.as_std().get_program()))?;
        let pid = child.id().context("it has just been started")?;
        Ok(Self { child, pid, gone: false })
    }

    pub(crate) fn signal(&self, signal: &str) -> anyhow::Result<()> {
        kill(signal, &[self.pid])
    }

    /// To the server first, so that it starts no more children meanwhile.
    pub(crate) fn signal_all(&self, signal: &str) -> anyhow::Result<()> {
        self.signal(signal)?;
        // A child may end between being listed and being signalled, which is as good.
        let _ = kill(signal, &children(self.pid));
        Ok(())
    }

    /// Whether it ends in that time.
    pub(crate) async fn ends_within(&mut self, limit: Duration) -> anyhow::Result<bool> {
        match tokio::time::timeout(limit, self.child.wait()).await {
            Ok(ended) => ended.map(|_| true).map_err(Into::into),
            Err(_) => Ok(false),
        }
    }

    pub(crate) async fn wait(mut self, limit: Duration) -> anyhow::Result<()> {
        tokio::time::timeout(limit, self.child.wait()).await.context("it does not end")??;
        self.gone = true;
        Ok(())
    }

    /// Kills it and its children, and waits until their sockets are closed.
    pub(crate) async fn kill_all(self) -> anyhow::Result<()> {
        let children = kill_with_children(self.pid);
        self.wait(KILL_LIMIT).await?;
        let gone = tokio::time::timeout(KILL_LIMIT, async {
            while children.iter().any(|pid| is_alive(*pid)) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        gone.await.context("a child does not end")
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if !self.gone {
            kill_with_children(self.pid);
            // Reaped here, so that the pid cannot be another's by the time we signal it.
            while matches!(self.child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Stops the server before killing, so that it starts no child that would be missed. The children's pids.
fn kill_with_children(pid: u32) -> Vec<u32> {
    let _ = kill("STOP", &[pid]);
    let mut all = children(pid);
    let _ = kill("KILL", &[pid]);
    let _ = kill("KILL", &all);
    all.sort_unstable();
    all
}

fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // "pid (name) state …": a zombie has closed its sockets.
    !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

fn children(pid: u32) -> Vec<u32> {
    let output = std::process::Command::new("pgrep").arg("-P").arg(pid.to_string()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

fn kill(signal: &str, pids: &[u32]) -> anyhow::Result<()> {
    if pids.is_empty() {
        return Ok(());
    }
    let mut command = std::process::Command::new("kill");
    command.arg(format!("-{signal}")).args(pids.iter().map(u32::to_string));
    let output = command.output()?;
    if output.status.success() { Ok(()) } else { bail!("kill: {}", String::from_utf8_lossy(&output.stderr)) }
}

/// Runs a command to its end; its output.
pub(crate) async fn run(command: &mut Command) -> anyhow::Result<String> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(RUN_LIMIT, command.output()).await.context("a command hangs")??;
    if !output.status.success() {
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        bail!("{program}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A port that nobody listens on just now. It is not one of those that outgoing connections are given, or one of them could
/// take it while a restarted server is away.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    const TRIES: usize = 100;
    let ports = (0..TRIES).map(|_| rand::random_range(PORTS));
    let mut free = ports.filter(|port| std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    free.next().context("no free port")
}

pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
