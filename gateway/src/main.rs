//! The `gateway` program.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use gateway::{Config, Keyless, UsersSettings};
use origin::{DatabaseUrl, OpenOptions, Origin};
use service::settings::{ByteSize, ClusterToken, HumanDuration, LogFormat};

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
    /// Requests without X-User-ID: refuse them, or let the client's address name the user.
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
    /// How logs look; by default pretty on a terminal, else json.
    #[arg(long, env = "SHARDCACHE_LOG_FORMAT", hide_env_values = true)]
    log_format: Option<LogFormat>,
}

/// The gateway only polls the ring.
const DATABASE_CONNECTIONS: u32 = 3;

fn main() -> ExitCode {
    let args: Args = service::settings::parse_args();
    if let Some(Command::Healthcheck { listen }) = args.command {
        return service::healthcheck::run(listen);
    }
    let log_format = args.settings.log_format;
    service::program::run("gateway", log_format, run(args.settings))
}

async fn run(settings: Settings) -> anyhow::Result<()> {
    let stop = service::stop::on_signals();
    let listener = service::listen::bind(settings.listen).await?;
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
    };
    tracing::info!(listen = %listener.local_addr()?, "starting");
    let gateway = gateway::start(config, origin.clone(), listener, stop).await?;
    gateway.stopped().await?;
    origin.close().await;
    Ok(())
}
