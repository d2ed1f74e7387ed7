//! The cluster that faults are done to: all processes, with a link of its own for each connection.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use tests::cluster::{Cluster, ClusterOptions, Links};
use tests::door::Door;
use tests::poll::until;
use tests::postgres::SqlSession;
use tests::processes::{Env, Process};
use tests::redis::RedisServer;
use tests::ring_change::warm;

use crate::fault::{CONTROLLERS, FIRST_MEMBERS, GATEWAYS, GRACE, NODES, node_name};

/// How long a replica may take to be in step with an idle primary.
const FOLLOW_BOUND: Duration = Duration::from_secs(10);

/// A cluster and its servers. Dropping it ends every process, in whatever state faults have left it.
pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    pub(crate) doors: Vec<Door>,
    /// The L2 servers: the one that links lead to, and one that once followed it.
    pub(crate) redis: [RedisServer; 2],
    /// Which of them links lead to.
    pub(crate) primary: usize,
    pub(crate) controllers: Vec<Process>,
    /// Migrators of operators, old and new.
    pub(crate) operators: Vec<Process>,
    /// Holds a table.
    pub(crate) lock: Option<SqlSession>,
    /// What happened that no schedule says, by what it is.
    pub(crate) notes: BTreeMap<&'static str, u64>,
    logs: PathBuf,
}

impl Stage {
    /// Starts everything; logs go to files in `logs`.
    pub(crate) async fn start(env: Env, logs: &Path) -> anyhow::Result<Self> {
        let options = ClusterOptions {
            nodes: FIRST_MEMBERS,
            gateways: GATEWAYS,
            links: Links::Each,
            logs: Some(logs.to_owned()),
            env,
            ..ClusterOptions::default()
        };
        let mut cluster = Cluster::start(options).await;
        cluster.postgres.as_ref().context("on Postgres")?.trust_everybody().await?;
        for number in FIRST_MEMBERS..NODES {
            cluster.add_standby(&node_name(number), &[]).await;
        }
        warm(&cluster).await;
        let redis = [cluster.redis.remove(0), RedisServer::start().await?];
        let doors = (0..GATEWAYS).map(|number| Door::of(&cluster, number)).collect();
        let mut stage = Self {
            cluster,
            doors,
            redis,
            primary: 0,
            controllers: Vec::new(),
            operators: Vec::new(),
            lock: None,
            notes: BTreeMap::new(),
            logs: logs.to_owned(),
        };
        for number in 0..CONTROLLERS {
            let controller = stage.start_controller(number);
            stage.controllers.push(controller);
        }
        Ok(stage)
    }

    pub(crate) fn start_controller(&self, number: usize) -> Process {
        let grace = format!("{}ms", GRACE.as_millis());
        let log = self.logs.join(format!("controller-{number}.log"));
        Process::start_logging("migrator", &["watch", "--grace", &grace], &self.cluster.migrator_env(), Some(&log))
    }

    /// The server that links lead to, and the other.
    pub(crate) fn redis_pair(&self) -> (&RedisServer, &RedisServer) {
        (&self.redis[self.primary], &self.redis[1 - self.primary])
    }

    /// Has the other L2 server get all entries of the primary and then leave it: it grows old from here on.
    pub(crate) async fn copy_redis(&self) -> anyhow::Result<()> {
        let (primary, other) = self.redis_pair();
        follow(other, Some(primary)).await?;
        let in_step = until(FOLLOW_BOUND, async || {
            let info = other.cli(&["INFO", "replication"]).await.ok()?;
            info.contains("master_link_status:up").then_some(())
        });
        in_step.await.context("a replica does not come in step")?;
        follow(other, None).await
    }

    pub(crate) fn note(&mut self, what: &'static str) {
        *self.notes.entry(what).or_default() += 1;
    }

    /// That every process runs: to be asked when every fault has ended.
    pub(crate) fn is_whole(&mut self) -> anyhow::Result<()> {
        for (name, node) in &mut self.cluster.nodes {
            ensure!(node.process.is_running(), "{name} has ended by itself\n{}", node.process.log_tail());
        }
        let others = self.cluster.gateways.iter_mut().map(|gateway| &mut gateway.process).chain(&mut self.controllers);
        for process in others {
            ensure!(process.is_running(), "a program has ended by itself\n{}", process.log_tail());
        }
        Ok(())
    }
}

/// Makes a server a replica of another, or a primary.
pub(crate) async fn follow(server: &RedisServer, primary: Option<&RedisServer>) -> anyhow::Result<()> {
    let port = primary.map(|primary| primary.port().to_string());
    let [host, port] = port.as_deref().map_or(["NO", "ONE"], |port| ["127.0.0.1", port]);
    let answer = server.cli(&["REPLICAOF", host, port]).await?;
    ensure!(answer.starts_with("OK"), "REPLICAOF: {answer}");
    Ok(())
}
