//! Fault proxies between the programs of a cluster and what they talk to.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::fault_proxy::FaultProxy;

/// Which connections of a cluster's programs go through fault proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// None.
    None,
    /// Those of all programs to Postgres, through one proxy: [`Link::Database`].
    Database,
    /// All, each through a proxy of its own; of [`Link`] all but [`Link::Database`].
    Each,
}

/// One fault proxy of a cluster, by who connects through it to whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Link {
    /// All programs to Postgres.
    Database,
    /// This node to Postgres.
    NodeDatabase(String),
    /// This node to the L2 server of this number.
    NodeRedis(String, usize),
    /// Gateways, migrators and other nodes to this node.
    NodePeer(String),
    /// The gateway of this number to Postgres.
    GatewayDatabase(usize),
    /// Every migrator to Postgres.
    MigratorDatabase,
}

/// The proxies of a cluster.
#[derive(Default)]
pub struct LinkMap(BTreeMap<Link, FaultProxy>);

impl LinkMap {
    /// Starts a proxy in front of `upstream`, which need not be there yet; where it listens.
    pub(super) async fn start(&mut self, link: Link, upstream: SocketAddr) -> SocketAddr {
        let proxy = FaultProxy::start(&upstream.to_string()).await;
        let address = proxy.address();
        self.0.insert(link, proxy);
        address
    }

    /// The proxy of a link.
    ///
    /// # Panics
    /// When the cluster was started without it.
    pub fn of(&self, link: &Link) -> &FaultProxy {
        self.0.get(link).unwrap_or_else(|| panic!("the cluster has no proxy for {link:?}"))
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (&Link, &FaultProxy)> {
        self.0.iter()
    }
}
