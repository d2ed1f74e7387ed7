//! The `gateway` program.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use gateway::{
    AccessLogSettings, Auth, ClientSettings, Config, FaultSettings, IdentitySettings, Keyless, NodePolicy,
    RateSettings, ShedSettings, UsersSettings,
};
use origin::{DatabaseUrl, OpenOptions, Origin};
use service::settings::{ByteSize, ClusterToken, HumanDuration, LogFormat};
use service::tls::{ClientAuthority, ListenerTls, NodeTls};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Routes requests by X-User-ID to the cache node that owns the user's entries.
#[derive(Debug, Parser)]
#[command(name = "gateway", version, about, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Exit 0 if the gateway that listens at the address answers its health route.
    Healthcheck {
        /// Where the gateway listens.
        #[arg(long, env = "SHARDCACHE_LISTEN", default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
        #[command(flatten)]
        tls: ListenerTls,
    },
}

#[derive(Debug, clap::Args)]
struct Settings {
    /// Where the ring is kept: postgres://… or sqlite://path.
    #[arg(long, env = "DATABASE_URL", default_value = "sqlite://data/shardcache.db", hide_env_values = true)]
    database_url: DatabaseUrl,
    /// Where to listen.
    #[arg(long, env = "SHARDCACHE_LISTEN", default_value = "127.0.0.1:8080", hide_env_values = true)]
    listen: SocketAddr,
    /// Requests without X-User-ID: reject them, or let something else name the user: client-ip, cookie:NAME or header:NAME.
    #[arg(long, env = "SHARDCACHE_KEYLESS", default_value = "reject", hide_env_values = true)]
    keyless: Keyless,
    /// Bearer token that the nodes want to see.
    #[arg(long, env = "SHARDCACHE_CLUSTER_TOKEN", hide_env_values = true)]
    cluster_token: Option<ClusterToken>,
    /// The largest value.
    #[arg(long, env = "SHARDCACHE_MAX_VALUE_BYTES", default_value = "1MiB", hide_env_values = true)]
    max_value_bytes: ByteSize,
    #[command(flatten)]
    users: UsersSettings,
    /// How long a stop waits for requests in progress.
    #[arg(long, env = "SHARDCACHE_DRAIN_TIMEOUT", default_value = "10s", hide_env_values = true)]
    drain_timeout: HumanDuration,
    #[command(flatten)]
    tls: ListenerTls,
    #[command(flatten)]
    node_tls: NodeTls,
    /// Where to answer plain HTTP with a redirect to HTTPS; by default nowhere.
    #[arg(long, env = "SHARDCACHE_REDIRECT_LISTEN", hide_env_values = true)]
    redirect_listen: Option<SocketAddr>,
    #[command(flatten)]
    nodes: NodePolicy,
    /// How logs look; by default pretty on a terminal, else json.
    #[arg(long, env = "SHARDCACHE_LOG_FORMAT", hide_env_values = true)]
    log_format: Option<LogFormat>,
    #[command(flatten)]
    identity: IdentitySettings,
    #[command(flatten)]
    clients: ClientSettings,
    #[command(flatten)]
    access_log: AccessLogSettings,
    #[command(flatten)]
    rate: RateSettings,
    #[command(flatten)]
    shed: ShedSettings,
    #[command(flatten)]
    faults: FaultSettings,
}

/// The gateway only polls the ring.
const DATABASE_CONNECTIONS: u32 = 3;

fn main() -> ExitCode {
    let args: Args = service::settings::parse_args();
    if let Some(Command::Healthcheck { listen, tls }) = args.command {
        return service::healthcheck::run(listen, &tls, &NodeTls::default());
    }
    let log_format = args.settings.log_format;
    service::program::run("gateway", log_format, run(args.settings))
}

async fn run(settings: Settings) -> anyhow::Result<()> {
    let auth = settings.identity.auth()?;
    if matches!(auth, Auth::Jwt(_)) && settings.keyless != Keyless::Reject {
        anyhow::bail!("SHARDCACHE_KEYLESS has no effect with SHARDCACHE_AUTH=jwt: the token names the user");
    }
    auth.check()?;
    let stop = service::stop::on_signals();
    let tls = settings.tls.server(&ClientAuthority::default(), true)?;
    let dialler = settings.node_tls.dialler(None)?;
    let listener = service::listen::bind(settings.listen).await?;
    let redirect = match settings.redirect_listen {
        Some(_) if tls.is_none() => {
            anyhow::bail!("SHARDCACHE_REDIRECT_LISTEN (--redirect-listen) needs SHARDCACHE_TLS_CERT")
        }
        Some(address) => Some(service::listen::bind(address).await?),
        None => None,
    };
    let options = OpenOptions { max_connections: DATABASE_CONNECTIONS, ..OpenOptions::default() };
    let origin = Origin::open(&settings.database_url, options)?;
    tokio::select! {
        migrated = origin.migrate_when_reachable() => migrated?,
        () = stop.cancelled() => anyhow::bail!("stopped before the database could be reached"),
    }
    let config = Config {
        cluster_token: settings.cluster_token,
        keyless: settings.keyless,
        max_value_bytes: settings.max_value_bytes.bytes(),
        show_users: settings.users.show_users,
        drain_timeout: settings.drain_timeout.get(),
        auth,
        clients: settings.clients,
        access_log: settings.access_log,
        admin_listen: settings.identity.admin_listen(),
        tls,
        dialler,
        rate: settings.rate,
        shed: settings.shed,
        faults: settings.faults,
        nodes: settings.nodes,
    };
    tracing::info!(listen = %listener.local_addr()?, "starting");
    let redirecting = match redirect {
        Some(redirect) => Some(gateway::redirect_to_https(redirect, listener.local_addr()?.port(), stop.clone())?),
        None => None,
    };
    let gateway = gateway::start(config, origin.clone(), listener, stop).await?;
    gateway.stopped().await?;
    if let Some(redirecting) = redirecting {
        redirecting.stopped().await?;
    }
    origin.close().await;
    Ok(())
}
