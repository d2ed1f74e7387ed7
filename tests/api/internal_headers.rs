//! Headers that gateway and nodes use between them, sent by a client (E12): neither believed nor given back.

use reqwest::Method;
use tests::http::Answer;

use crate::support::{on_shared, version, with_headers};

const SENT: [(&str, &str); 13] = [
    ("X-Ring-Epoch", "999999"),
    ("X-Cache-Node", "n999"),
    ("Cache-Status", "made-up; hit"),
    ("ETag", "\"424242\""),
    ("X-Shardcache-Detached", "1"),
    ("Authorization", "Bearer made-up"),
    ("Connection", "X-User-ID, X-Ring-Epoch"),
    ("Retry-After", "4242"),
    ("X-Forwarded-For", "10.9.8.7"),
    ("Via", "1.1 made-up"),
    ("Age", "4242"),
    ("Set-Cookie", "made=up"),
    ("Upgrade", "websocket"),
];

fn assert_own(answer: &Answer, node: &str, epoch: &str) {
    for (name, value) in [("x-cache-node", node), ("x-ring-epoch", epoch)] {
        let all: Vec<_> = answer.headers.get_all(name).iter().collect();
        assert_eq!(all, [value], "{name} of {answer:?}");
    }
    assert_eq!(answer.headers.get_all("cache-status").iter().count(), 1);
    assert!(answer.headers.get_all("etag").iter().count() <= 1);
    let text = format!("{:?}", answer.headers);
    for echo in ["999999", "n999", "made-up", "424242", "10.9.8.7", "made=up", "websocket"] {
        assert!(!text.contains(echo), "{echo} came back in {text}");
    }
}

#[test]
fn a_clients_internal_headers_have_no_effect_and_do_not_come_back() {
    on_shared(async |cluster| {
        let user = cluster.user("pretender");
        let plain = user.put("k", "v1").await;
        let (node, epoch) = (plain.header("x-cache-node").to_owned(), plain.header("x-ring-epoch").to_owned());
        for _ in 0..3 {
            let get = with_headers(&user, Method::GET, "k", &SENT, "").await;
            assert_eq!((get.status, get.text()), (200, "v1".to_owned()));
            assert_own(&get, &node, &epoch);
            assert_eq!(get.header("cache-status"), "shardcache-l1; hit", "not detached on a client's word");
            assert_eq!(get.header("etag"), plain.header("etag"));
        }
        let put = with_headers(&user, Method::PUT, "k", &SENT, "v2").await;
        assert_eq!(put.status, 204);
        assert_own(&put, &node, &epoch);
        assert!(version(&put) > version(&plain) && version(&put) != 424_242);
        let absent = with_headers(&user, Method::GET, "none", &SENT, "").await;
        assert_eq!(absent.status, 404);
        assert_own(&absent, &node, &epoch);

        let after = user.get("k").await;
        assert_eq!((after.text(), after.header("etag")), ("v2".to_owned(), put.header("etag")));
        assert_own(&after, &node, &epoch);
        assert_eq!(cluster.ring().await["epoch"].to_string(), epoch);
    });
}

#[test]
fn internal_routes_are_not_reachable_through_the_gateway() {
    on_shared(async |cluster| {
        for path in ["/internal/slots", "/internal/refresh", "/internal/changes/1/seal", "//internal/slots"] {
            for method in [Method::GET, Method::POST] {
                let answer = crate::support::ask(&cluster.gateway_url(), method, path, &SENT[..1]).await;
                crate::support::assert_problem(&answer, 404, "not_found");
            }
        }
    });
}
