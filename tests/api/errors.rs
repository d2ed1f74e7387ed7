//! Who the user is, and what is answered when that is not clear (C01); bodies over the limit (E03).

use bytes::Bytes;
use futures_util::stream;
use reqwest::{Body, Method};
use tests::http::{RawConnection, User, answered, client};

use crate::support::{
    SOON, VALUE_MAX, ask, assert_problem, assert_raw_problem, gateway, gateway_and_node, on_shared, raw, small_cluster,
};

#[test]
fn no_user_an_empty_one_and_one_of_blanks_are_the_same_400() {
    on_shared(async |cluster| {
        let base = cluster.gateway_url();
        for path in ["/v1/entries/k", "/v1/entries", "/v1/ring/locate"] {
            assert_problem(&ask(&base, Method::GET, path, &[]).await, 400, "user_id_missing");
            for blank in ["", "   ", " \t "] {
                let answer = ask(&base, Method::GET, path, &[("X-User-ID", blank)]).await;
                assert_problem(&answer, 400, "user_id_missing");
            }
        }
        for (method, path) in [(Method::PUT, "/v1/entries/k"), (Method::DELETE, "/v1/entries/k")] {
            assert_problem(&ask(&base, method, path, &[]).await, 400, "user_id_missing");
        }
        assert_problem(&ask(&base, Method::POST, "/v1/entries:mget", &[]).await, 400, "user_id_missing");
    });
}

#[test]
fn a_user_sent_twice_too_long_or_of_other_bytes_is_refused() {
    on_shared(async |cluster| {
        let longest = "u".repeat(256);
        assert_eq!(cluster.user(&longest).put("k", "v").await.status, 201);
        let too_long = "u".repeat(257);
        let refused: [&[u8]; 6] = [
            b"X-User-ID: a\r\nX-User-ID: a",
            b"X-User-ID: a\r\nx-user-id: b",
            b"X-User-ID: a b",
            b"X-User-ID: a\tb",
            b"X-User-ID: caf\xc3\xa9",
            &[b"X-User-ID: ", too_long.as_bytes()].concat(),
        ];
        for address in gateway_and_node(cluster) {
            for user in refused {
                let request = [b"GET /v1/entries/k HTTP/1.1\r\nHost: x\r\n", user, b"\r\n\r\n"].concat();
                assert_raw_problem(&raw(address, &request).await, 400, "user_id_invalid");
            }
        }
        let visible: String = ('!'..='~').collect();
        assert_eq!(cluster.user(&visible).put("k", "v").await.status, 201);
        assert_eq!(cluster.user(&visible).get("k").await.text(), "v");
    });
}

#[tokio::test]
async fn where_it_is_allowed_the_clients_address_names_the_user() {
    let cluster = small_cluster(1, &[("SHARDCACHE_KEYLESS", "client-ip")]).await;
    let base = cluster.gateway_url();
    assert_eq!(ask(&base, Method::PUT, "/v1/entries/k", &[]).await.status, 201);
    for missing in [&[][..], &[("X-User-ID", "")], &[("X-User-ID", "  ")]] {
        assert_eq!(ask(&base, Method::GET, "/v1/entries/k", missing).await.status, 200);
    }
    // Its name is what a node knows it by; no client can send it.
    assert_eq!(User::new(&cluster.nodes["n1"].url(), "ip:127.0.0.1").get("k").await.status, 200);
    assert_problem(&User::new(&base, "ip:127.0.0.1").get("k").await, 400, "user_id_invalid");
    // What a client says about its own address is not believed.
    let claimed = [("X-Forwarded-For", "10.0.0.7"), ("Forwarded", "for=10.0.0.7"), ("X-Real-IP", "10.0.0.7")];
    assert_eq!(ask(&base, Method::GET, "/v1/entries/k", &claimed).await.status, 200);
    let twice = b"GET /v1/entries/k HTTP/1.1\r\nHost: x\r\nX-User-ID: a\r\nX-User-ID: b\r\n\r\n";
    assert_raw_problem(&raw(gateway(&cluster), twice).await, 400, "user_id_invalid");
}

/// E03, by a client that reads nothing before it has sent everything.
#[test]
fn a_body_over_the_limit_is_answered_413_also_when_it_is_sent_to_its_end() {
    on_shared(async |cluster| {
        let user = cluster.user("large");
        user.put("k", "kept").await;
        let before = user.get("k").await;
        let head = "PUT /v1/entries/k HTTP/1.1\r\nHost: x\r\nX-User-ID: large\r\n";
        for size in [VALUE_MAX + 1, 50 << 20] {
            let sized = [format!("{head}Content-Length: {size}\r\n\r\n").into_bytes(), vec![b'x'; size]].concat();
            let chunk = [b"10000\r\n".to_vec(), vec![b'x'; 0x10000], b"\r\n".to_vec()].concat();
            let mut chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
            for _ in 0..size.div_ceil(0x10000) {
                chunked.extend_from_slice(&chunk);
            }
            chunked.extend_from_slice(b"0\r\n\r\n");
            for request in [sized, chunked] {
                let mut connection = RawConnection::open(gateway(cluster)).await;
                connection.send(&request).await;
                let answer = connection.answer(SOON).await.expect("the answer is not lost to a reset");
                assert_raw_problem(&answer, 413, "value_too_large");
                assert!(connection.closes_within(SOON).await);
            }
            let after = user.get("k").await;
            assert_eq!((after.text(), after.header("etag")), ("kept".to_owned(), before.header("etag")));
        }
    });
}

#[test]
fn a_body_without_a_length_is_stopped_at_the_limit() {
    on_shared(async |cluster| {
        // Has no end: only a server that stops reading lets this end.
        let endless = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 65_536])));
        let request = client().put(format!("{}/v1/entries/k", cluster.gateway_url())).header("X-User-ID", "endless");
        let answer = request.body(Body::wrap_stream(endless)).send().await;
        // The answer, or the connection's end after it: never for ever.
        if let Ok(answer) = answer {
            assert_eq!(answer.status(), 413);
        }
        assert_problem(&cluster.user("endless").get("k").await, 404, "entry_not_found");
    });
}

#[test]
fn a_body_that_no_route_wants_does_not_cost_the_answer() {
    on_shared(async |cluster| {
        let base = cluster.gateway_url();
        for (method, path, status) in [
            (Method::PUT, "/nowhere", 404),
            (Method::POST, "/healthz", 405),
            (Method::POST, "/v1/entries/k", 405),
            (Method::PUT, "/v1/entries/%00", 400),
        ] {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nHost: x\r\nX-User-ID: unwanted\r\nContent-Length: {}\r\n\r\n",
                8 << 20
            );
            let mut connection = RawConnection::open(gateway(cluster)).await;
            connection.send(&[request.into_bytes(), vec![b'x'; 8 << 20]].concat()).await;
            let answer = connection.answer(SOON).await;
            assert_eq!(answer.map(|answer| answer.status), Some(status), "{method} {path}");
        }
        let get = client().get(format!("{base}/v1/entries/k")).header("X-User-ID", "unwanted").body("body");
        assert_problem(&answered(get).await, 400, "request_invalid");
    });
}
