//! What a standalone cluster is told at its start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use cache_node::RedisUrl;
use clap::Args;
use origin::DatabaseUrl;
use placement::NodeId;
use service::settings::{ClusterToken, HumanDuration, LogFormat};

/// The most nodes of one process.
pub const NODES_MAX: i64 = 64;
/// The SQLite file in the data directory.
const DATABASE_FILE: &str = "shardcache.db";

/// The settings of a standalone cluster.
#[derive(Clone, Debug, Args)]
pub struct Config {
    /// How many cache nodes to run, 1 to 64; all members of an existing ring are run whatever it says
    #[arg(long, env = "SHARDCACHE_NODES", default_value = "3", value_parser = clap::value_parser!(u16).range(1..=NODES_MAX))]
    pub nodes: u16,
    /// Where the gateway listens
    #[arg(long, env = "SHARDCACHE_LISTEN", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Where the SQLite file is kept unless a database is given
    #[arg(long, env = "SHARDCACHE_DATA_DIR", default_value = "./data")]
    pub data_dir: PathBuf,
    /// Use this database instead: postgres://… or sqlite://path
    #[arg(long, env = "DATABASE_URL")]
    pub database_url: Option<DatabaseUrl>,
    /// L2 servers, comma-separated: redis://[user:password@]host:port[/db]; none: no L2
    #[arg(long, env = "REDIS_URL", value_delimiter = ',')]
    pub redis_url: Vec<RedisUrl>,
    /// Hold one of so many reads, drawn by chance, against the database if L1 or L2 answered it; 0: none
    #[arg(long, env = "SHARDCACHE_AUDIT_EVERY", default_value_t = cache_node::DEFAULT_AUDIT_EVERY)]
    pub audit_every: u64,
    /// Bearer token between gateway, nodes and migrator
    #[arg(long, env = "SHARDCACHE_CLUSTER_TOKEN")]
    pub cluster_token: Option<ClusterToken>,
    /// How long a node that is down is given to come back before its slots are taken over, 1s to 1h
    #[arg(long = "grace", env = "SHARDCACHE_TAKEOVER_GRACE", default_value = "10s", value_parser = migrator::cli::grace)]
    pub takeover_grace: HumanDuration,
    /// How logs look [default: pretty on a terminal, else json]
    #[arg(long, env = "SHARDCACHE_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,
}

impl Config {
    /// The database in use.
    pub fn database(&self) -> DatabaseUrl {
        self.database_url.clone().unwrap_or_else(|| DatabaseUrl::Sqlite(self.data_dir.join(DATABASE_FILE)))
    }

    /// How a shell command names the database in use, without a password.
    pub fn database_for_shell(&self) -> String {
        match &self.database_url {
            Some(_) => "\"$DATABASE_URL\"".to_owned(),
            None => quoted(&format!("sqlite://{}", self.data_dir.join(DATABASE_FILE).display())),
        }
    }
}

/// The name of the n-th node, counted from 1.
pub fn node_name(number: u16) -> NodeId {
    format!("node-{number}").parse().expect("a prefix and a number are a node id")
}

/// The number of a node named as ours are.
pub fn node_number(id: &NodeId) -> Option<u16> {
    let number: u16 = id.as_str().strip_prefix("node-")?.parse().ok()?;
    // "node-01" is somebody else's.
    (number > 0 && node_name(number) == *id).then_some(number)
}

/// Makes the directory of an SQLite file.
pub fn create_parent(database: &DatabaseUrl) -> std::io::Result<()> {
    match database {
        DatabaseUrl::Sqlite(path) => std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))),
        DatabaseUrl::Postgres(_) => Ok(()),
    }
}

/// A word of a shell command.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/:._-".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_as_ours_have_a_number() {
        let number = |name: &str| node_number(&name.parse().expect("node id"));
        assert_eq!(number("node-1"), Some(1));
        assert_eq!(number("node-64"), Some(64));
        for other in ["node-0", "node-01", "node-x", "cache-node-1", "node-99999"] {
            assert_eq!(number(other), None, "{other}");
        }
    }

    #[test]
    fn words_that_a_shell_would_take_apart_are_quoted() {
        assert_eq!(quoted("sqlite://./data/shardcache.db"), "sqlite://./data/shardcache.db");
        assert_eq!(quoted("sqlite://my data/it's"), r"'sqlite://my data/it'\''s'");
    }
}
