//! Which page is served at which door, and to whom.
//!
//! A page that is not named here is at no door: whoever adds one decides.

use std::net::IpAddr;

use http::request::Parts;
use wire::{Problem, ProblemCode};

use crate::client_address::ClientAddress;
use crate::gateway::Gateway;
use crate::identity::Scope;

/// Where a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// Where the data plane is.
    Public,
    /// The listener for those who run the cluster: who reaches it may see everything that it has.
    Admin,
}

/// What a page wants of whoever asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Nothing: also those who may not come in learn whether the gateway lives.
    Anyone,
    /// To be let in. The handler finds out who asks, where it matters.
    LetIn,
    /// To be let in, and this scope.
    With(Scope),
    /// It is not at this door.
    Nowhere,
}

/// `admin_apart`: there is a listener for admins.
fn access(path: &str, door: Door, admin_apart: bool) -> Access {
    match (path, door) {
        ("/healthz" | "/readyz", _) => Access::Anyone,
        ("/" | "/metrics" | "/v1/ring" | "/v1/ring/locate" | "/v1/users/top" | "/openapi.json", Door::Admin) => {
            Access::Anyone
        }
        ("/" | "/metrics" | "/v1/users/top", Door::Public) if admin_apart => Access::Nowhere,
        ("/" | "/metrics" | "/v1/ring" | "/v1/users/top", Door::Public) => Access::With(Scope::Admin),
        ("/v1/ring/locate" | "/openapi.json", Door::Public) => Access::LetIn,
        _ => Access::Nowhere,
    }
}

/// Where the request comes from, if it may have the page.
pub(super) fn may_see(gateway: &Gateway, head: &Parts, peer: IpAddr, door: Door) -> Result<ClientAddress, Problem> {
    let unseen = ClientAddress { address: peer, by_trusted_proxy: false };
    let nowhere = || Problem::new(ProblemCode::NotFound, "see the README for the routes");
    let access = access(head.uri.path(), door, gateway.config.admin_listen.is_some());
    match (access, door) {
        (Access::Anyone, _) => return Ok(unseen),
        // The lists of addresses are of the public door.
        (Access::Nowhere, Door::Admin) => return Err(nowhere()),
        _ => {}
    }
    let client = gateway.config.clients.client_of(peer, &head.headers)?;
    gateway.config.clients.may_come_in(client)?;
    match access {
        Access::Nowhere => return Err(nowhere()),
        Access::With(scope) => {
            gateway.identity.caller(&head.headers, scope)?;
        }
        Access::Anyone | Access::LetIn => {}
    }
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_its_door() {
        let source = include_str!("../http.rs");
        let pages = source.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")?.split_once('"'));
        let pages: Vec<&str> = pages.map(|(path, _)| path).collect();
        assert!(pages.len() >= 7, "{pages:?}");
        for page in pages {
            assert_ne!(access(page, Door::Admin, true), Access::Nowhere, "{page}");
            assert_ne!(access(page, Door::Public, false), Access::Nowhere, "{page}");
        }
    }

    #[test]
    fn what_only_admins_may_see_is_at_their_door_or_behind_their_scope() {
        for page in ["/", "/metrics"] {
            assert_eq!(access(page, Door::Public, true), Access::Nowhere);
            assert_eq!(access(page, Door::Public, false), Access::With(Scope::Admin));
        }
        assert_eq!(access("/v1/ring", Door::Public, true), Access::With(Scope::Admin));
        for door in [Door::Public, Door::Admin] {
            assert_eq!(access("/healthz", door, true), Access::Anyone);
            assert_eq!(access("/v1/entries/k", door, true), Access::Nowhere);
            assert_eq!(access("//metrics", door, false), Access::Nowhere);
        }
    }
}
