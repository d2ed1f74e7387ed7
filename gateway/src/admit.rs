//! Whether a request of the data plane may go on, by all that its head says: before anything is waited for or sent.

use http::{HeaderMap, Method, Request};
use hyper::body::{Body, Incoming};
use placement::{EntryKey, UserId};
use service::request_metrics::Route;
use wire::entries::{ENTRIES_PREFIX, decode_key};
use wire::{Problem, ProblemCode};

use crate::client_address::ClientAddress;
use crate::gateway::Gateway;
use crate::identity::{Caller, Scope};
use crate::route_user::{Asked, user_of};

/// A request that may go on.
pub(crate) struct Admitted {
    pub(crate) user: UserId,
    /// The key where the path has one.
    pub(crate) key: Option<EntryKey>,
}

impl Gateway {
    pub(crate) fn admit(
        &self,
        request: &Request<Incoming>,
        route: Route,
        client: ClientAddress,
    ) -> Result<Admitted, Problem> {
        self.config.clients.may_come_in(client)?;
        let allowed = match route {
            Route::other => "GET, HEAD, PUT, DELETE",
            Route::list if request.method() != Method::GET => "GET",
            Route::mget if request.method() != Method::POST => "POST",
            _ => "",
        };
        if !allowed.is_empty() {
            return Err(Problem::new(ProblemCode::MethodNotAllowed, format!("this route has {allowed}")));
        }
        let scope = if matches!(route, Route::put | Route::delete) { Scope::Write } else { Scope::Read };
        let caller = self.identity.caller(request.headers(), scope)?;
        let user = self.user_of(request.headers(), caller, client)?;
        let key = request.uri().path().strip_prefix(ENTRIES_PREFIX).map(decode_key).transpose();
        let key = key.map_err(|invalid| Problem::new(ProblemCode::KeyInvalid, invalid.to_string()))?;
        if !matches!(route, Route::put | Route::mget) && !request.body().is_end_stream() {
            return Err(Problem::new(ProblemCode::RequestInvalid, "this request has no body"));
        }
        Ok(Admitted { user, key })
    }

    /// The user that a caller asks for.
    pub(crate) fn user_of(
        &self,
        headers: &HeaderMap,
        caller: Caller,
        client: ClientAddress,
    ) -> Result<UserId, Problem> {
        let ClientAddress { address, by_trusted_proxy } = client;
        user_of(headers, Asked { keyless: &self.config.keyless, caller, client: Some(address), by_trusted_proxy })
    }
}
