//! The manners of HTTP (RFC 9110 and 9112) that a library does not see to.

use std::time::Duration;

use reqwest::Method;
use tests::http::RawConnection;

use crate::support::{
    SOON, ask, assert_problem, assert_raw_problem, gateway, gateway_and_node, get_with, on_shared, raw, user_of,
    with_headers,
};

#[test]
fn options_of_every_route_names_its_methods_and_lets_no_other_origin_in() {
    on_shared(async |cluster| {
        let asked = [("Origin", "https://elsewhere.example"), ("Access-Control-Request-Method", "PUT")];
        for (path, allowed) in [
            ("/v1/entries/k", "DELETE,GET,HEAD,PUT"),
            ("/v1/entries", "GET"),
            ("/v1/entries:mget", "POST"),
            ("/v1/ring", "GET,HEAD"),
            ("/v1/ring/locate", "GET,HEAD"),
            ("/healthz", "GET,HEAD"),
            ("/readyz", "GET,HEAD"),
            ("/metrics", "GET,HEAD"),
            ("/openapi.json", "GET,HEAD"),
            ("/", "GET,HEAD"),
        ] {
            let answer = ask(&cluster.gateway_url(), Method::OPTIONS, path, &asked).await;
            let mut named: Vec<_> = answer.header("allow").split(',').map(str::trim).collect();
            named.sort_unstable();
            assert_eq!((answer.status, named.join(",").as_str(), answer.body.len()), (204, allowed, 0), "{path}");
            for answer in [&answer, &ask(&cluster.gateway_url(), Method::GET, path, &asked).await] {
                let cors = answer.headers.keys().find(|name| name.as_str().starts_with("access-control-"));
                assert_eq!(cors, None, "{path}");
            }
        }
        assert_problem(&ask(&cluster.gateway_url(), Method::OPTIONS, "/nope", &asked).await, 404, "not_found");
    });
}

#[test]
fn a_request_of_http_1_1_names_its_host_exactly_once() {
    on_shared(async |cluster| {
        assert_eq!(cluster.user("hosts").put("k", "v").await.status, 201);
        for address in gateway_and_node(cluster) {
            for target in ["/v1/entries/k", "/healthz", "http://other/v1/entries/k"] {
                for hosts in ["", "Host: a\r\nHost: b\r\n", "Host: a\r\nHost: a\r\n"] {
                    let request = format!("GET {target} HTTP/1.1\r\n{hosts}X-User-ID: hosts\r\n\r\n");
                    assert_raw_problem(&raw(address, request.as_bytes()).await, 400, "request_invalid");
                }
            }
            let old = raw(address, b"GET /healthz HTTP/1.0\r\n\r\n").await;
            assert_eq!(old.status, 200, "HTTP/1.0 has no Host");
        }
        let absolute = b"GET http://other:1/v1/entries/k HTTP/1.1\r\nHost: x\r\nX-User-ID: hosts\r\n\r\n";
        let answer = raw(gateway(cluster), absolute).await;
        assert_eq!((answer.status, &answer.body[..]), (200, &b"v"[..]), "a target may name a host");
    });
}

#[test]
fn trace_and_connect_are_refused_on_every_route() {
    on_shared(async |cluster| {
        for address in gateway_and_node(cluster) {
            for line in ["TRACE /v1/entries/k", "TRACE /healthz", "CONNECT example.com:443", "CONNECT /healthz"] {
                let request = format!("{line} HTTP/1.1\r\nHost: x\r\nX-User-ID: u\r\nX-Told: secret\r\n\r\n");
                let answer = raw(address, request.as_bytes()).await;
                assert!(matches!(answer.status, 400 | 405), "{line}: {answer:?}");
                let echoed = format!("{}{}", answer.head, String::from_utf8_lossy(&answer.body));
                assert!(!echoed.contains("secret"), "{line}: {echoed}");
            }
        }
    });
}

#[test]
fn a_head_of_an_empty_value_says_that_it_is_empty() {
    on_shared(async |cluster| {
        let user = user_of(cluster, "n1").await;
        let id = user.id();
        assert!(matches!(user.put("empty", "").await.status, 201 | 204));
        for address in gateway_and_node(cluster) {
            for method in ["HEAD", "GET", "HEAD"] {
                let request = format!("{method} /v1/entries/empty HTTP/1.1\r\nHost: x\r\nX-User-ID: {id}\r\n\r\n");
                let answer = raw(address, request.as_bytes()).await;
                assert_eq!(answer.status, 200, "{answer:?}");
                assert_eq!(answer.head.matches("content-length: 0").count(), 1, "{method}: {answer:?}");
            }
        }
    });
}

#[test]
fn what_only_a_put_or_a_multi_get_has_a_body_for_is_refused_with_one_by_gateway_and_node_alike() {
    on_shared(async |cluster| {
        for address in gateway_and_node(cluster) {
            for line in ["GET /v1/entries/k", "DELETE /v1/entries/k", "GET /v1/entries"] {
                let request = format!("{line} HTTP/1.1\r\nHost: x\r\nX-User-ID: u\r\nContent-Length: 1\r\n\r\nx");
                assert_raw_problem(&raw(address, request.as_bytes()).await, 400, "request_invalid");
            }
        }
    });
}

#[test]
fn a_put_of_a_part_or_of_another_coding_is_refused_and_nothing_is_stored() {
    on_shared(async |cluster| {
        let user = cluster.user("parts");
        let cases = [
            ("Content-Range", "bytes 0-1/10"),
            ("Content-Encoding", "gzip"),
            ("Content-Encoding", "identity, br"),
            ("Content-Encoding", ""),
        ];
        for header in cases {
            let answer = with_headers(&user, Method::PUT, "k", &[header], "v").await;
            assert_problem(&answer, 400, "request_invalid");
        }
        assert_eq!(user.get("k").await.status, 404);
        let plain = with_headers(&user, Method::PUT, "k", &[("Content-Encoding", "identity")], "v").await;
        assert_eq!(plain.status, 201);
    });
}

#[test]
fn what_connection_names_goes_no_further_than_the_gateway() {
    on_shared(async |cluster| {
        let user = cluster.user("hops");
        let named = [("Connection", "keep-alive, content-type , x-other"), ("Content-Type", "text/x-of-this-hop")];
        assert_eq!(with_headers(&user, Method::PUT, "k", &named, "v").await.status, 201);
        let answer = user.get("k").await;
        assert_eq!(answer.header("content-type"), "application/octet-stream", "{answer:?}");
        // A write does not lose its condition: not executed.
        let conditional = [("Connection", "close, If-None-Match"), ("If-None-Match", "*")];
        let refused = with_headers(&user, Method::PUT, "k", &conditional, "lost").await;
        assert_eq!((refused.status, user.get("k").await.text()), (400, "v".to_owned()));
        let hop_by_hop = [
            ("Connection", "keep-alive, TE"),
            ("Keep-Alive", "timeout=5"),
            ("TE", "trailers"),
            ("Proxy-Authorization", "Basic eDp5"),
            ("Proxy-Connection", "keep-alive"),
        ];
        let answer = get_with(&user, "k", &hop_by_hop).await;
        assert_eq!(answer.status, 200);
        for (name, _) in hop_by_hop {
            assert!(!answer.headers.contains_key(name), "{name} came back in {answer:?}");
        }
    });
}

#[test]
fn half_a_head_behind_a_whole_request_has_no_more_time_than_any_other() {
    on_shared(async |cluster| {
        for address in gateway_and_node(cluster) {
            let mut connection = RawConnection::open(address).await;
            connection.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nHo").await;
            assert_eq!(connection.answer(SOON).await.map(|answer| answer.status), Some(200));
            // The bound of a head is 10 s, that of an idle connection 75 s.
            assert!(connection.closes_within(Duration::from_secs(40)).await, "{address}");
        }
    });
}
