//! Our own servers: nodes, a gateway, and the verbs of the migrator.

use std::process::Command;

use anyhow::Context;

use super::bench::Bench;
use super::http;
use super::postgres::Database;
use super::process::{Core, run};
use super::servers::{Server, redis_url};
use crate::limits;

/// Nodes on one database, with a ring of the first of them.
pub(crate) struct Cluster<'a> {
    bench: &'a Bench,
    pub(crate) database: Database<'a>,
    redis: Option<&'a Server>,
    l1_bytes: String,
    pub(crate) nodes: Vec<Server>,
}

impl<'a> Cluster<'a> {
    /// So many members `n1`, `n2` …, each with an L1 of that size, a number with its unit.
    pub(crate) fn start(
        bench: &'a Bench,
        database: Database<'a>,
        redis: Option<&'a Server>,
        core: Core,
        members: usize,
        l1_bytes: &str,
    ) -> anyhow::Result<Self> {
        let mut cluster = Self { bench, database, redis, l1_bytes: l1_bytes.to_owned(), nodes: Vec::new() };
        for _ in 0..members {
            cluster.add_standby(core)?;
        }
        let names: Vec<String> = (1..=members).map(|number| format!("n{number}")).collect();
        cluster.migrator(&["init", "--nodes", &names.join(",")])?;
        for node in &mut cluster.nodes {
            let address = node.address;
            // Members: with slots, and with L2 where there is one.
            node.process.wait(|| http::get(address, "/readyz").is_ok_and(|(_, body)| body.contains("\"ready\"")))?;
        }
        Ok(cluster)
    }

    /// One more node, registered and without slots.
    pub(crate) fn add_standby(&mut self, core: Core) -> anyhow::Result<()> {
        let name = format!("n{}", self.nodes.len() + 1);
        let node = self.launch_node(&name, core)?;
        self.nodes.push(node);
        Ok(())
    }

    /// A node of that name, ready.
    pub(crate) fn launch_node(&self, name: &str, core: Core) -> anyhow::Result<Server> {
        let launch = self.bench.launch(name, core);
        let address = self.bench.free_address()?;
        let mut command = launch.command(self.bench.program("cache-node")?);
        command.env("DATABASE_URL", self.database.url()).env("SHARDCACHE_NODE_ID", name);
        command.env("SHARDCACHE_LISTEN", address.to_string()).env("SHARDCACHE_L1_BYTES", &self.l1_bytes);
        if let Some(redis) = self.redis {
            command.env("REDIS_URL", redis_url(redis));
        }
        let mut process = launch.start(&mut command)?;
        process.wait(|| http::is_ok(address, "/readyz"))?;
        Ok(Server { process, address })
    }

    /// A gateway that knows the ring.
    pub(crate) fn gateway(&self, core: Core) -> anyhow::Result<Server> {
        let launch = self.bench.launch("gateway", core);
        let address = self.bench.free_address()?;
        let mut command = launch.command(self.bench.program("gateway")?);
        command.env("DATABASE_URL", self.database.url()).env("SHARDCACHE_LISTEN", address.to_string());
        let mut process = launch.start(&mut command)?;
        process.wait(|| http::is_ok(address, "/readyz"))?;
        Ok(Server { process, address })
    }

    /// Runs a verb of the migrator, which must succeed; what it prints.
    pub(crate) fn migrator(&self, args: &[&str]) -> anyhow::Result<String> {
        run(&mut self.migrator_command(args)?, limits::COMMAND)
    }

    fn migrator_command(&self, args: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(self.bench.program("migrator")?);
        command.args(args).env("DATABASE_URL", self.database.url());
        Ok(command)
    }

    /// The sum of a metric over all nodes.
    pub(crate) fn metric(&self, name: &str, labels: &str) -> anyhow::Result<f64> {
        let mut sum = 0.0;
        for node in &self.nodes {
            let (status, text) = http::get(node.address, "/metrics")?;
            anyhow::ensure!(status == 200, "/metrics is answered {status}");
            sum += http::metric(&text, name, labels);
        }
        Ok(sum)
    }

    /// Reads of the database so far.
    pub(crate) fn origin_reads(&self) -> anyhow::Result<f64> {
        self.metric("shardcache_node_origin_reads_total", "")
    }

    /// The first node.
    pub(crate) fn node(&self) -> anyhow::Result<&Server> {
        self.nodes.first().context("a cluster has nodes")
    }
}
