//! Our programs as real processes: started on a free address, watched until ready, signalled, and ended with the test.

use std::collections::HashSet;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::http;
use crate::poll::until;

/// How long a program may take to become ready: it may have to wait for a slow database on a busy machine.
const READY_BOUND: Duration = Duration::from_secs(30);
/// How long a program may take to end after a SIGTERM: the default drain of 10 s, and as much again.
pub const STOP_BOUND: Duration = Duration::from_secs(20);
/// How much of a log a failure shows, in lines.
const LOG_TAIL_LINES: usize = 60;

/// Names and values of the environment of a program.
pub type Env = Vec<(String, String)>;

/// One running program. Dropping it kills it.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    _dir: Option<TempDir>,
}

/// What a program that ran to its end has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

/// The path of a program of the workspace, built with the same profile as the running test.
///
/// # Panics
/// When it is not built: `cargo test` of one package does not build the programs of others.
pub fn binary(program: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.parent().and_then(Path::parent).expect("tests are in target/<profile>/deps");
    let path = profile.join(program);
    let build = if program == "cache-node-old-bugs" {
        "cargo build --workspace --bin cache-node-old-bugs --features cache-node/old-bugs"
    } else {
        "cargo build --workspace --bins"
    };
    assert!(path.is_file(), "{program} is not in {}: run `{build}` first", profile.display());
    path
}

/// An address of this machine that nobody listens on, for a program that is about to be started.
///
/// Each test process has a loopback IP of its own and never gives a port twice, so that no other test and no outgoing
/// connection takes the port between this check and the program's start.
pub fn free_address() -> SocketAddr {
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    // 127.0.0.0 to 127.63.255.255 stays free: services of the machine itself are there.
    let ip = Ipv4Addr::new(127, 64 | (high & 63), middle, low.clamp(1, 254));
    let mut given = GIVEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let given = given.get_or_insert_default();
    loop {
        let listener = TcpListener::bind((ip, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        if given.insert(address.port()) {
            return address;
        }
    }
}

impl Process {
    /// Starts a program of the workspace with exactly this environment (and `PATH`).
    pub fn start(program: &str, args: &[&str], env: &Env) -> Self {
        Self::start_logging(program, args, env, None)
    }

    /// The same; its log is added to this file, and outlives it.
    pub fn start_logging(program: &str, args: &[&str], env: &Env, log: Option<&Path>) -> Self {
        let dir = log.is_none().then(|| tempfile::tempdir().expect("a temporary directory"));
        let own = dir.as_ref().map(|dir| dir.path().join("log"));
        let log = log.map(Path::to_owned).or(own).expect("one of the two");
        let file = File::options().create(true).append(true).open(&log).expect("a log file");
        let child = command(program, args, env)
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a second handle"))
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {program}: {error}"));
        Self { name: program.to_owned(), child, log, _dir: dir }
    }

    /// Waits until `GET http://{address}{path}` is 200.
    ///
    /// # Panics
    /// When the program ends first, or the wait takes too long; the message has the end of the log.
    pub async fn wait_ready(&mut self, address: SocketAddr, path: &str) {
        let url = format!("http://{address}{path}");
        let client = http::client();
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                panic!("{} ended with {status} instead of getting ready\n{}", self.name, self.log_tail());
            }
            if client.get(&url).send().await.is_ok_and(|answer| answer.status() == 200) {
                return;
            }
            assert!(start.elapsed() < READY_BOUND, "{} {path} is not 200 in time\n{}", self.name, self.log_tail());
            tokio::time::sleep(crate::poll::PAUSE).await;
        }
    }

    /// Freezes it: SIGSTOP.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a frozen program go on: SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it without a chance to clean up: SIGKILL. Returns when it is gone.
    pub fn kill(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to stop: SIGTERM. Does not wait.
    pub fn ask_to_stop(&self) {
        self.signal(Signal::TERM);
    }

    /// Asks it to stop and waits for the end.
    pub async fn stop(&mut self) -> ExitStatus {
        self.ask_to_stop();
        self.wait_end(STOP_BOUND).await
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// When it does not come within `bound`.
    pub async fn wait_end(&mut self, bound: Duration) -> ExitStatus {
        let Self { child, .. } = self;
        let end = until(bound, async || child.try_wait().expect("a child can be waited for")).await;
        end.unwrap_or_else(|| panic!("{} did not end in {bound:?}\n{}", self.name, self.log_tail()))
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything it has printed, stdout and stderr together.
    pub fn log(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The last lines of [`Self::log`], for messages.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        format!("--- {} ---\n{}", self.name, lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n"))
    }

    fn signal(&self, signal: Signal) {
        // Fails only when the process has ended, which the test sees by what it does next.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("{}", self.log_tail());
        }
    }
}

/// Runs a program of the workspace to its end; kills it and panics after `bound`.
pub async fn run(program: &str, args: &[&str], env: &Env, bound: Duration) -> Finished {
    let mut command = tokio::process::Command::from(command(program, args, env));
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(bound, output)
        .await
        .unwrap_or_else(|_elapsed| panic!("{program} {args:?} did not end in {bound:?}"))
        .unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Finished { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn command(program: &str, args: &[&str], env: &Env) -> Command {
    let mut command = Command::new(binary(program));
    command.args(args).env_clear();
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.envs(env.iter().map(|(name, value)| (name, value)));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_given_once_and_can_be_listened_on() {
        let addresses: Vec<_> = (0..50).map(|_| free_address()).collect();
        let distinct: HashSet<_> = addresses.iter().collect();
        assert_eq!(distinct.len(), addresses.len());
        let _listeners: Vec<_> = addresses.iter().map(|address| TcpListener::bind(address).expect("free")).collect();
    }

    #[test]
    #[should_panic(expected = "run `cargo build --workspace --bins` first")]
    fn a_program_that_is_not_built_is_named() {
        binary("no-such-program");
    }
}
