//! What every measurement needs: programs, cores, a scratch directory, ports, and how long rounds are.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::Context;
use tempfile::TempDir;

use super::Options;
use super::process::{Core, Cores, Launch};
use crate::limits;

/// One run of the suite.
pub(crate) struct Bench {
    pub(crate) scale: Scale,
    pub(crate) cores: Cores,
    /// How many processes wanted a core before the run (the load average of a minute).
    pub(crate) load_before: f64,
    /// Where our programs are: all of one profile are in one directory.
    programs: PathBuf,
    scratch: TempDir,
    next_port: AtomicU16,
}

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) smoke: bool,
    /// Rounds per server; medians are taken of them.
    pub(crate) rounds: usize,
    /// Of each round.
    pub(crate) seconds: f64,
    pub(crate) warm_up: f64,
    /// Entries of the measurements of speed.
    pub(crate) keys: u64,
    /// Entries of those of a ring change and of memory.
    pub(crate) entries: u64,
    pub(crate) users: u64,
}

impl Scale {
    fn of(options: &Options) -> Self {
        let entries = options.entries.unwrap_or(if options.smoke { 2000 } else { 1_000_000 });
        if options.smoke {
            Self { smoke: true, rounds: 1, seconds: 0.2, warm_up: 0.05, keys: 500, entries, users: 50 }
        } else {
            Self { smoke: false, rounds: 3, seconds: 1.5, warm_up: 0.4, keys: 10_000, entries, users: 1000 }
        }
    }

    /// `full`, or `smoke` in a smoke run.
    pub(crate) fn pick<T>(&self, full: T, smoke: T) -> T {
        if self.smoke { smoke } else { full }
    }
}

impl Bench {
    pub(crate) fn new(options: &Options) -> anyhow::Result<Self> {
        let own = std::env::current_exe()?;
        let programs = own.parent().context("a program is in a directory")?.to_owned();
        let scratch = TempDir::with_prefix("shardcache-bench-")?;
        // Postgres does not run as root, and must get to its data.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(scratch.path(), open)?;
        // Two runs at once should seldom meet at a port.
        let first = std::process::id() % u32::from(limits::PORTS.end - limits::PORTS.start);
        Ok(Self {
            scale: Scale::of(options),
            cores: Cores::find()?,
            load_before: load_average().unwrap_or_default(),
            programs,
            scratch,
            next_port: AtomicU16::new(first as u16),
        })
    }

    /// A program of the workspace.
    pub(crate) fn program(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.programs.join(name);
        anyhow::ensure!(
            path.is_file(),
            "{name} is not in {}: build it first, as bench/run.sh does",
            self.programs.display()
        );
        Ok(path)
    }

    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// How a program of that name is started.
    pub(crate) fn launch<'a>(&'a self, name: &'a str, core: Core) -> Launch<'a> {
        Launch { name, core, cores: self.cores, logs: self.scratch.path(), user: None }
    }

    /// An address of ours that nobody listens on.
    pub(crate) fn free_address(&self) -> anyhow::Result<SocketAddr> {
        let ports = limits::PORTS.end - limits::PORTS.start;
        let next = || limits::PORTS.start + self.next_port.fetch_add(1, Ordering::Relaxed) % ports;
        let addresses = (0..ports).map(|_| SocketAddr::from((Ipv4Addr::LOCALHOST, next())));
        addresses.into_iter().find(|address| TcpListener::bind(address).is_ok()).context("no free port")
    }

    /// A configuration of `bench/config` with its marks filled in, written into the scratch directory.
    pub(crate) fn config(&self, file: &str, marks: &[(&str, &str)]) -> anyhow::Result<PathBuf> {
        let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(file);
        let mut text =
            std::fs::read_to_string(&template).with_context(|| format!("cannot read {}", template.display()))?;
        for (mark, value) in marks {
            text = text.replace(mark, value);
        }
        let port = marks.iter().find(|(mark, _)| *mark == "@PORT@").map_or("", |(_, port)| port);
        let path = self.scratch().join(format!("{port}-{file}"));
        std::fs::write(&path, text)?;
        Ok(path)
    }
}

fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}
