//! One line of the access log. Pure, but for where it is written.

use std::io::{self, Write};
use std::net::IpAddr;

use http::{HeaderValue, Method};
use serde::Serialize;
use service::request_metrics::Route;
use service::timestamp::rfc3339_ms;

use super::Record;
use crate::user_hash::UserHash;

#[derive(Serialize)]
struct Line<'a> {
    /// When the request's head was here, RFC 3339.
    time: String,
    client: IpAddr,
    method: &'a str,
    route: &'static str,
    /// 499: the client was gone before there was an answer.
    status: u16,
    /// Of the answer's body, as far as it was handed to the connection.
    bytes: u64,
    /// HMAC-SHA256 of the user, the first 128 bits; none: the request was refused before its user was known.
    user: Option<String>,
    /// From the request's head to the answer's.
    gateway_us: u64,
    /// Of that, from the last question to a node to the head of its answer; none: no node answered.
    node_us: Option<u64>,
    /// Which tier had the entry, if any was asked.
    tier: Option<&'static str>,
    node: Option<&'a str>,
    request_id: &'a str,
}

pub(super) fn write(record: &Record, users: &UserHash, to: &mut impl Write) -> io::Result<()> {
    let text = |value: &'_ Option<HeaderValue>| value.as_ref().and_then(|value| value.to_str().ok()).map(str::to_owned);
    let node = text(&record.node);
    let line = Line {
        time: rfc3339_ms(record.time_ms),
        client: record.client,
        method: method_name(&record.method),
        route: route_name(record.route),
        status: record.status,
        bytes: record.bytes,
        user: record.user.as_ref().map(|user| users.of(user.as_str())),
        gateway_us: record.gateway_us,
        node_us: record.node_us,
        tier: text(&record.cache_status).and_then(|status| tier_of(&status)),
        node: node.as_deref(),
        request_id: &record.request_id,
    };
    let mut json = serde_json::to_vec(&line)?;
    json.push(b'\n');
    to.write_all(&json)
}

/// A method of the client's own making could say anything.
fn method_name(method: &Method) -> &str {
    const KNOWN: [Method; 7] =
        [Method::GET, Method::HEAD, Method::PUT, Method::POST, Method::DELETE, Method::OPTIONS, Method::PATCH];
    if KNOWN.contains(method) { method.as_str() } else { "other" }
}

fn route_name(route: Route) -> &'static str {
    match route {
        Route::get => "get",
        Route::head => "head",
        Route::put => "put",
        Route::delete => "delete",
        Route::list => "list",
        Route::mget => "mget",
        Route::other => "other",
    }
}

/// The tier that answered a read: the last that `Cache-Status` (RFC 9211) names, the nearest to the origin.
fn tier_of(cache_status: &str) -> Option<&'static str> {
    let mut last = cache_status.rsplit(',').next()?.split(';').map(str::trim);
    let (cache, hit) = (last.next()?, last.any(|parameter| parameter == "hit"));
    match cache {
        "shardcache-l1" if hit => Some("l1"),
        "shardcache-l2" if hit => Some("l2"),
        "shardcache-origin" => Some("origin"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tier_is_the_last_that_was_asked() {
        for (cache_status, tier) in [
            ("shardcache-l1; hit", Some("l1")),
            ("shardcache-l1; fwd=miss, shardcache-l2; hit", Some("l2")),
            ("shardcache-l1; fwd=miss; collapsed, shardcache-l2; hit", Some("l2")),
            ("shardcache-l1; fwd=miss, shardcache-l2; fwd=miss; stored, shardcache-origin; hit", Some("origin")),
            ("shardcache-l1; fwd=bypass; detail=detached, shardcache-origin; fwd=miss", Some("origin")),
            ("shardcache-l1; fwd=method", None),
            ("shardcache-l1; fwd=bypass; detail=list", None),
            ("", None),
        ] {
            assert_eq!(tier_of(cache_status), tier, "{cache_status}");
        }
    }
}
