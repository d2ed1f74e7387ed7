//! The compose stack of one run: its containers and networks, its database, its logs, and the migrator's verbs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use tests::door::Door;
use tests::poll::until;
use tokio::process::Command;
use tokio::sync::Mutex;

use crate::engine::{Ended, docker, run};
use crate::fault::{CONTROLLERS, GATEWAYS, GRACE, NODES, Network, Who};

/// How long starting one service may take.
const UP_BOUND: Duration = Duration::from_secs(60);
/// How long the first start of Postgres may take, and the gateways until they are ready.
const READY_BOUND: Duration = Duration::from_secs(60);
/// How long one verb of the migrator may take: as long as a change may take to be copied, and its container to start.
const VERB_BOUND: Duration = Duration::from_secs(120);
/// How often freezing a container is tried.
const PAUSE_TRIES_MAX: usize = 10;
/// Where the host ports of the gateways are looked for.
const PORTS: std::ops::Range<u16> = 18200..19000;

/// A running stack.
pub(crate) struct Stack {
    compose: Vec<String>,
    project: String,
    env: Vec<(String, String)>,
    ports: Vec<u16>,
    containers: BTreeMap<Who, String>,
    /// The engine is asked for one thing at a time: one (20.10) that has several containers begin, end, join or leave a network
    /// at once sometimes miscounts who is on it, and then never lets the network go.
    turn: Mutex<()>,
}

/// What the engine says of a container.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Inspected {
    pub(crate) state: State,
    network_settings: NetworkSettings,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct State {
    pub(crate) running: bool,
    pub(crate) paused: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NetworkSettings {
    networks: BTreeMap<String, serde_json::Value>,
}

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in the repository").to_owned()
}

impl Stack {
    /// A stack of this name with these settings; nothing is started.
    pub(crate) fn new(compose: &str, project: &str, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let ports = free_ports()?;
        let grace = format!("{}s", GRACE.as_secs());
        let mut env = vec![
            ("GATEWAY_PORT".to_owned(), format!("127.0.0.1:{}-{}", ports[0], ports[GATEWAYS - 1])),
            ("SHARDCACHE_TAKEOVER_GRACE".to_owned(), grace),
            ("COMPOSE_PROFILES".to_owned(), "scale-out".to_owned()),
        ];
        env.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let compose = compose.split_whitespace().map(str::to_owned).collect();
        Ok(Self { compose, project: project.to_owned(), env, ports, containers: BTreeMap::new(), turn: Mutex::new(()) })
    }

    /// Starts everything, one service after the other, and returns when both gateways are ready.
    pub(crate) async fn start(&mut self) -> anyhow::Result<()> {
        self.up("postgres", 1).await?;
        self.containers.insert(Who::Postgres, self.find("postgres", 1).await?);
        let ready = until(READY_BOUND, async || self.sql("SELECT 1").await.ok());
        ready.await.with_context(|| format!("Postgres is not ready within {READY_BOUND:?}"))?;
        self.up("redis", 1).await?;
        for node in 1..=NODES {
            self.up(&format!("cache-node-{node}"), 1).await?;
        }
        self.up("init", 1).await?;
        let exit = docker(&["wait", &self.find("init", 1).await?]).await?.stdout;
        if exit != "0" {
            bail!("the first ring could not be made: exit code {exit}");
        }
        self.up("gateway", GATEWAYS).await?;
        self.up("watch", CONTROLLERS).await?;
        for who in Who::all() {
            let container = match who {
                Who::Node(node) => self.find(&format!("cache-node-{node}"), 1).await,
                Who::Gateway(number) => self.find("gateway", number).await,
                Who::Controller(number) => self.find("watch", number).await,
                Who::Redis => self.find("redis", 1).await,
                Who::Postgres => self.find("postgres", 1).await,
            };
            self.containers.insert(who, container?);
        }
        for door in self.doors() {
            let ready = until(READY_BOUND, async || {
                let answer = tests::http::send(door.request(reqwest::Method::GET, "anyone", "/readyz")).await;
                answer.is_ok_and(|answer| answer.status == 200).then_some(())
            });
            ready.await.with_context(|| format!("{} is not ready within {READY_BOUND:?}", door.url))?;
        }
        Ok(())
    }

    /// Takes away containers and data. The networks stay, for the next run.
    pub(crate) async fn take_down(&self) -> anyhow::Result<()> {
        let ours = format!("label=com.docker.compose.project={}", self.project);
        for container in docker(&["ps", "--all", "--quiet", "--filter", &ours]).await?.stdout.lines() {
            docker(&["rm", "--force", "--volumes", container]).await?;
        }
        for volume in docker(&["volume", "ls", "--quiet", "--filter", &ours]).await?.stdout.lines() {
            docker(&["volume", "rm", volume]).await?;
        }
        Ok(())
    }

    /// Both gateways.
    pub(crate) fn doors(&self) -> Vec<Door> {
        self.ports.iter().map(|port| Door::new(&format!("http://127.0.0.1:{port}"))).collect()
    }

    /// The id of the container.
    pub(crate) fn container(&self, who: Who) -> &str {
        self.containers.get(&who).expect("every container was found at the start")
    }

    pub(crate) async fn inspect(&self, who: Who) -> anyhow::Result<Inspected> {
        let json = docker(&["inspect", "--format", "{{json .}}", self.container(who)]).await?.stdout;
        serde_json::from_str(&json).with_context(|| format!("inspect of {who:?}"))
    }

    /// Networks that the container should be on and is not.
    pub(crate) fn missing(&self, who: Who, inspected: &Inspected) -> Vec<Network> {
        let is_on = |network: &Network| inspected.network_settings.networks.contains_key(&self.network(*network));
        who.networks().into_iter().filter(|network| !is_on(network)).collect()
    }

    /// `docker VERB` of the container.
    pub(crate) async fn act(&self, verb: &str, who: Who) -> anyhow::Result<()> {
        // A stop waits for the program, and others do not wait for that; nobody stays frozen until others have had their turn.
        let waits = !matches!(verb, "stop" | "restart" | "unpause");
        let _turn = if waits { Some(self.turn.lock().await) } else { None };
        docker(&[verb, self.container(who)]).await.map(drop)
    }

    /// Freezes the container. The engine may fail to, on a busy machine, and leaves it running then.
    pub(crate) async fn pause(&self, who: Who) -> anyhow::Result<()> {
        let mut frozen = self.act("pause", who).await;
        for _ in 1..PAUSE_TRIES_MAX {
            if frozen.is_ok() {
                break;
            }
            frozen = self.act("pause", who).await;
        }
        frozen
    }

    pub(crate) async fn disconnect(&self, who: Who, network: Network) -> anyhow::Result<()> {
        let _turn = self.turn.lock().await;
        docker(&["network", "disconnect", &self.network(network), self.container(who)]).await.map(drop)
    }

    /// Back on the network, at whatever address, under the name by which others call it there.
    pub(crate) async fn connect(&self, who: Who, network: Network) -> anyhow::Result<()> {
        let _turn = self.turn.lock().await;
        let name = match (who, network) {
            (Who::Node(node), Network::Peers(of)) if node == of => Some(format!("called-{node}")),
            (Who::Redis, Network::L2) => Some("redis".to_owned()),
            (Who::Postgres, Network::Database) => Some("postgres".to_owned()),
            _ => None,
        };
        let alias: Vec<&str> = name.iter().flat_map(|name| ["--alias", name]).collect();
        let network = self.network(network);
        let args = [&["network", "connect"], &alias[..], &[&network, self.container(who)]].concat();
        docker(&args).await.map(drop)
    }

    /// A statement in the database: its rows, one per line, columns parted by tabs.
    pub(crate) async fn sql(&self, statement: &str) -> anyhow::Result<String> {
        // A container that is frozen while a command is started in it cannot be thawed for a long time.
        let _turn = self.turn.lock().await;
        let psql =
            ["psql", "-h", "127.0.0.1", "-U", "shardcache", "-d", "shardcache", "-qAt", "-F", "\t", "-c", statement];
        Ok(docker(&[&["exec", self.container(Who::Postgres)], &psql[..]].concat()).await?.stdout)
    }

    /// Runs a verb of the migrator in a container of this name, which can be killed by it; how it went.
    pub(crate) async fn migrator(&self, name: &str, args: &[&str]) -> anyhow::Result<Ended> {
        let run_args = ["run", "--rm", "--no-deps", "-T", "--name", name, "migrator"];
        run(self.command(&[&run_args, args].concat()), VERB_BOUND).await
    }

    /// The name of a migrator's container.
    pub(crate) fn migrator_name(&self, number: usize) -> String {
        format!("{}-migrator-{number}", self.project)
    }

    /// All that the container has printed so far.
    pub(crate) async fn log(&self, who: Who) -> anyhow::Result<String> {
        let Ended { stdout, stderr, .. } = docker(&["logs", self.container(who)]).await?;
        Ok(stdout + &stderr)
    }

    fn network(&self, network: Network) -> String {
        let name = match network {
            Network::Database => "database".to_owned(),
            Network::L2 => "l2".to_owned(),
            Network::Peers(node) => format!("peers-{node}"),
        };
        format!("{}_{name}", self.project)
    }

    /// Starts a service, without waiting for those it depends on.
    async fn up(&self, service: &str, count: usize) -> anyhow::Result<()> {
        let scale = format!("{service}={count}");
        let args = ["up", "--detach", "--no-build", "--no-deps", "--scale", &scale, service];
        let ended = run(self.command(&args), UP_BOUND).await?;
        if !ended.well {
            bail!("{} {}: {}", self.compose.join(" "), args.join(" "), ended.stderr);
        }
        Ok(())
    }

    /// A container's id, by the labels of Compose, whose names for containers differ from version to version.
    async fn find(&self, service: &str, number: usize) -> anyhow::Result<String> {
        let labels = [
            format!("label=com.docker.compose.project={}", self.project),
            format!("label=com.docker.compose.service={service}"),
            format!("label=com.docker.compose.container-number={number}"),
        ];
        let filters = labels.iter().flat_map(|label| ["--filter", label]);
        let args: Vec<_> = ["ps", "--all", "--quiet", "--no-trunc"].into_iter().chain(filters).collect();
        let id = docker(&args).await?.stdout;
        if id.is_empty() || id.contains('\n') {
            bail!("not one container {number} of {service}: {id:?}");
        }
        Ok(id)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.compose[0]);
        command.args(&self.compose[1..]).current_dir(root());
        command.args(["--project-name", &self.project, "--file", "docker-compose.yml"]);
        command.args(["--file", "tests/docker/chaos.compose.yml"]).args(args);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Adjacent ports that nobody listens on just now; a gateway that starts again takes one of the same.
fn free_ports() -> anyhow::Result<Vec<u16>> {
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut runs = PORTS.map(|first| (first..).take(GATEWAYS).collect::<Vec<_>>());
    runs.find(|run| run.iter().all(is_free)).context("no free ports for the gateways")
}
