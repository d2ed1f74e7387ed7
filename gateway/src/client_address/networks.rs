//! A list of networks as an operator writes it, and whether an address is in one of them.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};

/// The most networks of one list: each is looked at for each request.
const NETWORKS_MAX: usize = 1024;

/// Networks; cheap to clone. An address without a prefix length is a network of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(Arc<[IpNet]>);

/// A text that is no list of networks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworksInvalid {
    /// One of the list is neither an address nor a network.
    #[error("{0:?} is no address or network as 10.0.0.0/8 or 2001:db8::/32")]
    Network(String),
    /// More than [`NETWORKS_MAX`].
    #[error("more than {NETWORKS_MAX} networks")]
    TooMany,
}

impl Networks {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them has the address, which is canonical: IPv4 within IPv6 is IPv4.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl std::str::FromStr for Networks {
    type Err = NetworksInvalid;

    fn from_str(text: &str) -> Result<Self, NetworksInvalid> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let networks: Vec<IpNet> = parts.map(network).collect::<Result<_, _>>()?;
        // Nothing is no list; a list of nobody would be taken for that.
        if networks.is_empty() && !text.trim().is_empty() {
            return Err(NetworksInvalid::Network(text.to_owned()));
        }
        if networks.len() > NETWORKS_MAX { Err(NetworksInvalid::TooMany) } else { Ok(Self(networks.into())) }
    }
}

fn network(text: &str) -> Result<IpNet, NetworksInvalid> {
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    let network = text.parse::<IpNet>().ok().or_else(address);
    network.map(canonical).ok_or_else(|| NetworksInvalid::Network(text.to_owned()))
}

/// IPv4 within IPv6 is IPv4, as it is in the addresses that are looked for.
fn canonical(network: IpNet) -> IpNet {
    const MAPPED_BITS: u8 = 96;
    let IpNet::V6(v6) = network else { return network };
    let (v4, length) = (v6.addr().to_ipv4_mapped(), v6.prefix_len().checked_sub(MAPPED_BITS));
    match (v4, length) {
        (Some(v4), Some(length)) => Ipv4Net::new(v4, length).map_or(network, IpNet::V4),
        _ => network,
    }
}
