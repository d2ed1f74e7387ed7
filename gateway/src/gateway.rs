//! The gateway as a whole: its settings, its ring, its start and stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use http::HeaderValue;
use origin::Origin;
use service::RunningServer;
use service::listen::{ServeOptions, serve};
use service::settings::ClusterToken;
use service::tls::{NodeDialler, ServerTls};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::access_log::{self, AccessLog, AccessLogKind, AccessLogSettings};
use crate::balance::Balancer;
use crate::client_address::ClientSettings;
use crate::faults::{Drill, FaultSettings};
use crate::follow_ring::RingFollower;
use crate::health::watch::watch_nodes;
use crate::hedge::{Hedge, Latencies};
use crate::http::pages::Door;
use crate::http::{App, Pages};
use crate::identity::{Auth, Identity};
use crate::limits;
use crate::metrics::Metrics;
use crate::node_policy::NodePolicy;
use crate::rate::{RateLimits, RateSettings};
use crate::retry_budget::RetryBudget;
use crate::route_user::Keyless;
use crate::shed::{ShedSettings, Shedding};
use crate::user_hash::UserHash;
use crate::users::{ShowUsers, Users};

/// The settings of a gateway, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the nodes want to see.
    pub cluster_token: Option<ClusterToken>,
    /// What to do without `X-User-ID`.
    pub keyless: Keyless,
    /// The largest value, in bytes.
    pub max_value_bytes: u64,
    /// How `GET /v1/users/top` names users.
    pub show_users: ShowUsers,
    /// How long a stop waits for requests in progress.
    pub drain_timeout: Duration,
    /// How callers are told apart.
    pub auth: Auth,
    /// Where clients come from, and which may come in.
    pub clients: ClientSettings,
    /// Whether requests are logged.
    pub access_log: AccessLogSettings,
    /// Where the pages of an admin are served, if apart.
    pub admin_listen: Option<SocketAddr>,
    /// The listener's certificate, if it speaks TLS.
    pub tls: Option<Arc<ServerTls>>,
    /// How nodes are reached.
    pub dialler: NodeDialler,
    /// How many requests may come.
    pub rate: RateSettings,
    /// How many requests a node is given at a time.
    pub shed: ShedSettings,
    /// Faults on purpose.
    pub faults: FaultSettings,
    /// What to do about nodes.
    pub nodes: NodePolicy,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cluster_token: None,
            keyless: Keyless::Reject,
            max_value_bytes: 1 << 20,
            show_users: ShowUsers::Off,
            drain_timeout: Duration::from_secs(10),
            auth: Auth::None,
            clients: ClientSettings::default(),
            access_log: AccessLogSettings::default(),
            admin_listen: None,
            tls: None,
            dialler: NodeDialler::default(),
            rate: RateSettings::default(),
            shed: ShedSettings::default(),
            faults: FaultSettings::default(),
            nodes: NodePolicy::default(),
        }
    }
}

/// What a request needs.
pub(crate) struct Gateway {
    pub(crate) config: Config,
    /// What the nodes want to see, as a header.
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) identity: Identity,
    pub(crate) access_log: Option<Arc<AccessLog>>,
    pub(crate) ring: Arc<RingFollower>,
    pub(crate) metrics: Metrics,
    pub(crate) users: Users,
    pub(crate) in_progress: Semaphore,
    pub(crate) draining: AtomicBool,
    pub(crate) rate: Option<RateLimits>,
    pub(crate) shedding: Option<Shedding>,
    pub(crate) drill: Option<Drill>,
    pub(crate) balancer: Balancer,
    pub(crate) retry_budget: RetryBudget,
    /// How long owners take for reads, if that is needed.
    pub(crate) latencies: Latencies,
}

/// Starts a gateway that runs until `stop`. Returns once it listens; it learns the ring in the background.
pub async fn start(
    config: Config,
    origin: Origin,
    listener: TcpListener,
    stop: CancellationToken,
) -> anyhow::Result<RunningServer> {
    let identity = Identity::open(&config.auth)?;
    let admin = match config.admin_listen {
        Some(address) => Some(service::listen::bind(address).await.context("SHARDCACHE_ADMIN_LISTEN")?),
        None => None,
    };
    let metrics = Metrics::new();
    let hash = UserHash::new(config.access_log.log_hash_key.as_ref());
    let (access_log, writer) = start_access_log(&config.access_log, &hash, &metrics)?.unzip();
    let gateway = Arc::new(Gateway::new(config, origin, identity, metrics, access_log, hash));
    RunningServer::start(listener, |listener| run(gateway, Listeners { public: listener, admin }, writer, stop))
}

fn start_access_log(
    settings: &AccessLogSettings,
    hash: &UserHash,
    metrics: &Metrics,
) -> anyhow::Result<Option<(Arc<AccessLog>, access_log::Writer)>> {
    match settings.access_log {
        AccessLogKind::Off => Ok(None),
        AccessLogKind::Json => {
            Ok(Some(AccessLog::start(std::io::stdout(), hash.clone(), metrics.access_log_dropped.clone())?))
        }
    }
}

/// Where requests come in.
struct Listeners {
    public: TcpListener,
    admin: Option<TcpListener>,
}

impl Gateway {
    fn new(
        config: Config,
        origin: Origin,
        identity: Identity,
        mut metrics: Metrics,
        access_log: Option<Arc<AccessLog>>,
        hash: UserHash,
    ) -> Self {
        let registry = &mut metrics.registry;
        let rate = RateLimits::new(&config.rate, registry, Instant::now());
        let shedding = Shedding::new(&config.shed, registry);
        let drill = Drill::new(&config.faults, registry);
        Self {
            authorization: config.cluster_token.as_ref().map(ClusterToken::header_value),
            ring: Arc::new(RingFollower::new(origin, config.dialler.clone())),
            users: Users::new(config.show_users, hash),
            balancer: Balancer::new(config.nodes.balance),
            retry_budget: RetryBudget::new(config.nodes.retry_budget),
            latencies: Latencies::new(match config.nodes.hedge {
                Hedge::Percentile(percent) => percent,
                Hedge::Off | Hedge::After(_) => 100,
            }),
            config,
            metrics,
            identity,
            access_log,
            in_progress: Semaphore::new(limits::REQUESTS_IN_PROGRESS_MAX),
            draining: AtomicBool::new(false),
            rate,
            shedding,
            drill,
        }
    }
}

async fn run(
    gateway: Arc<Gateway>,
    listeners: Listeners,
    access_log: Option<access_log::Writer>,
    stop: CancellationToken,
) {
    // The ring is followed until the last request is answered.
    let background = CancellationToken::new();
    let following = tokio::spawn(Arc::clone(&gateway.ring).follow(background.clone()));
    let shedding = tokio::spawn({
        let (gateway, background) = (Arc::clone(&gateway), background.clone());
        async move {
            if let Some(shedding) = &gateway.shedding {
                shedding.run(background).await;
            }
        }
    });
    let identity = {
        let (gateway, stop) = (Arc::clone(&gateway), background.clone());
        tokio::spawn(async move { gateway.identity.follow(stop).await })
    };
    let watching = tokio::spawn(watch_nodes(Arc::clone(&gateway), background.clone()));
    let plain = ServeOptions { drain_timeout: gateway.config.drain_timeout, ..ServeOptions::default() };
    let options = ServeOptions { tls: gateway.config.tls.clone(), ..plain.clone() };
    // The pages of an admin are there until the last request is answered: a drain is to be watched.
    let admin = listeners.admin.map(|listener| {
        let pages = Pages::new(Arc::clone(&gateway), Door::Admin);
        tokio::spawn(serve(listener, pages, plain, background.clone()))
    });
    let serving = serve(listeners.public, App::new(Arc::clone(&gateway)), options, stop.clone());
    let draining = async {
        stop.cancelled().await;
        gateway.draining.store(true, Ordering::Release);
    };
    tokio::join!(serving, draining);
    background.cancel();
    // One that panicked was a bug of ours and was logged as such.
    let _ = tokio::join!(following, identity, watching, shedding);
    if let Some(admin) = admin {
        let _ = admin.await;
    }
    if let Some(access_log) = access_log {
        access_log.end().await;
    }
}
