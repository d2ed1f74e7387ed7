//! A private Postgres server on loopback: started, stopped, killed, paused and restarted by a test; gone when dropped.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};

use crate::server_process::{self, ServerProcess};

const PASSWORD: &str = "Zx9SECRET";
/// How long a server may take to come up or go down.
const START_LIMIT: Duration = Duration::from_secs(30);
const FAST_STOP_LIMIT: Duration = Duration::from_secs(10);

/// A server of its own data directory and port.
pub struct PostgresServer {
    binaries: PathBuf,
    // The process first: it must be gone before its directory is removed.
    process: Option<ServerProcess>,
    directory: TempDir,
    port: u16,
}

impl PostgresServer {
    /// A fresh, empty server.
    pub async fn start() -> anyhow::Result<Self> {
        let binaries = binaries()?;
        let template = template(&binaries).await?;
        let directory = TempDir::with_prefix("shardcache-postgres-")?;
        server_process::run(Command::new("cp").arg("-a").arg(&template).arg(directory.path().join("data"))).await?;
        if server_process::is_root() {
            server_process::run(Command::new("chown").arg("postgres:").arg(directory.path())).await?;
        }
        let mut server = Self { binaries, process: None, directory, port: server_process::free_port()? };
        server.restart().await?;
        Ok(server)
    }

    /// `postgres://…`, with its password.
    pub fn url(&self) -> String {
        self.url_through(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)))
    }

    /// The same, through a proxy at this address.
    pub fn url_through(&self, proxy: SocketAddr) -> String {
        format!("postgres://postgres:{PASSWORD}@{proxy}/postgres")
    }

    /// The port on 127.0.0.1; stays the same.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The password in [`PostgresServer::url`], to look for where it must not be.
    pub fn password(&self) -> &'static str {
        PASSWORD
    }

    /// Starts it again, on the same port and data, after [`PostgresServer::stop`] or [`PostgresServer::kill`].
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.process = None;
        let log = self.directory.path().join("log");
        let mut command = as_postgres(&self.binaries.join("postgres"));
        command.arg("-D").arg(self.directory.path().join("data")).arg("-p").arg(self.port.to_string());
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "fsync=off",
            "max_connections=200",
            "log_connections=off",
        ] {
            command.arg("-c").arg(setting);
        }
        self.process = Some(ServerProcess::spawn(command, &log)?);
        let ready = tokio::time::timeout(START_LIMIT, async {
            while self.sql("SELECT 1").await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        if ready.await.is_err() {
            bail!("postgres did not start: {}", std::fs::read_to_string(&log).unwrap_or_default());
        }
        Ok(())
    }

    /// A fast shutdown: sessions are ended, what they were at is rolled back. A session may be stuck in an answer that nobody
    /// takes any more; as an operator would, we end the server at once then.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        if let Some(mut process) = self.process.take() {
            process.signal("INT")?;
            if !process.ends_within(FAST_STOP_LIMIT).await? {
                process.signal("QUIT")?;
            }
            process.wait(START_LIMIT).await?;
        }
        Ok(())
    }

    /// `kill -9`, the server and all its sessions.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(process) = self.process.take() {
            process.kill_all().await?;
        }
        Ok(())
    }

    /// Freezes the server and all its sessions.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.process.as_ref().context("it does not run")?.signal_all("STOP")
    }

    /// Ends [`PostgresServer::pause`].
    pub fn resume(&self) -> anyhow::Result<()> {
        self.process.as_ref().context("it does not run")?.signal_all("CONT")
    }

    /// Lets everybody on this machine in without a password from now on: each login by SCRAM costs a program built for
    /// debugging a tenth of a second of a core, and where connections break they are made by the dozen.
    pub async fn trust_everybody(&self) -> anyhow::Result<()> {
        let file = self.sql("SHOW hba_file").await?;
        self.sql(&format!("COPY (SELECT 'host all all 127.0.0.1/32 trust') TO '{file}'")).await?;
        self.sql("SELECT pg_reload_conf()").await?;
        Ok(())
    }

    /// Runs SQL in a session of its own; the rows, fields parted by `|`.
    pub async fn sql(&self, sql: &str) -> anyhow::Result<String> {
        let mut psql = self.psql();
        psql.args(["-v", "ON_ERROR_STOP=1", "-c", sql]);
        Ok(server_process::run(&mut psql).await?.trim().to_owned())
    }

    /// A session that stays open, to hold locks.
    pub async fn session(&self) -> anyhow::Result<SqlSession> {
        let mut child = self.psql().stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let input = child.stdin.take().context("stdin is piped")?;
        let output = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
        Ok(SqlSession { _child: child, input, output })
    }

    fn psql(&self) -> Command {
        let mut psql = Command::new(self.binaries.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-h", "127.0.0.1", "-U", "postgres", "-d", "postgres", "-p"]);
        psql.arg(self.port.to_string()).env("PGPASSWORD", PASSWORD).env("PGCONNECT_TIMEOUT", "5");
        psql
    }
}

/// An open `psql`; ended when dropped, its transaction rolled back.
pub struct SqlSession {
    _child: tokio::process::Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl SqlSession {
    /// Runs SQL to its end; the rows.
    pub async fn run(&mut self, sql: &str) -> anyhow::Result<Vec<String>> {
        const DONE: &str = "--done--";
        self.input.write_all(format!("{sql};\n\\echo {DONE}\n").as_bytes()).await?;
        let mut rows = Vec::new();
        while let Some(line) = self.output.next_line().await? {
            if line == DONE {
                return Ok(rows);
            }
            rows.push(line);
        }
        bail!("psql ended")
    }
}

/// Postgres does not run as root.
fn as_postgres(program: &Path) -> Command {
    if !server_process::is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]).arg(program);
    command
}

fn binaries() -> anyhow::Result<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    found.sort();
    if let Ok(output) = std::process::Command::new("pg_config").arg("--bindir").output() {
        found.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    let complete =
        |directory: &PathBuf| ["initdb", "postgres", "psql"].iter().all(|name| directory.join(name).exists());
    found.into_iter().rev().find(complete).context("no Postgres server found: install postgresql")
}

/// A data directory as `initdb` leaves it, made once per machine and boot of its temporary files, then copied.
async fn template(binaries: &Path) -> anyhow::Result<PathBuf> {
    let name = binaries.to_string_lossy().replace('/', "_");
    let kept = std::env::temp_dir().join(format!("shardcache-initdb{name}"));
    if kept.join("PG_VERSION").exists() {
        return Ok(kept);
    }
    let making = TempDir::with_prefix("shardcache-initdb-")?;
    let password = making.path().join("password");
    std::fs::write(&password, PASSWORD)?;
    if server_process::is_root() {
        server_process::run(Command::new("chown").arg("-R").arg("postgres:").arg(making.path())).await?;
    }
    let data = making.path().join("data");
    let mut initdb = as_postgres(&binaries.join("initdb"));
    initdb.args(["--no-sync", "-U", "postgres", "-E", "UTF8", "--locale", "C.UTF-8", "-A", "scram-sha-256"]);
    initdb.arg("--pwfile").arg(&password).arg("-D").arg(&data);
    server_process::run(&mut initdb).await?;
    // Lost to another test that was faster: its directory is as good.
    if std::fs::rename(&data, &kept).is_err() && !kept.join("PG_VERSION").exists() {
        bail!("cannot keep {}", kept.display());
    }
    Ok(kept)
}
