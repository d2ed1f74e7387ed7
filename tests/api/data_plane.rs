//! `/v1/entries/{key}`: PUT, GET, HEAD, DELETE, their headers, and values of every size.

use reqwest::Method;
use tests::http::{RawConnection, answered};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{SOON, VALUE_MAX, assert_problem, gateway, on_shared, version, with_headers};

#[test]
fn a_version_only_grows_over_create_replace_delete_and_create_again() {
    on_shared(async |cluster| {
        let user = cluster.user("grows");
        let created = user.put("k", "one").await;
        let replaced = user.put("k", "two").await;
        assert_eq!((created.status, replaced.status), (201, 204));
        let read = user.get("k").await;
        assert_eq!((read.status, &read.body[..]), (200, &b"two"[..]));
        assert_eq!(version(&read), version(&replaced));

        assert_eq!(user.delete("k").await.status, 204);
        assert_problem(&user.delete("k").await, 404, "entry_not_found");
        assert_problem(&user.get("k").await, 404, "entry_not_found");
        let again = user.put("k", "three").await;
        assert_eq!(again.status, 201);
        assert!(version(&created) < version(&replaced) && version(&replaced) < version(&again));
    });
}

#[test]
fn every_answer_of_the_data_plane_says_who_gave_it_and_under_which_ring() {
    on_shared(async |cluster| {
        let user = cluster.user("headers");
        let put = user.put("k", "v").await;
        let answers = [put, user.get("k").await, user.get("none").await, user.delete("k").await];
        for answer in &answers {
            for name in ["cache-status", "x-cache-node", "x-ring-epoch", "x-request-id"] {
                assert_eq!(answer.headers.get_all(name).iter().count(), 1, "{name} of {answer:?}");
            }
            assert!(cluster.nodes.contains_key(answer.header("x-cache-node")), "{answer:?}");
            assert!(answer.header("x-ring-epoch").parse::<u64>().is_ok_and(|epoch| epoch > 0), "{answer:?}");
            assert!(answer.header("cache-status").starts_with("shardcache-l1"), "{answer:?}");
        }
        assert_eq!(answers[1].header("cache-status"), "shardcache-l1; hit");
    });
}

#[test]
fn an_error_of_the_gateway_itself_names_request_and_ring_too() {
    on_shared(async |cluster| {
        for key in ["%00", "a%0Ab"] {
            let answer = cluster.user("gateway-error").get(key).await;
            assert_problem(&answer, 400, "key_invalid");
            assert!(answer.header("x-ring-epoch").parse::<u64>().is_ok_and(|epoch| epoch > 0), "{answer:?}");
            assert!(!answer.header("x-request-id").is_empty(), "{answer:?}");
        }
    });
}

#[test]
fn the_clients_request_id_comes_back() {
    on_shared(async |cluster| {
        let user = cluster.user("request-id");
        let answer = with_headers(&user, Method::GET, "k", &[("X-Request-ID", "abc-123")], "").await;
        assert_eq!(answer.header("x-request-id"), "abc-123");
        assert_eq!(answer.headers.get_all("x-request-id").iter().count(), 1);
    });
}

#[test]
fn content_type_and_cache_control_are_kept_and_have_defaults() {
    on_shared(async |cluster| {
        let user = cluster.user("stored-headers");
        let own = [("Content-Type", "application/json; charset=utf-8"), ("Cache-Control", "private, max-age=60")];
        with_headers(&user, Method::PUT, "own", &own, "{}").await;
        user.put("bare", "x").await;
        for _ in 0..2 {
            let read = user.get("own").await;
            assert_eq!(read.header("content-type"), own[0].1);
            assert_eq!(read.header("cache-control"), own[1].1);
            let read = user.get("bare").await;
            assert_eq!(read.header("cache-control"), "private, no-cache");
        }
        let raw =
            b"PUT /v1/entries/untyped HTTP/1.1\r\nHost: x\r\nX-User-ID: stored-headers\r\nContent-Length: 1\r\n\r\na";
        assert_eq!(crate::support::raw(gateway(cluster), raw).await.status, 201);
        assert_eq!(user.get("untyped").await.header("content-type"), "application/octet-stream");
        // The last write decides, also about what it does not say.
        user.put("own", "x").await;
        assert_eq!(user.get("own").await.header("cache-control"), "private, no-cache");
    });
}

#[test]
fn a_cache_control_of_several_lines_is_kept_whole_and_two_types_are_refused() {
    on_shared(async |cluster| {
        let user = cluster.user("two-lines");
        let lines = [("Cache-Control", "private"), ("Cache-Control", "max-age=60")];
        assert_eq!(with_headers(&user, Method::PUT, "k", &lines, "v").await.status, 201);
        assert_eq!(user.get("k").await.header("cache-control"), "private, max-age=60");
        let types = [("Content-Type", "text/plain"), ("Content-Type", "text/html")];
        assert_problem(&with_headers(&user, Method::PUT, "k", &types, "v").await, 400, "request_invalid");
    });
}

#[test]
fn values_of_every_allowed_size_come_back_whole() {
    on_shared(async |cluster| {
        let user = cluster.user("sizes");
        for size in [0, 1, 65_536, VALUE_MAX - 1, VALUE_MAX] {
            let value: Vec<u8> = (0..size).map(|at| (at * 31 % 251) as u8).collect();
            assert!(matches!(user.put("k", value.clone()).await.status, 201 | 204));
            let read = user.get("k").await;
            assert_eq!((read.status, read.body.len()), (200, size));
            assert!(read.body == value, "{size} bytes came back as others");
        }
        let before = user.get("k").await;
        assert_problem(&user.put("k", vec![0; VALUE_MAX + 1]).await, 413, "value_too_large");
        assert_eq!(user.get("k").await.header("etag"), before.header("etag"));
    });
}

#[test]
fn equal_keys_of_two_users_are_two_entries() {
    on_shared(async |cluster| {
        let (one, two, upper) = (cluster.user("twin-1"), cluster.user("twin-2"), cluster.user("TWIN-1"));
        one.put("k", "of one").await;
        assert_problem(&two.get("k").await, 404, "entry_not_found");
        two.put("k", "of two").await;
        assert_eq!((one.get("k").await.text(), two.get("k").await.text()), ("of one".into(), "of two".into()));
        assert_problem(&upper.get("k").await, 404, "entry_not_found");
        assert_eq!(two.delete("k").await.status, 204);
        assert_eq!(one.get("k").await.text(), "of one");
        // A blank on either side is no part of a header's value.
        let spaced = answered(one.request(Method::GET, "/v1/entries/k").header("Accept", "*/*")).await;
        assert_eq!(spaced.status, 200);
    });
}

/// E06: the bytes of a HEAD's answer end with its head, and the next answer on the connection is whole.
#[test]
fn a_head_has_the_head_of_a_get_and_the_connection_goes_on() {
    on_shared(async |cluster| {
        let user = cluster.user("heads");
        user.put("there", "twelve bytes").await;
        for (key, status) in [("there", 200), ("absent", 404), ("absent", 404)] {
            for address in crate::support::gateway_and_node(cluster) {
                if address != gateway(cluster) && crate::support::owner(&user).await != "n1" {
                    continue;
                }
                let mut stream = TcpStream::connect(address).await.expect("a connection");
                let request = |method: &str, more: &str| {
                    format!("{method} /v1/entries/{key} HTTP/1.1\r\nHost: x\r\nX-User-ID: heads\r\n{more}\r\n")
                };
                let both = request("HEAD", "") + &request("GET", "Connection: close\r\n");
                stream.write_all(both.as_bytes()).await.expect("sent");
                let mut answers = String::new();
                timeout(SOON, stream.read_to_string(&mut answers)).await.expect("in time").expect("read");
                let (head, rest) = answers.split_once("\r\n\r\n").expect("a head");
                let (get_head, body) = rest.split_once("\r\n\r\n").expect("the GET's head follows at once");
                assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
                assert!(get_head.starts_with(&format!("HTTP/1.1 {status} ")), "{get_head}");
                let header = |head: &str, name: &str| {
                    head.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
                };
                assert_eq!(header(head, "etag:"), header(get_head, "etag:"));
                assert_eq!(header(head, "content-length:"), Some(body.len().to_string()));
                assert!(header(head, "cache-status:").is_some_and(|tier| tier.starts_with("shardcache-l1")));
            }
        }
    });
}

#[test]
fn requests_one_after_the_other_and_pipelined_share_a_connection() {
    on_shared(async |cluster| {
        let mut connection = RawConnection::open(gateway(cluster)).await;
        let put = "PUT /v1/entries/p HTTP/1.1\r\nHost: x\r\nX-User-ID: pipes\r\nContent-Length: 3\r\n\r\nabc";
        let get = "GET /v1/entries/p HTTP/1.1\r\nHost: x\r\nX-User-ID: pipes\r\n\r\n";
        connection.send(format!("{put}{get}{get}").as_bytes()).await;
        assert_eq!(connection.answer(SOON).await.map(|answer| answer.status), Some(201));
        for _ in 0..2 {
            let read = connection.answer(SOON).await.expect("an answer");
            assert_eq!((read.status, &read.body[..]), (200, &b"abc"[..]));
        }
        connection.send(get.as_bytes()).await;
        assert_eq!(connection.answer(SOON).await.map(|answer| answer.status), Some(200));
    });
}
