//! The `cache-node` program.

use std::net::SocketAddr;
use std::process::ExitCode;

use cache_node::{Config, DEFAULT_AUDIT_EVERY, Drain, RedisUrl};
use clap::{Parser, Subcommand, ValueEnum};
use origin::{DatabaseUrl, OpenOptions, Origin};
use placement::{NodeId, Pool, Weight};
use service::settings::{ByteSize, ClusterToken, HumanDuration, LogFormat};
use service::tls::{ClientAuthority, ListenerTls, NodeTls};
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One cache node: L1 (memory) → L2 (Redis) → origin (Postgres or SQLite).
#[derive(Debug, Parser)]
#[command(name = "cache-node", version, about, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Exit 0 if the node that listens at the address answers its health route.
    Healthcheck {
        /// Where the node listens.
        #[arg(long, env = "SHARDCACHE_LISTEN", default_value = "127.0.0.1:7000")]
        listen: SocketAddr,
        #[command(flatten)]
        tls: ListenerTls,
        #[command(flatten)]
        node_tls: NodeTls,
    },
}

#[derive(Debug, clap::Args)]
struct Settings {
    /// Where entries are kept: postgres://… or sqlite://path.
    #[arg(long, env = "DATABASE_URL", default_value = "sqlite://data/shardcache.db", hide_env_values = true)]
    database_url: DatabaseUrl,
    /// L2 servers, comma-separated: redis://[user:password@]host:port[/db]; none: no L2.
    #[arg(long, env = "REDIS_URL", value_delimiter = ',', hide_env_values = true)]
    redis_url: Vec<RedisUrl>,
    /// Where to listen.
    #[arg(long, env = "SHARDCACHE_LISTEN", default_value = "127.0.0.1:7000", hide_env_values = true)]
    listen: SocketAddr,
    /// host:port that gateways and the migrator dial; by default the address listened at.
    #[arg(long, env = "SHARDCACHE_ADVERTISE", value_parser = host_and_port, hide_env_values = true)]
    advertise: Option<String>,
    /// The node's name, the same after every restart.
    #[arg(long, env = "SHARDCACHE_NODE_ID", default_value = "node-1", hide_env_values = true)]
    node_id: NodeId,
    /// Its share of the slots relative to the others, once added: 1 to 10000.
    #[arg(long, env = "SHARDCACHE_NODE_WEIGHT", default_value = "100", value_parser = weight, hide_env_values = true)]
    node_weight: Weight,
    /// The pool of nodes that this one serves in: users assigned to a pool are served by its nodes alone.
    #[arg(long, env = "SHARDCACHE_NODE_POOL", default_value = "shared", hide_env_values = true)]
    node_pool: Pool,
    /// Bound of L1, keys, values and overhead together.
    #[arg(long, env = "SHARDCACHE_L1_BYTES", default_value = "256MiB", hide_env_values = true)]
    l1_bytes: ByteSize,
    /// How long L1 keeps an entry, ±10 %.
    #[arg(long, env = "SHARDCACHE_L1_TTL", default_value = "10m", hide_env_values = true)]
    l1_ttl: HumanDuration,
    /// How long L2 keeps an entry, ±10 %.
    #[arg(long, env = "SHARDCACHE_L2_TTL", default_value = "1h", hide_env_values = true)]
    l2_ttl: HumanDuration,
    /// How long both keep the knowledge that there is no such entry, ±10 %.
    #[arg(long, env = "SHARDCACHE_NEGATIVE_TTL", default_value = "30s", hide_env_values = true)]
    negative_ttl: HumanDuration,
    /// How long the lease lasts without a heartbeat: 1s to 60s.
    #[arg(long, env = "SHARDCACHE_LEASE_TTL", default_value = "3s", value_parser = lease_ttl, hide_env_values = true)]
    lease_ttl: HumanDuration,
    /// What a stop does with the node's slots: keep them for its return, or have them handed off to other members first,
    /// which takes a running `migrator watch`.
    #[arg(long, env = "SHARDCACHE_DRAIN", default_value = "release", hide_env_values = true)]
    drain: DrainSetting,
    /// How long a stop waits for requests in progress, and before that for a handoff.
    #[arg(long, env = "SHARDCACHE_DRAIN_TIMEOUT", default_value = "10s", hide_env_values = true)]
    drain_timeout: HumanDuration,
    /// Hold one of so many reads, drawn by chance, against the database if L1 or L2 answered it; 0: none.
    #[arg(long, env = "SHARDCACHE_AUDIT_EVERY", default_value_t = DEFAULT_AUDIT_EVERY, hide_env_values = true)]
    audit_every: u64,
    /// Bearer token that gateways and the migrator must send.
    #[arg(long, env = "SHARDCACHE_CLUSTER_TOKEN", hide_env_values = true)]
    cluster_token: Option<ClusterToken>,
    /// The largest value.
    #[arg(long, env = "SHARDCACHE_MAX_VALUE_BYTES", default_value = "1MiB", hide_env_values = true)]
    max_value_bytes: ByteSize,
    #[command(flatten)]
    tls: ListenerTls,
    #[command(flatten)]
    client_authority: ClientAuthority,
    #[command(flatten)]
    node_tls: NodeTls,
    /// How logs look; by default pretty on a terminal, else json.
    #[arg(long, env = "SHARDCACHE_LOG_FORMAT", hide_env_values = true)]
    log_format: Option<LogFormat>,
    /// Test only: the old bug to bring back.
    #[cfg(feature = "old-bugs")]
    #[arg(long, env = "SHARDCACHE_OLD_BUG", hide_env_values = true)]
    old_bug: Option<cache_node::OldBug>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DrainSetting {
    Release,
    Handoff,
}

pub(crate) fn main() -> ExitCode {
    let args: Args = service::settings::parse_args();
    if let Some(Command::Healthcheck { listen, tls, node_tls }) = args.command {
        return service::healthcheck::run(listen, &tls, &node_tls);
    }
    let log_format = args.settings.log_format;
    service::program::run("cache-node", log_format, run(args.settings))
}

async fn run(settings: Settings) -> anyhow::Result<()> {
    #[cfg(feature = "old-bugs")]
    if let Some(bug) = settings.old_bug {
        cache_node::bring_back(bug);
    }
    let stop = service::stop::on_signals();
    let tls = settings.tls.server(&settings.client_authority, false)?;
    if tls.is_some() && settings.node_tls.node_ca.is_none() {
        anyhow::bail!(
            "SHARDCACHE_NODE_CA (--node-ca) must be set with SHARDCACHE_TLS_CERT: nodes reach each other by TLS too"
        );
    }
    let nodes = settings.node_tls.dialler(settings.tls.identity()?)?;
    let listener = service::listen::bind(settings.listen).await?;
    let advertise = match settings.advertise {
        Some(advertise) => advertise,
        // Nobody could dial the address that stands for all of them.
        None if settings.listen.ip().is_unspecified() => {
            anyhow::bail!("SHARDCACHE_ADVERTISE (--advertise) must be set when listening at {}", settings.listen)
        }
        None => listener.local_addr()?.to_string(),
    };
    let origin = Origin::open(&settings.database_url, OpenOptions::default())?;
    tokio::select! {
        migrated = origin.migrate_when_reachable() => migrated?,
        () = stop.cancelled() => anyhow::bail!("stopped before the database could be reached"),
    }
    let config = Config {
        node_id: settings.node_id,
        advertise,
        weight: settings.node_weight,
        pool: settings.node_pool,
        redis_urls: settings.redis_url,
        l1_bytes: settings.l1_bytes.bytes(),
        l1_ttl: settings.l1_ttl.get(),
        l2_ttl: settings.l2_ttl.get(),
        negative_ttl: settings.negative_ttl.get(),
        lease_ttl: settings.lease_ttl.get(),
        drain: drain(settings.drain, &stop),
        drain_timeout: settings.drain_timeout.get(),
        audit_every: settings.audit_every,
        cluster_token: settings.cluster_token,
        max_value_bytes: settings.max_value_bytes.bytes(),
        tls,
        nodes,
    };
    tracing::info!(node = %config.node_id, listen = %listener.local_addr()?, advertise = %config.advertise, "starting");
    let node = cache_node::start(config, origin.clone(), listener, stop).await?;
    node.stopped().await?;
    origin.close().await;
    Ok(())
}

fn drain(setting: DrainSetting, stop: &CancellationToken) -> Drain {
    match setting {
        DrainSetting::Release => Drain::Release,
        DrainSetting::Handoff => {
            let hurry = CancellationToken::new();
            tokio::spawn(cancel_at_second_signal(stop.clone(), hurry.clone()));
            Drain::Handoff { hurry }
        }
    }
}

/// Whoever asks twice does not want to wait for the handoff.
async fn cancel_at_second_signal(stop: CancellationToken, hurry: CancellationToken) {
    stop.cancelled().await;
    service::stop::on_signals().cancelled().await;
    hurry.cancel();
}

fn weight(text: &str) -> Result<Weight, String> {
    let number: u32 = text.parse().map_err(|_| "weights are 1 to 10000".to_owned())?;
    Weight::try_from(number).map_err(|invalid| invalid.to_string())
}

fn lease_ttl(text: &str) -> Result<HumanDuration, String> {
    let ttl: HumanDuration = text.parse().map_err(|invalid| format!("{invalid}"))?;
    let allowed = std::time::Duration::from_secs(1)..=std::time::Duration::from_secs(60);
    if allowed.contains(&ttl.get()) { Ok(ttl) } else { Err("a lease lasts 1s to 60s".to_owned()) }
}

fn host_and_port(text: &str) -> Result<String, String> {
    let refused = || "expected host:port with a port from 1 to 65535".to_owned();
    let (host, port) = text.rsplit_once(':').ok_or_else(refused)?;
    let port: u16 = port.parse().map_err(|_| refused())?;
    let host_ok = !host.is_empty() && host.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b'@');
    if host_ok && port > 0 { Ok(text.to_owned()) } else { Err(refused()) }
}
