//! A whole cluster of real processes: database, L2 servers, nodes, gateways, and the migrator's verbs.

mod links;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use crate::fault_proxy::FaultProxy;
use crate::http::{User, answered};
use crate::postgres::PostgresServer;
use crate::processes::{Env, Finished, Process, free_address, run};
use crate::redis::RedisServer;

pub use links::{Link, LinkMap, Links};

/// How long one migrator verb may take.
const MIGRATOR_BOUND: Duration = Duration::from_secs(120);

/// Which database the cluster uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// A server of its own.
    Postgres,
    /// A file.
    Sqlite,
}

/// What to start.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Members of the first ring: `n1`, `n2`, …
    pub nodes: usize,
    /// Gateways.
    pub gateways: usize,
    /// The database.
    pub database: Database,
    /// L2 servers; 0 = no L2.
    pub redis: usize,
    /// The program that nodes are.
    pub node_program: &'static str,
    /// Which connections go through [`Cluster::links`].
    pub links: Links,
    /// Where the programs' logs are kept, each in `<name>.log` through all restarts; else each process has its own.
    pub logs: Option<PathBuf>,
    /// More variables for every program.
    pub env: Env,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            nodes: 3,
            gateways: 1,
            database: Database::Postgres,
            redis: 1,
            node_program: "cache-node",
            links: Links::None,
            logs: None,
            env: Env::new(),
        }
    }
}

/// One node or gateway. It keeps its address when it is started again.
pub struct Member {
    /// The process.
    pub process: Process,
    /// Where it listens.
    pub address: SocketAddr,
    program: &'static str,
    env: Env,
    log: Option<PathBuf>,
}

/// A running cluster. Dropping it ends every process and removes all data.
pub struct Cluster {
    /// The nodes by name, standbys too.
    pub nodes: BTreeMap<String, Member>,
    /// The gateways.
    pub gateways: Vec<Member>,
    /// The L2 servers.
    pub redis: Vec<RedisServer>,
    /// The database server, if it is one.
    pub postgres: Option<PostgresServer>,
    /// Proxies between the programs and what they talk to.
    pub links: LinkMap,
    which_links: Links,
    node_program: &'static str,
    logs: Option<PathBuf>,
    /// Of a program without links of its own.
    env: Env,
    _data: TempDir,
}

impl Member {
    fn start(program: &'static str, address: SocketAddr, env: Env, log: Option<PathBuf>) -> Self {
        Self { process: Process::start_logging(program, &[], &env, log.as_deref()), address, program, env, log }
    }

    /// Starts it again at the same address, after it has been killed or stopped; does not wait.
    pub fn restart(&mut self) {
        self.process.kill();
        self.process = Process::start_logging(self.program, &[], &self.env, self.log.as_deref());
    }

    /// The same with other or further variables from now on.
    pub fn restart_with(&mut self, more: &[(&str, &str)]) {
        self.env.extend(more.iter().map(|(variable, value)| ((*variable).to_owned(), (*value).to_owned())));
        self.restart();
    }

    /// Waits until `/readyz` says yes.
    pub async fn wait_ready(&mut self) {
        self.process.wait_ready(self.address, "/readyz").await;
    }

    /// `http://host:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Cluster {
    /// Starts everything, makes the first ring, and returns when nodes and gateways are ready.
    ///
    /// # Panics
    /// When anything does not start in time; the message has the end of its log.
    pub async fn start(options: ClusterOptions) -> Self {
        let data = tempfile::tempdir().expect("a temporary directory");
        let postgres = match options.database {
            Database::Postgres => Some(PostgresServer::start().await.expect("postgres starts")),
            Database::Sqlite => None,
        };
        let mut redis = Vec::new();
        for _ in 0..options.redis {
            redis.push(RedisServer::start().await.expect("redis starts"));
        }
        let mut links = LinkMap::default();
        let database_url = match &postgres {
            Some(server) if options.links == Links::Database => {
                server.url_through(links.start(Link::Database, loopback(server.port())).await)
            }
            Some(server) => server.url(),
            None => format!("sqlite://{}", data.path().join("shardcache.db").display()),
        };
        let mut env = vec![("DATABASE_URL".to_owned(), database_url)];
        if !redis.is_empty() {
            let urls: Vec<_> = redis.iter().map(RedisServer::url).collect();
            env.push(("REDIS_URL".to_owned(), urls.join(",")));
        }
        env.extend(options.env);
        let (nodes, gateways, which_links, logs) = (BTreeMap::new(), Vec::new(), options.links, options.logs);
        let node_program = options.node_program;
        let mut cluster =
            Self { nodes, gateways, redis, postgres, links, which_links, node_program, logs, env, _data: data };
        if which_links == Links::Each {
            cluster.database_through(Link::MigratorDatabase).await;
        }
        let names: Vec<_> = (1..=options.nodes).map(|number| format!("n{number}")).collect();
        for name in &names {
            cluster.launch_node(name, &[]).await;
        }
        // Before the ring: a node that cannot start is seen here, with its log.
        for node in cluster.nodes.values_mut() {
            node.wait_ready().await;
        }
        let init = cluster.migrator(&["init", "--nodes", &names.join(",")]).await;
        assert_eq!(init.code, Some(0), "migrator init: {init:#?}\n{}", cluster.log_tails());
        for _ in 0..options.gateways {
            cluster.launch_gateway().await;
        }
        for member in cluster.nodes.values_mut().chain(&mut cluster.gateways) {
            member.wait_ready().await;
        }
        cluster
    }

    /// Starts one more node and returns when it has registered: a standby, ready for `add-node`.
    pub async fn add_standby(&mut self, name: &str, more: &[(&str, &str)]) {
        self.launch_node(name, more).await;
        self.node(name).wait_ready().await;
    }

    /// The same, where others reach the node through a proxy only. Its faults meet connections that begin with `only`.
    pub async fn add_standby_behind(&mut self, name: &str, only: &'static str, more: &[(&str, &str)]) -> FaultProxy {
        let address = free_address();
        let proxy = FaultProxy::start_for(&address.to_string(), only).await;
        let advertised = proxy.address().to_string();
        self.launch_node_at(name, address, &[&[("SHARDCACHE_ADVERTISE", advertised.as_str())], more].concat());
        self.node(name).wait_ready().await;
        proxy
    }

    /// Starts one more gateway and returns its number when it is ready.
    pub async fn add_gateway(&mut self) -> usize {
        self.launch_gateway().await;
        let number = self.gateways.len() - 1;
        self.gateways[number].wait_ready().await;
        number
    }

    /// A node by name.
    pub fn node(&mut self, name: &str) -> &mut Member {
        self.nodes.get_mut(name).unwrap_or_else(|| panic!("the test has started no node {name}"))
    }

    /// `http://host:port` of the first gateway.
    pub fn gateway_url(&self) -> String {
        self.gateways[0].url()
    }

    /// A user of the first gateway.
    pub fn user(&self, id: &str) -> User {
        User::new(&self.gateway_url(), id)
    }

    /// Runs a verb of the migrator to its end.
    pub async fn migrator(&self, args: &[&str]) -> Finished {
        run("migrator", args, &self.migrator_env(), MIGRATOR_BOUND).await
    }

    /// Starts a verb of the migrator in the background, to be paused or killed.
    pub fn start_migrator(&self, args: &[&str]) -> Process {
        Process::start_logging("migrator", args, &self.migrator_env(), self.log("migrator").as_deref())
    }

    /// What `GET /v1/ring` of the first gateway says.
    pub async fn ring(&self) -> serde_json::Value {
        answered(self.user("anyone").request(reqwest::Method::GET, "/v1/ring")).await.json()
    }

    /// The environment of the migrator: a further program of the cluster can be started with it.
    pub fn migrator_env(&self) -> Env {
        let mut env: Env = self.env.iter().filter(|(name, _)| name != "REDIS_URL").cloned().collect();
        if self.which_links == Links::Each {
            env.push(self.database_url_through(&Link::MigratorDatabase));
        }
        env
    }

    /// The last log lines of every node and gateway, for messages.
    pub fn log_tails(&self) -> String {
        let members = self.nodes.values().chain(&self.gateways);
        members.map(|member| member.process.log_tail()).collect::<Vec<_>>().join("\n")
    }

    async fn launch_node(&mut self, name: &str, more: &[(&str, &str)]) {
        let address = free_address();
        if self.which_links != Links::Each {
            return self.launch_node_at(name, address, more);
        }
        let advertised = self.links.start(Link::NodePeer(name.to_owned()), address).await.to_string();
        let database = Link::NodeDatabase(name.to_owned());
        self.database_through(database.clone()).await;
        let (_, database_url) = self.database_url_through(&database);
        let mut redis_urls = Vec::new();
        for (number, server) in self.redis.iter().enumerate() {
            let link = Link::NodeRedis(name.to_owned(), number);
            redis_urls.push(format!("redis://{}", self.links.start(link, loopback(server.port())).await));
        }
        let own = [
            ("SHARDCACHE_ADVERTISE", advertised.as_str()),
            ("DATABASE_URL", &database_url),
            ("REDIS_URL", &redis_urls.join(",")),
        ];
        self.launch_node_at(name, address, &[&own[..], more].concat());
    }

    fn launch_node_at(&mut self, name: &str, address: SocketAddr, more: &[(&str, &str)]) {
        let own = [
            ("SHARDCACHE_NODE_ID", name.to_owned()),
            ("SHARDCACHE_LISTEN", address.to_string()),
            ("SHARDCACHE_ADVERTISE", address.to_string()),
        ];
        let own = own.map(|(variable, value)| (variable.to_owned(), value));
        let more = more.iter().map(|(variable, value)| ((*variable).to_owned(), (*value).to_owned()));
        let env = self.env.iter().cloned().chain(own).chain(more).collect();
        self.nodes.insert(name.to_owned(), Member::start(self.node_program, address, env, self.log(name)));
    }

    async fn launch_gateway(&mut self) {
        let address = free_address();
        let number = self.gateways.len();
        let mut env: Env = self.env.iter().filter(|(name, _)| name != "REDIS_URL").cloned().collect();
        env.push(("SHARDCACHE_LISTEN".to_owned(), address.to_string()));
        if self.which_links == Links::Each {
            let link = Link::GatewayDatabase(number);
            self.database_through(link.clone()).await;
            env.push(self.database_url_through(&link));
        }
        let log = self.log(&format!("gateway-{number}"));
        self.gateways.push(Member::start("gateway", address, env, log));
    }

    fn log(&self, name: &str) -> Option<PathBuf> {
        self.logs.as_ref().map(|logs| logs.join(format!("{name}.log")))
    }

    /// Starts a proxy in front of Postgres.
    async fn database_through(&mut self, link: Link) {
        let upstream = loopback(self.postgres_server().port());
        self.links.start(link, upstream).await;
    }

    fn database_url_through(&self, link: &Link) -> (String, String) {
        ("DATABASE_URL".to_owned(), self.postgres_server().url_through(self.links.of(link).address()))
    }

    fn postgres_server(&self) -> &PostgresServer {
        self.postgres.as_ref().expect("links of their own are for clusters on Postgres")
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
