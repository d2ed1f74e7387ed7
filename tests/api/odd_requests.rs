//! Requests that no sane client sends: each gets a well-formed answer below 500 or a close, and harms nobody.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use tests::http::RawConnection;

use crate::support::{ask, on_shared};

/// Longer than the bound of a body that does not come (10 s).
const ANSWERED: Duration = Duration::from_secs(20);

const USER: &str = "Host: x\r\nX-User-ID: odd\r\n";

fn lines() -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for target in [
        "GET * HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "CONNECT example.com:443 HTTP/1.1",
        "CONNECT /v1/entries/a HTTP/1.1",
        "CONNECT * HTTP/1.1",
        "GET http://other/v1/entries/a HTTP/1.1",
        "GET http://other HTTP/1.1",
        "GET http://other?x HTTP/1.1",
        "GET https://u:p@other:1/v1/entries/a HTTP/1.1",
        "GET http:///v1/entries/a HTTP/1.1",
        "GET example.com HTTP/1.1",
        "GET ?a=b HTTP/1.1",
        "GET  / HTTP/1.1",
        "GET / HTTP/1.1 x",
        "GET /",
        "GET / HTTP/0.9",
        "GET / HTTP/1.2",
        "GET / HTTP/2.0",
        "GET / HTTP/9.9",
        "GET / http/1.1",
        "GET / HTP/1.1",
        "GET / HTTP/1.0",
        "GET /v1/entries/a HTTP/1.0\r\nConnection: keep-alive",
        "PUT /v1/entries/a HTTP/1.0",
        "HEAD / HTTP/1.0",
        "HEAD /v1/entries HTTP/1.1\r\nConnection: close",
        "HEAD /v1/entries/a?x=%zz HTTP/1.1\r\nConnection: close",
        "G@T / HTTP/1.1",
        "get / HTTP/1.1",
        "BREW /v1/entries/a HTTP/1.1",
        "TRACE /v1/entries/a HTTP/1.1",
        "QUERY /v1/entries HTTP/1.1",
        " GET / HTTP/1.1",
        "GET /v1/entries/a# HTTP/1.1",
        "GET /v1/entries/\"<>^`{|} HTTP/1.1",
        "GET /v1/entries/a\tb HTTP/1.1",
        "GET /v1/entries/a\0b HTTP/1.1",
        "GET /v1/entries?limit=18446744073709551616&prefix=&after=%F0 HTTP/1.1",
        "GET /v1/entries?prefix=%F0%9F%A6%80%0A&after=%01 HTTP/1.1",
        "GET /v1/ring?%00 HTTP/1.1",
        "GET /internal/x HTTP/1.1",
        "POST /internal/changes/99999999999999999999/seal HTTP/1.1",
        "POST /internal/changes/-1/settle HTTP/1.1",
    ] {
        lines.push(format!("{target}\r\n{USER}\r\n").into_bytes());
    }
    lines
}

fn headers() -> Vec<Vec<u8>> {
    let get = |more: &[u8]| [format!("GET /v1/entries/a HTTP/1.1\r\n{USER}").as_bytes(), more, b"\r\n\r\n"].concat();
    let put = |more: &[u8]| [format!("PUT /v1/entries/a HTTP/1.1\r\n{USER}").as_bytes(), more].concat();
    vec![
        b"GET /v1/entries/a HTTP/1.1\r\nX-User-ID: odd\r\n\r\n".to_vec(),
        get(b"Host: y"),
        get(b"A: \0"),
        get(b"A\0: x"),
        get(b": x"),
        get(b"no colon"),
        get(b"A: \xff\xfe"),
        get(&[b"A: ", &[b'x'; 100_000][..]].concat()),
        get(&b"A: x\r\n".repeat(1000)),
        get(&b"If-None-Match: \"1\"\r\n".repeat(90)),
        get(&[b"If-None-Match: ", &b"\"1\",".repeat(7000)[..]].concat()),
        get(b"If-Match: \"99999999999999999999999999\""),
        get(b"If-None-Match: \xff"),
        get(b"Range: bytes=5-1,99999999999999999999-"),
        get(b"Connection: close, keep-alive, upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__"),
        get(b"traceparent: 00-zz-\xff"),
        get(b"Content-Length: 5"),
        get(b"X-Request-ID: \xff"),
        get(b"Accept: */*;q=\xff\r\nAccept-Encoding: gzip;q=nan"),
        put(b"Content-Type: \xff\xfe\r\nContent-Length: 1\r\n\r\na"),
        put(&[b"Content-Type: ", &[b'x'; 5000][..], b"\r\nContent-Length: 1\r\n\r\na"].concat()),
        put(b"Expect: 200-maybe\r\nContent-Length: 1\r\n\r\na"),
        put(b"If-Match: *\r\nIf-None-Match: *\r\nContent-Length: 1\r\n\r\na"),
    ]
}

fn bodies() -> Vec<Vec<u8>> {
    let put = |more: &str| format!("PUT /v1/entries/a HTTP/1.1\r\n{USER}{more}").into_bytes();
    let mget = |body: &[u8]| {
        let head = format!("POST /v1/entries:mget HTTP/1.1\r\n{USER}Content-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    vec![
        put("\r\n"),
        put("Content-Length: -1\r\n\r\n"),
        put("Content-Length: 99999999999999999999999\r\n\r\n"),
        put("Content-Length: 18446744073709551615\r\n\r\n"),
        put("Content-Length: 18446744073709551614\r\n\r\n"),
        put("Content-Length: 9223372036854775807\r\n\r\n"),
        put("Content-Length: 5\r\n\r\nab"),
        put("Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc"),
        put("Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc"),
        put("Transfer-Encoding: chunked\r\n\r\n"),
        put("Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: \0\r\n\r\n"),
        put("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        put("Transfer-Encoding: chunked\r\n\r\n1;x=").into_iter().chain(vec![b'y'; 100_000]).collect(),
        mget(b"null"),
        mget(&vec![b'['; 200_000]),
        mget(b"{\"keys\":[\"\\ud800\"]}"),
        mget(b"{\"keys\":[\"\\u0000\"]}"),
        mget(b"{\"keys\":[\"a\"],\"keys\":[\"b\"]}"),
        mget(b"\xff\xfe"),
        mget(b"{\"keys\":[1e999]}"),
    ]
}

fn no_http() -> Vec<Vec<u8>> {
    vec![
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec(),
        vec![0; 4096],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(10),
        b"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        b"*1\r\n$4\r\nPING\r\n".to_vec(),
        vec![b'A'; 200_000],
        [b"GET /", &vec![b'x'; 70_000][..], b" HTTP/1.1\r\nHost: x\r\n\r\n"].concat(),
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n".repeat(200),
        b"SSH-2.0-OpenSSH_9.0\r\n".to_vec(),
    ]
}

/// Whether it is answered below 500, or closed; what went wrong otherwise.
async fn is_harmless(address: SocketAddr, request: Vec<u8>) -> Result<(), String> {
    let shown = String::from_utf8_lossy(&request[..request.len().min(120)]).into_owned();
    let mut connection = RawConnection::open(address).await;
    connection.send(&request).await;
    match connection.answer(ANSWERED).await {
        Some(answer) if answer.head.starts_with("HTTP/1.") && (200..500).contains(&answer.status) => Ok(()),
        Some(answer) => Err(format!("{shown:?} at {address}: {answer:?}")),
        None if connection.closes_within(Duration::from_secs(1)).await => Ok(()),
        None => Err(format!("{shown:?} at {address}: neither an answer nor a close")),
    }
}

#[test]
fn no_odd_request_gets_a_500_a_hang_or_a_panic() {
    on_shared(async |cluster| {
        let requests = [lines(), headers(), bodies(), no_http()].concat();
        let members = [&cluster.gateways[0], &cluster.nodes["n1"]];
        let tried = members
            .iter()
            .flat_map(|member| requests.iter().map(|request| is_harmless(member.address, request.clone())));
        let wrong: Vec<_> = join_all(tried).await.into_iter().filter_map(Result::err).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        for member in members {
            assert_eq!(ask(&member.url(), Method::GET, "/healthz", &[]).await.status, 200);
            assert!(!member.process.log().contains("panicked"), "{}", member.process.log_tail());
        }
    });
}
