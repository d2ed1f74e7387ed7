//! The gateway as a whole: its settings, its ring, its start and stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderValue;
use origin::Origin;
use service::RunningServer;
use service::listen::{ServeOptions, serve};
use service::settings::ClusterToken;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::faults::{Drill, FaultSettings};
use crate::follow_ring::RingFollower;
use crate::http::App;
use crate::limits;
use crate::metrics::Metrics;
use crate::rate::{RateLimits, RateSettings};
use crate::route_user::Keyless;
use crate::shed::{ShedSettings, Shedding};

/// The settings of a gateway, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the nodes want to see.
    pub cluster_token: Option<ClusterToken>,
    /// What to do without `X-User-ID`.
    pub keyless: Keyless,
    /// The largest value, in bytes.
    pub max_value_bytes: u64,
    /// How long a stop waits for requests in progress.
    pub drain_timeout: Duration,
    /// How many requests may come.
    pub rate: RateSettings,
    /// How many requests a node is given at a time.
    pub shed: ShedSettings,
    /// Faults on purpose.
    pub faults: FaultSettings,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cluster_token: None,
            keyless: Keyless::Reject,
            max_value_bytes: 1 << 20,
            drain_timeout: Duration::from_secs(10),
            rate: RateSettings::default(),
            shed: ShedSettings::default(),
            faults: FaultSettings::default(),
        }
    }
}

/// What a request needs.
pub(crate) struct Gateway {
    pub(crate) config: Config,
    /// What the nodes want to see, as a header.
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) ring: Arc<RingFollower>,
    pub(crate) metrics: Metrics,
    pub(crate) in_progress: Semaphore,
    pub(crate) draining: AtomicBool,
    pub(crate) rate: Option<RateLimits>,
    pub(crate) shedding: Option<Shedding>,
    pub(crate) drill: Option<Drill>,
}

/// Starts a gateway that runs until `stop`. Returns once it listens; it learns the ring in the background.
pub async fn start(
    config: Config,
    origin: Origin,
    listener: TcpListener,
    stop: CancellationToken,
) -> anyhow::Result<RunningServer> {
    let gateway = Arc::new(Gateway::new(config, origin));
    RunningServer::start(listener, |listener| run(gateway, listener, stop))
}

impl Gateway {
    fn new(config: Config, origin: Origin) -> Self {
        let mut metrics = Metrics::new();
        let registry = &mut metrics.registry;
        let rate = RateLimits::new(&config.rate, registry, Instant::now());
        let shedding = Shedding::new(&config.shed, registry);
        let drill = Drill::new(&config.faults, registry);
        Self {
            authorization: config.cluster_token.as_ref().map(ClusterToken::header_value),
            config,
            ring: Arc::new(RingFollower::new(origin)),
            metrics,
            in_progress: Semaphore::new(limits::REQUESTS_IN_PROGRESS_MAX),
            draining: AtomicBool::new(false),
            rate,
            shedding,
            drill,
        }
    }
}

async fn run(gateway: Arc<Gateway>, listener: TcpListener, stop: CancellationToken) {
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
    let drain_timeout = gateway.config.drain_timeout;
    let app = App::new(Arc::clone(&gateway));
    let serving = serve(listener, app, ServeOptions { drain_timeout, ..ServeOptions::default() }, stop.clone());
    let draining = async {
        stop.cancelled().await;
        gateway.draining.store(true, Ordering::Release);
    };
    tokio::join!(serving, draining);
    background.cancel();
    // One that panicked was a bug of ours and was logged as such.
    let _ = tokio::join!(following, shedding);
}
