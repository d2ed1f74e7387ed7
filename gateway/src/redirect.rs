//! The plain listener beside one with TLS: it answers every request with a redirect to HTTPS, and nothing else.

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use service::RunningServer;
use service::body::refuse;
use service::listen::{ServeOptions, serve};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use wire::{Problem, ProblemCode};

/// The port that an https URL need not name.
const HTTPS_PORT: u16 = 443;
/// The longest host name, and a port.
const HOST_MAX_BYTES: usize = 253 + 6;

/// Redirects until `stop`: 308 to the same path of the same host. The port is `https_port` for clients that named this listener's
/// own port, for they reach both listeners directly; else that of HTTPS, where whoever maps ports has put the other.
pub fn redirect_to_https(
    listener: TcpListener,
    https_port: u16,
    stop: CancellationToken,
) -> anyhow::Result<RunningServer> {
    let own_port = listener.local_addr()?.port();
    RunningServer::start(listener, move |listener| {
        let answer = move |request: Request<Incoming>, _peer| {
            let answer = answer(request, own_port, https_port);
            async move { answer }
        };
        serve(listener, answer, ServeOptions::default(), stop)
    })
}

fn answer(request: Request<Incoming>, own_port: u16, https_port: u16) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let location = host.and_then(|host| location(host, path, own_port, https_port));
    let mut response = match location.and_then(|location| HeaderValue::try_from(location).ok()) {
        Some(location) => {
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
            response.headers_mut().insert(header::LOCATION, location);
            response
        }
        None => Problem::new(ProblemCode::RequestInvalid, "Host names no host").into_response(),
    };
    if !body.is_end_stream() {
        refuse(&head.headers, body);
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// `None`: the host is none.
fn location(host: &str, path: &str, own_port: u16, https_port: u16) -> Option<String> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port.parse::<u16>().ok()?)),
        _ => (host, None),
    };
    let path = if path.starts_with('/') { path } else { "/" };
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    let is_address = |name: &str| {
        let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        inner.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
    };
    if name.is_empty() || host.len() > HOST_MAX_BYTES || !(is_name(name) || is_address(name)) {
        return None;
    }
    match port {
        Some(port) if port == own_port && https_port != HTTPS_PORT => {
            Some(format!("https://{name}:{https_port}{path}"))
        }
        _ => Some(format!("https://{name}{path}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_host_and_path_by_https() {
        let of = |host, path| location(host, path, 8080, 8443).unwrap_or_default();
        assert_eq!(of("example.com", "/a?b=c"), "https://example.com/a?b=c");
        assert_eq!(of("example.com:80", "/"), "https://example.com/");
        assert_eq!(of("localhost:8080", "/a"), "https://localhost:8443/a");
        assert_eq!(of("[::1]:8080", "/a"), "https://[::1]:8443/a");
        assert_eq!(of("[::1]", "*"), "https://[::1]/");
        assert_eq!(location("localhost:80", "/", 80, 443).as_deref(), Some("https://localhost/"));
    }

    #[test]
    fn what_is_no_host_is_sent_nowhere() {
        for host in ["", "a b", "a/b", "user@evil", "a:b", "a:99999", "[::1", "::1", "a\\b", "a?b", "a#b", ":80", "[x]"]
        {
            assert_eq!(location(host, "/", 8080, 8443), None, "{host}");
        }
    }
}
