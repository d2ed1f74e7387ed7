//! A Postgres server for the whole run, with a database for each measurement. Durable, as a production server is.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use super::bench::Bench;
use super::process::{Core, Process, is_root, run};
use crate::keyspace::KeySpace;
use crate::limits;

/// The server.
pub(crate) struct Postgres {
    pub(crate) process: Process,
    binaries: PathBuf,
    port: u16,
}

impl Postgres {
    /// A fresh server on the load's core.
    pub(crate) fn start(bench: &Bench) -> anyhow::Result<Self> {
        let binaries = binaries()?;
        let directory = bench.scratch().join("postgres");
        std::fs::create_dir(&directory)?;
        if is_root() {
            run(Command::new("chown").arg("postgres:").arg(&directory), limits::COMMAND)?;
        }
        let mut launch = bench.launch("postgres", Core::Load);
        launch.user = Some("postgres");
        let data = directory.join("data");
        let mut initdb = launch.command(binaries.join("initdb"));
        initdb.args(["-U", "postgres", "-E", "UTF8", "--locale", "C.UTF-8", "-A", "trust", "-D"]).arg(&data);
        run(initdb.current_dir("/"), limits::COMMAND)?;
        let port = bench.free_address()?.port();
        let mut command = launch.command(binaries.join("postgres"));
        command.current_dir("/").arg("-D").arg(&data).arg("-p").arg(port.to_string());
        // Room for a million rows at once without a checkpoint in the midst of a measurement.
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "max_connections=200",
            "shared_buffers=1GB",
            "max_wal_size=8GB",
            "checkpoint_timeout=1h",
        ] {
            command.arg("-c").arg(setting);
        }
        let process = launch.start(&mut command)?;
        let mut server = Self { process, binaries, port };
        let mut psql = server.psql("postgres");
        psql.args(["-c", "SELECT 1"]);
        server.process.wait(|| run(&mut psql, limits::ANSWER).is_ok())?;
        Ok(server)
    }

    /// A fresh database; its URL.
    pub(crate) fn database(&self, name: &str) -> anyhow::Result<Database<'_>> {
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(Database { server: self, name: name.to_owned() })
    }

    /// Its version, such as 15.9.
    pub(crate) fn version(&self) -> anyhow::Result<String> {
        let version = self.sql("postgres", "SHOW server_version")?;
        Ok(version.split(' ').next().unwrap_or_default().to_owned())
    }

    fn sql(&self, database: &str, sql: &str) -> anyhow::Result<String> {
        let mut psql = self.psql(database);
        Ok(run(psql.args(["-c", sql]), limits::COMMAND)?.trim().to_owned())
    }

    fn psql(&self, database: &str) -> Command {
        let mut psql = Command::new(self.binaries.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres"]);
        psql.args(["-d", database, "-p", &self.port.to_string()]);
        psql
    }
}

/// One database.
pub(crate) struct Database<'a> {
    server: &'a Postgres,
    name: String,
}

impl Database<'_> {
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{}", self.server.port, self.name)
    }

    pub(crate) fn sql(&self, sql: &str) -> anyhow::Result<String> {
        self.server.sql(&self.name, sql)
    }

    /// Puts the keys `0..keys` into the product's table, past the nodes: before anybody has asked for them.
    pub(crate) fn insert_entries(&self, space: KeySpace, keys: u64) -> anyhow::Result<()> {
        let rows = space.select(0, keys);
        self.sql(&format!(
            "INSERT INTO entries (usr, key, value, content_type, version, updated_ms) \
             SELECT usr, key, value, 'application/octet-stream', nextval('version_seq'), 0 FROM ({rows}) AS rows \
             ON CONFLICT DO NOTHING"
        ))?;
        // Or autovacuum would do it in the midst of a measurement.
        self.sql("VACUUM ANALYZE entries").map(drop)
    }

    /// The table of the cache-aside application, with the same rows.
    pub(crate) fn insert_app_entries(&self, space: KeySpace, keys: u64) -> anyhow::Result<()> {
        self.sql(
            "CREATE TABLE IF NOT EXISTS app_entries (usr text COLLATE \"C\", key text COLLATE \"C\", value bytea NOT NULL, \
             updated_ms bigint NOT NULL, PRIMARY KEY (usr, key))",
        )?;
        let rows = space.select(0, keys);
        self.sql(&format!(
            "INSERT INTO app_entries SELECT usr, key, value, 0 FROM ({rows}) AS rows ON CONFLICT DO NOTHING"
        ))?;
        self.sql("VACUUM ANALYZE app_entries").map(drop)
    }
}

fn binaries() -> anyhow::Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").context("no Postgres server found: install postgresql")?;
    let mut found: Vec<PathBuf> = versions.flatten().map(|version| version.path().join("bin")).collect();
    found.sort();
    let complete =
        |directory: &PathBuf| ["initdb", "postgres", "psql"].iter().all(|name| directory.join(name).exists());
    found.into_iter().rev().find(complete).context("no Postgres server found: install postgresql")
}
