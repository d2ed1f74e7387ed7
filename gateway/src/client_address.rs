//! Where a request comes from: the TCP peer, or, behind proxies that are trusted, the client that they name; and who may come in.
//!
//! A proxy appends what it saw to what it was sent, so only what stands to the right of the first untrusted address is true:
//! the headers are read from right to left, and never when the peer itself is not trusted.

mod hops;
mod networks;

use std::net::IpAddr;

use http::HeaderMap;
use wire::{Problem, ProblemCode};

pub use networks::{Networks, NetworksInvalid};

use crate::limits;
use hops::Named;

/// The settings of where clients come from.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ClientSettings {
    /// Proxies whose X-Forwarded-For or Forwarded is believed: addresses and networks, separated by commas.
    #[arg(long, env = "SHARDCACHE_TRUSTED_PROXIES", default_value = "", hide_default_value = true)]
    pub trusted_proxies: Networks,
    /// Clients that may come in, all others may not: addresses and networks, separated by commas.
    #[arg(long, env = "SHARDCACHE_ALLOW", default_value = "", hide_default_value = true)]
    pub allow: Networks,
    /// Clients that may not come in, also where they are allowed: addresses and networks, separated by commas.
    #[arg(long, env = "SHARDCACHE_DENY", default_value = "", hide_default_value = true)]
    pub deny: Networks,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientAddress {
    /// IPv4 within IPv6 is IPv4.
    pub(crate) address: IpAddr,
    /// Whether the TCP peer is a trusted proxy: only then is what it says of its client believed.
    pub(crate) by_trusted_proxy: bool,
}

impl ClientSettings {
    /// Where a request of this TCP peer comes from.
    ///
    /// 400 `request_invalid` where both headers are there and name different clients: at most one of them was written by the
    /// proxy, and the other by whoever wants to be another.
    pub(crate) fn client_of(&self, peer: IpAddr, headers: &HeaderMap) -> Result<ClientAddress, Problem> {
        let peer = peer.to_canonical();
        if !self.trusted_proxies.contains(peer) {
            return Ok(ClientAddress { address: peer, by_trusted_proxy: false });
        }
        let x_forwarded_for = hops::x_forwarded_for(headers).map(|hops| self.first_untrusted(peer, hops));
        let forwarded = hops::forwarded(headers).map(|hops| self.first_untrusted(peer, hops));
        let address = match (x_forwarded_for, forwarded) {
            (Some(one), Some(other)) if one != other => {
                let detail = "X-Forwarded-For and Forwarded name different clients: let the proxy drop the one that it does not write";
                return Err(Problem::new(ProblemCode::RequestInvalid, detail));
            }
            (named, other) => named.or(other).unwrap_or(peer),
        };
        Ok(ClientAddress { address, by_trusted_proxy: true })
    }

    /// The hops from the nearest to the farthest, up to the first that is not ours; one that names nobody ends the way before it.
    fn first_untrusted(&self, peer: IpAddr, hops: impl Iterator<Item = Named>) -> IpAddr {
        let mut last = peer;
        for hop in hops.take(limits::FORWARDED_HOPS_MAX) {
            let Named::Address(address) = hop else { return last };
            last = address;
            if !self.trusted_proxies.contains(address) {
                return last;
            }
        }
        last
    }

    /// 403 `forbidden` for a client that may not come in.
    pub(crate) fn may_come_in(&self, client: ClientAddress) -> Result<(), Problem> {
        let denied = self.deny.contains(client.address);
        if denied || (!self.allow.is_empty() && !self.allow.contains(client.address)) {
            return Err(Problem::new(ProblemCode::Forbidden, "this client address may not come in"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
