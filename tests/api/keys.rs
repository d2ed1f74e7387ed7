//! Keys as they stand in the path: what is one, what is the same one, and what is none.

use tests::cluster::Cluster;
use tests::http::{RawAnswer, answered};

use crate::support::{assert_problem, assert_raw_problem, gateway, gateway_and_node, on_shared, owner, raw};

/// The first key of the only entry of a user.
async fn only_key(cluster: &Cluster, user: &str) -> String {
    let page = answered(cluster.user(user).request(reqwest::Method::GET, "/v1/entries")).await.json();
    assert_eq!(page["entries"].as_array().map(Vec::len), Some(1), "{page}");
    page["entries"][0]["key"].as_str().expect("a key").to_owned()
}

/// A raw request for a path that no client library would leave as it is.
async fn raw_request(cluster: &Cluster, method: &str, path: &str, user: &str) -> RawAnswer {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nX-User-ID: {user}\r\nContent-Length: 0\r\n\r\n");
    raw(gateway(cluster), head.as_bytes()).await
}

#[test]
fn odd_keys_are_stored_under_exactly_their_decoded_text() {
    on_shared(async |cluster| {
        let long = "x".repeat(1024);
        let crabs = "%F0%9F%A6%80".repeat(256);
        let keys = [
            ("a", "a"),
            (long.as_str(), long.as_str()),
            (&crabs, &"🦀".repeat(256)),
            ("a%2Fb", "a/b"),
            ("a//b", "a//b"),
            ("/a", "/a"),
            ("a/", "a/"),
            ("%2F%2F", "//"),
            ("a+b%20c", "a+b c"),
            ("%22%27%5C%60%7B%7D%5B%5D%2A%3F%23", "\"'\\`{}[]*?#"),
            ("100%25_%2525", "100%_%25"),
            ("caf%C3%A9-cafe%CC%81", "café-cafe\u{301}"),
            ("a:b;c,d=e@f!g$h&i(j)k", "a:b;c,d=e@f!g$h&i(j)k"),
            ("%E2%80%8B%EF%BB%BF", "\u{200b}\u{feff}"),
            ("..%2F..%2Fetc", "../../etc"),
            ("entries:mget", "entries:mget"),
        ];
        for (number, (encoded, key)) in keys.into_iter().enumerate() {
            let user = cluster.user(&format!("odd-key-{number}"));
            let put = user.put(encoded, key.to_owned()).await;
            assert_eq!(put.status, 201, "{encoded}: {put:?}");
            assert_eq!(user.get(encoded).await.text(), key, "{encoded}");
            assert_eq!(only_key(cluster, &format!("odd-key-{number}")).await, key);
            assert_eq!(user.delete(encoded).await.status, 204, "{encoded}");
        }
    });
}

#[test]
fn two_spellings_of_a_key_are_one_and_two_keys_stay_two() {
    on_shared(async |cluster| {
        let user = cluster.user("spellings");
        user.put("a/b", "slash").await;
        for same in ["a%2Fb", "a%2fb", "%61/b", "a/b?ignored=1"] {
            assert_eq!(user.get(same).await.text(), "slash", "{same}");
        }
        for other in ["a//b", "A/b", "a/b/", "/a/b", "a%252Fb", "a%5Cb"] {
            assert_problem(&user.get(other).await, 404, "entry_not_found");
        }
    });
}

#[test]
fn dot_segments_belong_to_the_key() {
    on_shared(async |cluster| {
        for (number, key) in ["..", ".", "../ring", "a/../b", "./a", "../../healthz"].into_iter().enumerate() {
            let user = format!("dots-{number}");
            let path = format!("/v1/entries/{key}");
            let put = raw_request(cluster, "PUT", &path, &user).await;
            assert_eq!(put.status, 201, "{key}: {put:?}");
            assert_eq!(only_key(cluster, &user).await, key);
            assert_eq!(raw_request(cluster, "DELETE", &path, &user).await.status, 204, "{key}");
        }
        for path in ["/v1/./entries/a", "/v1//entries/a", "/v1/ring/../entries/a", "//v1/entries/a"] {
            assert_raw_problem(&raw_request(cluster, "GET", path, "dots").await, 404, "not_found");
        }
    });
}

#[test]
fn what_is_no_key_is_refused_by_gateway_and_node() {
    on_shared(async |cluster| {
        let too_long = "x".repeat(1025);
        let too_long_decoded = format!("{}%C3%A9", "x".repeat(1023));
        let refused = [
            "",
            "%00",
            "a%00b",
            "a%0Ab",
            "a%0D%0Ab",
            "%1F",
            "%7F",
            "%C2%80",
            "%C2%9F",
            "%",
            "a%",
            "%4",
            "%zz",
            "%4g",
            "%-1",
            "%ff",
            "%C3%28",
            "%C0%AF",
            "%ED%A0%80",
            "%F5%80%80%80",
            &too_long,
            &too_long_decoded,
        ];
        for address in gateway_and_node(cluster) {
            for encoded in refused {
                for method in ["GET", "PUT", "DELETE"] {
                    let head = format!(
                        "{method} /v1/entries/{encoded} HTTP/1.1\r\nHost: x\r\nX-User-ID: no-key\r\nContent-Length: 0\r\n\r\n"
                    );
                    assert_raw_problem(&raw(address, head.as_bytes()).await, 400, "key_invalid");
                }
            }
        }
    });
}

#[test]
fn keys_that_look_alike_to_an_l2_server_or_a_pattern_do_not_mix() {
    on_shared(async |cluster| {
        // User `u` with key `a/b` and user `u/a` with key `b`; and the patterns of LIKE and of Redis.
        let pairs = [
            ("mix", "a/b"),
            ("mix/a", "b"),
            ("mix:3", "k"),
            ("mix", "3:k"),
            ("mix", "%25"),
            ("mix", "_"),
            ("mix", "*"),
        ];
        for (user, key) in pairs {
            assert_eq!(cluster.user(user).put(key, format!("{user} {key}")).await.status, 201);
        }
        for (user, key) in pairs {
            assert_eq!(cluster.user(user).get(key).await.text(), format!("{user} {key}"));
        }
        assert!(!owner(&cluster.user("mix")).await.is_empty());
    });
}
