//! A private Redis server on loopback: started, killed, paused and restarted by a test; gone when dropped.

use std::time::Duration;

use anyhow::{Context, bail};
use tempfile::TempDir;
use tokio::process::Command;

use crate::server_process::{self, ServerProcess};

/// How long it may take to come up.
const START_LIMIT: Duration = Duration::from_secs(10);

/// A server without persistence: a restart is an empty one with another run id.
pub struct RedisServer {
    process: Option<ServerProcess>,
    directory: TempDir,
    port: u16,
}

impl RedisServer {
    /// A fresh, empty server.
    pub async fn start() -> anyhow::Result<Self> {
        let directory = TempDir::with_prefix("shardcache-redis-")?;
        let mut server = Self { process: None, directory, port: server_process::free_port()? };
        server.restart().await?;
        Ok(server)
    }

    /// `redis://127.0.0.1:port`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The port on 127.0.0.1; stays the same.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts it again on the same port, empty.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.process = None;
        let log = self.directory.path().join("log");
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &self.port.to_string(), "--save", "", "--appendonly", "no"]);
        // A replica is in step at once.
        command.args(["--repl-diskless-sync-delay", "0"]);
        command.arg("--dir").arg(self.directory.path());
        self.process = Some(ServerProcess::spawn(command, &log)?);
        let ready = tokio::time::timeout(START_LIMIT, async {
            while self.cli(&["PING"]).await.ok().as_deref() != Some("PONG") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        if ready.await.is_err() {
            bail!("redis-server did not start: {}", std::fs::read_to_string(&log).unwrap_or_default());
        }
        Ok(())
    }

    /// `kill -9`.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(process) = self.process.take() {
            process.kill_all().await?;
        }
        Ok(())
    }

    /// Freezes it.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.process.as_ref().context("it does not run")?.signal_all("STOP")
    }

    /// Ends [`RedisServer::pause`].
    pub fn resume(&self) -> anyhow::Result<()> {
        self.process.as_ref().context("it does not run")?.signal_all("CONT")
    }

    /// One command through `redis-cli`; its answer.
    pub async fn cli(&self, command: &[&str]) -> anyhow::Result<String> {
        let mut cli = Command::new("redis-cli");
        cli.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]).args(command);
        Ok(server_process::run(&mut cli).await?.trim().to_owned())
    }
}
