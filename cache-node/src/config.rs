//! What a node is told at its start.

use std::sync::Arc;
use std::time::Duration;

use placement::{NodeId, Pool, Weight};
use service::settings::ClusterToken;
use service::tls::{NodeDialler, ServerTls};

use crate::drain::Drain;

/// One of how many reads is audited unless told otherwise: rare enough to cost nothing, often enough to find a wrong entry of
/// a hot key within a minute.
pub const DEFAULT_AUDIT_EVERY: u64 = 10_000;

/// The settings of a node, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's name.
    pub node_id: NodeId,
    /// `host:port` that gateways and the migrator dial.
    pub advertise: String,
    /// The weight `add-node` gives it by default.
    pub weight: Weight,
    /// The pool it serves.
    pub pool: Pool,
    /// L2 servers; a slot's entries live on one of them. Empty: no L2.
    pub redis_urls: Vec<RedisUrl>,
    /// Bound of L1, in bytes of keys, values and overhead.
    pub l1_bytes: u64,
    /// How long L1 keeps an entry, ±10 %.
    pub l1_ttl: Duration,
    /// How long L2 keeps an entry, ±10 %.
    pub l2_ttl: Duration,
    /// How long both keep a known absence, ±10 %.
    pub negative_ttl: Duration,
    /// How long the lease lasts without a heartbeat.
    pub lease_ttl: Duration,
    /// What a stop does with the slots.
    pub drain: Drain,
    /// How long a stop waits for requests in progress, and before that for a handoff.
    pub drain_timeout: Duration,
    /// One of so many reads is audited; 0: none.
    pub audit_every: u64,
    /// The bearer token of the cluster, if it has one.
    pub cluster_token: Option<ClusterToken>,
    /// The largest value, in bytes.
    pub max_value_bytes: u64,
    /// The listener's certificate, if it speaks TLS.
    pub tls: Option<Arc<ServerTls>>,
    /// How other nodes are reached.
    pub nodes: NodeDialler,
}

impl Config {
    /// The documented defaults.
    pub fn with_defaults(node_id: NodeId, advertise: String) -> Self {
        Self {
            node_id,
            advertise,
            weight: Weight::default(),
            pool: Pool::default(),
            redis_urls: Vec::new(),
            l1_bytes: 256 << 20,
            l1_ttl: Duration::from_secs(600),
            l2_ttl: Duration::from_secs(3600),
            negative_ttl: Duration::from_secs(30),
            lease_ttl: Duration::from_secs(3),
            drain: Drain::default(),
            drain_timeout: Duration::from_secs(10),
            audit_every: DEFAULT_AUDIT_EVERY,
            cluster_token: None,
            max_value_bytes: 1 << 20,
            tls: None,
            nodes: NodeDialler::default(),
        }
    }
}

/// The URL of a Redis server. Its `Debug` hides the password.
#[derive(Clone)]
pub struct RedisUrl(redis::Client);

/// A text that is no Redis URL; does not repeat it, for it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a Redis URL: expected redis://[user:password@]host[:port][/database]")]
pub struct RedisUrlInvalid;

impl RedisUrl {
    pub(crate) fn client(&self) -> redis::Client {
        self.0.clone()
    }
}

impl std::str::FromStr for RedisUrl {
    type Err = RedisUrlInvalid;

    fn from_str(url: &str) -> Result<Self, RedisUrlInvalid> {
        use redis::IntoConnectionInfo;
        if !url.starts_with("redis://") {
            return Err(RedisUrlInvalid);
        }
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true).set_user_timeout(Duration::from_secs(3));
        let info = url.into_connection_info().map_err(|_| RedisUrlInvalid)?.set_tcp_settings(tcp);
        redis::Client::open(info).map(Self).map_err(|_| RedisUrlInvalid)
    }
}

impl std::fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RedisUrl(…)")
    }
}
