//! Whether a request of the data plane may go on, by all that its head says: before anything is waited for or sent.

use http::{HeaderMap, Method, Request, header};
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
        if route == Route::put {
            whole_and_plain(request.headers())?;
        }
        if matches!(route, Route::put | Route::delete) {
            keeps_its_condition(request.headers())?;
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

/// A value is stored and given back as the bytes that were sent: what would make them a part, or another form, of something else
/// is refused rather than forgotten (RFC 9110, sections 14.5 and 8.4).
fn whole_and_plain(headers: &HeaderMap) -> Result<(), Problem> {
    let refused = |detail| Err(Problem::new(ProblemCode::RequestInvalid, detail));
    if headers.contains_key(header::CONTENT_RANGE) {
        return refused("a value is replaced as a whole: send no Content-Range");
    }
    if headers
        .get_all(header::CONTENT_ENCODING)
        .iter()
        .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return refused("Content-Encoding is not kept: send the bytes as they are to be read");
    }
    Ok(())
}

/// A write whose condition is said to be for this connection only would go on without it, and overwrite what it was to spare.
fn keeps_its_condition(headers: &HeaderMap) -> Result<(), Problem> {
    let is_condition = |name: &str| ["if-match", "if-none-match"].iter().any(|known| name.eq_ignore_ascii_case(known));
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    if values.flat_map(|value| value.split(',')).any(|name| is_condition(name.trim())) {
        return Err(Problem::new(ProblemCode::RequestInvalid, "Connection names the condition of the write"));
    }
    Ok(())
}
