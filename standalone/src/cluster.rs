//! Starting and stopping the cluster: database, nodes, first ring, gateway, failure controller, in that order, and backwards
//! at the stop.

use std::collections::BTreeSet;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use origin::{NodeRow, OpenOptions, Origin};
use placement::{Epoch, NodeId};
use service::RunningServer;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, NODES_MAX, create_parent, node_name, node_number};
use crate::{leases, probe};

/// How long the nodes may take to claim their names once the leases of an earlier run are over.
const CLAIM_WAIT: Duration = Duration::from_secs(10);
/// How long gateway and nodes may take to become ready after that.
const READY_WAIT: Duration = Duration::from_secs(10);
/// How often readiness is asked for: well under the second in which the start should be over.
const READY_POLL: Duration = Duration::from_millis(10);
/// The user whose absent entry is read to see that a read gets through.
const PROBE_USER: &str = "shardcache-ready-probe";

/// A cluster that serves.
pub struct Running {
    /// Where the gateway can be reached.
    pub gateway: SocketAddr,
    /// The nodes of this process, by number.
    pub nodes: Vec<StartedNode>,
    /// The ring's epoch at the start.
    pub epoch: Epoch,
    /// The ring's members at the start, also those of other processes.
    pub members: Vec<NodeId>,
    origin: Origin,
    controller: JoinHandle<()>,
    running_gateway: RunningGateway,
    running_nodes: RunningNodes,
}

/// A node of this process.
#[derive(Clone, Debug)]
pub struct StartedNode {
    /// Its name.
    pub id: NodeId,
    /// Where it listens.
    pub address: SocketAddr,
}

/// The gateway, and what stops it: not the signal itself, for the failure controller stops first.
struct RunningGateway {
    server: RunningServer,
    stop: CancellationToken,
}

/// The nodes, and what stops them: not the signal itself, for the gateway drains first.
struct RunningNodes {
    nodes: Vec<RunningServer>,
    stop: CancellationToken,
}

/// Starts everything and returns once a read gets through the gateway. `stop` makes [`Running::stopped`] drain; while
/// starting it makes this fail, with all that was started stopped again.
pub async fn start(config: Config, stop: CancellationToken) -> anyhow::Result<Running> {
    let listener = service::listen::bind(config.listen).await?;
    let gateway_address = listener.local_addr().context("the gateway's address")?;
    let database = config.database();
    create_parent(&database).with_context(|| format!("cannot create the directory {}", config.data_dir.display()))?;
    let origin = Origin::open(&database, OpenOptions::default())?;
    let ids = or_stopped(&stop, prepare(&origin, config.nodes)).await?;
    let mut nodes = RunningNodes { nodes: Vec::with_capacity(ids.len()), stop: CancellationToken::new() };
    let gateway_stop = CancellationToken::new();
    let served = async {
        let started = start_nodes(&config, &origin, &ids, &mut nodes).await?;
        migrator::init(&origin, &ids, CLAIM_WAIT, &migrator::Progress::Silent).await?;
        let ring = origin.ring_state().await?.context("the ring is gone")?;
        let gateway = start_gateway(&config, &origin, listener, gateway_stop.clone()).await?;
        let controller = start_controller(&config, &origin, stop.clone())?;
        Ok((started, ring, gateway, controller))
    };
    match or_stopped(&stop, served).await {
        Ok((started, ring, gateway, controller)) => Ok(Running {
            gateway: gateway_address,
            nodes: started,
            epoch: ring.digest.epoch,
            members: ring.members.into_iter().map(|member| member.id).collect(),
            origin,
            controller,
            running_gateway: RunningGateway { server: gateway, stop: gateway_stop },
            running_nodes: nodes,
        }),
        Err(error) => {
            gateway_stop.cancel();
            nodes.stop_all().await.ok();
            Err(error)
        }
    }
}

/// The step's outcome, unless the stop comes first.
async fn or_stopped<T>(stop: &CancellationToken, step: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::select! {
        outcome = step => outcome,
        () = stop.cancelled() => anyhow::bail!("stopped while starting"),
    }
}

async fn prepare(origin: &Origin, wanted: u16) -> anyhow::Result<Vec<NodeId>> {
    origin.migrate_when_reachable().await?;
    nodes_to_start(origin, wanted).await
}

impl Running {
    /// Waits for the stop and for the failure controller to end, which should see no node go; then drains the gateway, then
    /// the nodes, which give their leases back.
    pub async fn stopped(self) -> anyhow::Result<()> {
        let controller = self.controller.await.context("the failure controller");
        self.running_gateway.stop.cancel();
        let gateway = self.running_gateway.server.stopped().await.context("the gateway");
        let nodes = self.running_nodes.stop_all().await;
        self.origin.close().await;
        controller.and(gateway).and(nodes)
    }
}

impl RunningNodes {
    async fn stop_all(self) -> anyhow::Result<()> {
        self.stop.cancel();
        let mut outcome = Ok(());
        // All have the token: they drain side by side, whichever is waited for first.
        for node in self.nodes {
            outcome = outcome.and(node.stopped().await.context("a cache node"));
        }
        outcome
    }
}

/// Our nodes 1 to `wanted`, and every further member of an existing ring that is named as ours are and that nobody runs.
async fn nodes_to_start(origin: &Origin, wanted: u16) -> anyhow::Result<Vec<NodeId>> {
    let members = origin.ring_state().await?.map(|ring| ring.members).unwrap_or_default();
    let mut numbers: BTreeSet<u16> = (1..=wanted).collect();
    numbers.extend(members.iter().filter_map(|m| node_number(&m.id)).filter(|n| i64::from(*n) <= NODES_MAX));
    let candidates: BTreeSet<NodeId> = numbers.iter().map(|n| node_name(*n)).collect();
    let run_elsewhere = leases::wait_until_free(origin, &candidates).await?;
    let taken: Vec<&str> =
        run_elsewhere.iter().filter(|id| node_number(id) <= Some(wanted)).map(NodeId::as_str).collect();
    anyhow::ensure!(
        taken.is_empty(),
        "another process runs {} on this database: stop it, or use another --data-dir or DATABASE_URL",
        taken.join(", ")
    );
    Ok(numbers.into_iter().map(node_name).filter(|id| !run_elsewhere.contains(id)).collect())
}

/// Starts the nodes and waits until all have their leases.
async fn start_nodes(
    config: &Config,
    origin: &Origin,
    ids: &[NodeId],
    running: &mut RunningNodes,
) -> anyhow::Result<Vec<StartedNode>> {
    let before = origin.nodes().await?;
    let mut started = Vec::with_capacity(ids.len());
    for id in ids {
        let node = start_node(config, origin, id, running.stop.clone());
        let node = node.await.with_context(|| format!("cannot start {id}"))?;
        started.push(StartedNode { id: id.clone(), address: node.address() });
        running.nodes.push(node);
    }
    let claimed = wait_for(CLAIM_WAIT, || all_claimed(origin, ids, &before));
    anyhow::ensure!(claimed.await, "the nodes did not get their leases within {} s", CLAIM_WAIT.as_secs());
    Ok(started)
}

async fn start_node(
    config: &Config,
    origin: &Origin,
    id: &NodeId,
    stop: CancellationToken,
) -> anyhow::Result<RunningServer> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let advertise = listener.local_addr()?.to_string();
    let node = cache_node::Config {
        redis_urls: config.redis_url.clone(),
        audit_every: config.audit_every,
        cluster_token: config.cluster_token.clone(),
        ..cache_node::Config::with_defaults(id.clone(), advertise)
    };
    cache_node::start(node, origin.clone(), listener, stop).await
}

/// The gateway, once a read gets through.
async fn start_gateway(
    config: &Config,
    origin: &Origin,
    listener: TcpListener,
    stop: CancellationToken,
) -> anyhow::Result<RunningServer> {
    let gateway_config = gateway::Config { cluster_token: config.cluster_token.clone(), ..gateway::Config::default() };
    let gateway = gateway::start(gateway_config, origin.clone(), listener, stop).await?;
    let address = gateway.address();
    let ready = wait_for(READY_WAIT, || serves(address));
    anyhow::ensure!(ready.await, "the gateway was not ready within {} s", READY_WAIT.as_secs());
    Ok(gateway)
}

/// The failure controller, which takes over from members that other processes run, and lets them in again.
fn start_controller(config: &Config, origin: &Origin, stop: CancellationToken) -> anyhow::Result<JoinHandle<()>> {
    let tools = migrator::watch::tools(origin.clone(), config.cluster_token.clone());
    let options = migrator::watch::Options { grace: config.takeover_grace.get(), holder: migrator::operator::name() };
    Ok(tokio::spawn(migrator::watch::run(tools, options, stop)))
}

/// Whether each node has a lease of the process started now, not of an earlier one.
async fn all_claimed(origin: &Origin, ids: &[NodeId], before: &[NodeRow]) -> bool {
    let now = origin.nodes().await.unwrap_or_default();
    let incarnation_before = |id: &NodeId| before.iter().find(|row| &row.id == id).map(|row| row.incarnation);
    let claimed = |row: &NodeRow| row.lease_left_ms > 0 && Some(row.incarnation) > incarnation_before(&row.id);
    ids.iter().all(|id| now.iter().any(|row| &row.id == id && claimed(row)))
}

async fn serves(gateway: SocketAddr) -> bool {
    probe::status(gateway, "/readyz", None).await == Some(200)
        && matches!(probe::status(gateway, "/v1/entries/probe", Some(PROBE_USER)).await, Some(200 | 404))
}

/// Whether the condition came true in time.
async fn wait_for<F: Future<Output = bool>>(limit: Duration, condition: impl Fn() -> F) -> bool {
    let started = Instant::now();
    while !condition().await {
        if started.elapsed() > limit {
            return false;
        }
        sleep(READY_POLL).await;
    }
    true
}
