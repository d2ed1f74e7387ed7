//! A program that the suite runs: pinned to a core, watched until ready, never outliving the suite.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::limits;

/// How much of a log a failure shows, in lines.
const LOG_TAIL_LINES: usize = 30;

/// Which core a program is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Core {
    /// The one of the servers under test.
    Server,
    /// The one of the load, and of what is not measured.
    Load,
    /// Any.
    Any,
}

/// The two cores of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cores {
    server: usize,
    load: usize,
}

impl Cores {
    /// The first two that this process may use; the same one twice where there is only one.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let allowed = list.and_then(first_two).context("/proc/self/status does not name the cores")?;
        Ok(Self { server: allowed.0, load: allowed.1 })
    }

    /// Whether servers and load share their core.
    pub(crate) fn is_one(self) -> bool {
        self.server == self.load
    }

    fn list(self, core: Core) -> String {
        match core {
            Core::Server => self.server.to_string(),
            Core::Load => self.load.to_string(),
            Core::Any => format!("{},{}", self.server, self.load),
        }
    }
}

/// The first two of a list such as `0-3,8`.
fn first_two(list: &str) -> Option<(usize, usize)> {
    let mut cores = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cores.extend(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?);
    }
    let first = *cores.first()?;
    Some((first, cores.get(1).copied().unwrap_or(first)))
}

/// A running program; killed when dropped.
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    cores: Cores,
}

/// How a program is started.
pub(crate) struct Launch<'a> {
    pub(crate) name: &'a str,
    pub(crate) core: Core,
    pub(crate) cores: Cores,
    /// Its directory for logs.
    pub(crate) logs: &'a Path,
    /// Whom to run as, if this is root.
    pub(crate) user: Option<&'a str>,
}

impl Launch<'_> {
    /// The command of the program, to be completed. It dies with the suite: `setpriv` says so to the kernel.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(user) = self.user.filter(|_| is_root()) {
            command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
        }
        command.args(["taskset", "-c", &self.cores.list(self.core)]).arg(program);
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command
    }

    pub(crate) fn start(&self, command: &mut Command) -> anyhow::Result<Process> {
        let log = self.logs.join(format!("{}.log", self.name));
        let file = File::options().create(true).append(true).open(&log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot start {}", self.name))?;
        Ok(Process { name: self.name.to_owned(), child, log, cores: self.cores })
    }
}

impl Process {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Moves it and all its threads to another core.
    pub(crate) fn pin(&self, core: Core) -> anyhow::Result<()> {
        let mut taskset = Command::new("taskset");
        taskset.args(["-a", "-c", "-p", &self.cores.list(core), &self.pid().to_string()]);
        run(&mut taskset, limits::COMMAND).map(drop)
    }

    /// Waits until `ready` says so; how long that took.
    pub(crate) fn wait(&mut self, mut ready: impl FnMut() -> bool) -> anyhow::Result<Duration> {
        let start = Instant::now();
        while !ready() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status} instead of getting ready\n{}", self.name, self.log_tail());
            }
            if start.elapsed() > limits::READY {
                bail!("{} is not ready after {:?}\n{}", self.name, limits::READY, self.log_tail());
            }
            std::thread::sleep(limits::LOOK_EVERY);
        }
        Ok(start.elapsed())
    }

    /// Memory in use, in bytes (`VmRSS`).
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes << 10)
    }

    /// Everything it has printed.
    pub(crate) fn log(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The end of [`Process::log`], for messages.
    pub(crate) fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    /// Stops it as its operator would, and waits for its end.
    pub(crate) fn stop(mut self, signal: Signal) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), signal)?;
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > limits::STOP {
                bail!("{} does not stop\n{}", self.name, self.log_tail());
            }
            std::thread::sleep(limits::LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end, within `limit`; what it printed, which is looked at only after its end.
pub(crate) fn output(command: &mut Command, limit: Duration) -> anyhow::Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null());
    let mut limited = Command::new("timeout");
    limited.args(["--kill-after=5", &limit.as_secs().to_string()]).arg(command.get_program());
    limited.args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            limited.env(name, value);
        }
    }
    if let Some(directory) = command.get_current_dir() {
        limited.current_dir(directory);
    }
    limited.output().with_context(|| format!("cannot run {program}"))
}

/// The same, for commands that must succeed; their stdout.
pub(crate) fn run(command: &mut Command, limit: Duration) -> anyhow::Result<String> {
    let output = output(command, limit)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("{:?} ended with {}: {said}", command.get_program(), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_cores_of_any_list_are_found() {
        assert_eq!(first_two("0-3"), Some((0, 1)));
        assert_eq!(first_two(" 5,7-9\n"), Some((5, 7)));
        assert_eq!(first_two("4"), Some((4, 4)));
        assert_eq!(first_two("x"), None);
    }
}
