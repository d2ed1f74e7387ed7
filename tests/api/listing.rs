//! `GET /v1/entries` (pages of a user's keys) and `POST /v1/entries:mget` (many entries at once).

use reqwest::Method;
use serde_json::{Value, json};
use tests::http::{Answer, User, answered};

use crate::support::{assert_problem, on_shared, version};

async fn list(user: &User, query: &str) -> Answer {
    answered(user.request(Method::GET, &format!("/v1/entries{query}"))).await
}

async fn mget(user: &User, body: &Value) -> Answer {
    let request = user.request(Method::POST, "/v1/entries:mget").header("Content-Type", "application/json");
    answered(request.body(body.to_string())).await
}

fn keys(page: &Value) -> Vec<String> {
    let entries = page["entries"].as_array().unwrap_or_else(|| panic!("no entries: {page}"));
    entries.iter().map(|entry| entry["key"].as_str().expect("a key").to_owned()).collect()
}

/// Follows `next` to the end; the keys of each page.
async fn pages(user: &User, query: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let mut path = format!("/v1/entries{query}");
    loop {
        let answer = answered(user.request(Method::GET, &path)).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let page = answer.json();
        all.push(keys(&page));
        assert!(all.len() < 100, "the pages do not end");
        match page["next"].as_str() {
            Some(next) => path = next.to_owned(),
            None => return all,
        }
    }
}

/// With each, its encoded form; in the order of their bytes.
const ODD: [(&str, &str); 12] = [
    (" blank", "%20blank"),
    ("\"'", "%22%27"),
    ("%", "%25"),
    ("%a", "%25a"),
    ("&=+", "%26%3D%2B"),
    ("*?[]", "%2A%3F%5B%5D"),
    ("B", "B"),
    ("\\", "%5C"),
    ("_", "_"),
    ("a/b", "a/b"),
    ("é", "%C3%A9"),
    ("🦀", "%F0%9F%A6%80"),
];

#[test]
fn pages_hold_every_odd_key_once_in_the_order_of_bytes() {
    on_shared(async |cluster| {
        let user = cluster.user("pages");
        for (key, encoded) in ODD.iter().rev() {
            assert_eq!(user.put(encoded, (*key).to_owned()).await.status, 201);
        }
        cluster.user("pages-other").put("zz", "of another user").await;
        let expected: Vec<_> = ODD.iter().map(|(key, _)| (*key).to_owned()).collect();
        for limit in [1, 5, 6, 12, 1000] {
            let pages = pages(&user, &format!("?limit={limit}")).await;
            assert_eq!(pages.concat(), expected, "limit {limit}");
            assert_eq!(pages.len(), expected.len().div_ceil(limit).max(1), "limit {limit}");
        }
        for (key, encoded) in &ODD {
            let found = keys(&list(&user, &format!("?prefix={encoded}")).await.json());
            let with_prefix: Vec<_> = expected.iter().filter(|other| other.starts_with(key)).cloned().collect();
            assert_eq!(found, with_prefix, "prefix {key}");
            let after = keys(&list(&user, &format!("?after={encoded}")).await.json());
            let behind: Vec<_> = expected.iter().filter(|other| other.as_str() > *key).cloned().collect();
            assert_eq!(after, behind, "after {key}");
        }
        assert_eq!(pages(&user, "?prefix=%25&limit=1").await.concat(), ["%", "%a"]);
    });
}

#[test]
fn a_page_tells_version_size_type_and_time() {
    on_shared(async |cluster| {
        let user = cluster.user("page-facts");
        let put = user.request(Method::PUT, "/v1/entries/k").header("Content-Type", "text/x-odd").body("12345");
        let put = answered(put).await;
        let answer = list(&user, "").await;
        assert_eq!(answer.header("content-type"), "application/json");
        let page = answer.json();
        let entry = &page["entries"][0];
        assert_eq!(entry["version"], version(&put));
        assert_eq!((&entry["size"], &entry["content_type"]), (&json!(5), &json!("text/x-odd")));
        assert!(entry["updated_ms"].as_u64().is_some_and(|updated| updated > 1_600_000_000_000), "{page}");
        assert_eq!(page.get("next"), None);
        assert_eq!(list(&cluster.user("page-nobody"), "").await.json(), json!({"entries": []}));
        user.delete("k").await;
        assert_eq!(keys(&list(&user, "").await.json()), [""; 0], "a listing is read from the origin");
    });
}

#[test]
fn a_page_that_cannot_be_meant_is_refused() {
    on_shared(async |cluster| {
        let user = cluster.user("page-refused");
        for query in [
            "?limit=0",
            "?limit=1001",
            "?limit=-1",
            "?limit=x",
            "?limit=",
            "?limit=99999999999999999999",
            "?prefix=%ff",
            "?after=%ff",
            "?prefix=%00",
        ] {
            assert_problem(&list(&user, query).await, 400, "request_invalid");
        }
        let post = answered(user.request(Method::POST, "/v1/entries")).await;
        assert_problem(&post, 405, "method_not_allowed");
        assert_eq!(post.header("allow"), "GET");
        for odd in ["?", "?&&", "?prefix", "?prefix=x&limit=5"] {
            assert_eq!(list(&user, odd).await.status, 200, "{odd}");
        }
    });
}

#[test]
fn a_multi_get_answers_each_key_in_order_and_null_for_the_absent() {
    on_shared(async |cluster| {
        let user = cluster.user("mget");
        let first = user.put("a", "hello").await;
        user.put("%F0%9F%A6%80", vec![0, 255]).await;
        user.put("empty", "").await;
        let answer = mget(&user, &json!({"keys": ["none", "a", "🦀", "a", "empty"]})).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
        let document = answer.json();
        let entries = document["entries"].as_array().expect("entries");
        assert_eq!(entries.len(), 5);
        assert_eq!(entries[0], Value::Null);
        assert_eq!((&entries[1]["key"], &entries[1]["value"]), (&json!("a"), &json!("aGVsbG8=")));
        assert_eq!(entries[1]["version"], version(&first));
        assert!(entries[1]["content_type"].is_string());
        assert_eq!(entries[2]["value"], "AP8=");
        assert_eq!(entries[3], entries[1]);
        assert_eq!(entries[4]["value"], "");
        assert_eq!(mget(&user, &json!({"keys": []})).await.json(), json!({"entries": []}));
    });
}

#[test]
fn a_multi_get_has_at_most_256_keys_each_a_key() {
    on_shared(async |cluster| {
        let user = cluster.user("mget-bounds");
        let many = |count: usize| json!({"keys": (0..count).map(|n| format!("{n:01024}")).collect::<Vec<_>>()});
        let answer = mget(&user, &many(256)).await;
        assert_eq!((answer.status, answer.json()["entries"].as_array().map(Vec::len)), (200, Some(256)));
        assert_problem(&mget(&user, &many(257)).await, 400, "request_invalid");
        for key in ["", "a\nb", &"x".repeat(1025)] {
            assert_problem(&mget(&user, &json!({"keys": ["a", key]})).await, 400, "key_invalid");
        }
        for body in
            [json!(null), json!([]), json!({}), json!({"keys": "a"}), json!({"keys": [1]}), json!({"keys": [null]})]
        {
            assert_problem(&mget(&user, &body).await, 400, "request_invalid");
        }
        for body in ["", "{", "\u{0}", "[[[[[[[[[["] {
            let answer = answered(user.request(Method::POST, "/v1/entries:mget").body(body)).await;
            assert_problem(&answer, 400, "request_invalid");
        }
        let get = answered(user.request(Method::GET, "/v1/entries:mget")).await;
        assert_problem(&get, 405, "method_not_allowed");
        assert_eq!(get.header("allow"), "POST");
        let large = answered(user.request(Method::POST, "/v1/entries:mget").body(vec![b' '; 3 << 20])).await;
        assert_problem(&large, 413, "value_too_large");
    });
}
