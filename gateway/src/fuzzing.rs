//! What `tests/fuzz` reaches of the gateway's readers of outside bytes. No part of the crate's interface.

use std::net::IpAddr;

use http::HeaderMap;
use origin::RingState;
use placement::UserId;
use placement::ring::RingInvalid;
use wire::ProblemCode;
use wire::ring_document::RingDocument;

use crate::client_address::ClientSettings;
use crate::identity::Caller;
use crate::ring_view::RingView;
use crate::route_user::{self, Asked, Keyless};

/// The user of a client's request.
pub fn user_of(headers: &HeaderMap, keyless: &Keyless, client: Option<IpAddr>) -> Result<UserId, ProblemCode> {
    let asked = Asked { keyless, caller: Caller::Any, client, by_trusted_proxy: false };
    route_user::user_of(headers, asked).map_err(|problem| problem.code)
}

/// The address of a request's client, behind a peer that is a trusted proxy in 10.0.0.0/8, or not.
pub fn client_of(headers: &HeaderMap, peer: IpAddr) -> Result<IpAddr, ProblemCode> {
    let trusted_proxies = "10.0.0.0/8".parse().map_err(|_| ProblemCode::RequestInvalid)?;
    let settings = ClientSettings { trusted_proxies, ..ClientSettings::default() };
    settings.client_of(peer, headers).map(|client| client.address).map_err(|problem| problem.code)
}

/// What `GET /v1/ring` answers when the database holds this.
pub fn ring_document(state: &RingState) -> Result<RingDocument, RingInvalid> {
    RingView::default().next(state).map(|view| view.document())
}
