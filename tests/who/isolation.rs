//! User A never reads B's entry: by any header, path, encoding, multi-get or listing that we could think of.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::json;
use tests::cluster::Cluster;
use tests::http::RawConnection;

use crate::support::{Gateway, SECRET, SOON, TemporaryFile, bearer, on_shared};

const VICTIM: &str = "isolation-victim";
const KEY: &str = "only-the-victim-has-this";
const VALUE: &str = "a value that nobody else may see";

/// Targets by which a reader of a path could go astray.
fn targets() -> Vec<String> {
    let mut targets = vec![
        format!("/v1/entries/{KEY}?user={VICTIM}"),
        format!("/v1/entries/{KEY}?X-User-ID={VICTIM}"),
        format!("/v1/entries/{KEY}#{VICTIM}"),
        format!("/v1/entries//{KEY}"),
        format!("//v1/entries/{KEY}"),
        format!("/v1/entries/./{KEY}"),
        format!("/v1/entries/x/../{KEY}"),
        format!("/v1/entries/x/%2e%2e/{KEY}"),
        format!("/v1//entries/{KEY}"),
        format!("/V1/ENTRIES/{KEY}"),
        format!("/v1/users/{VICTIM}/entries/{KEY}"),
        format!("/internal/entries/{KEY}"),
        format!("/v1/entries;user={VICTIM}/{KEY}"),
        format!("http://{VICTIM}/v1/entries/{KEY}"),
        format!("http://{VICTIM}@host/v1/entries/{KEY}"),
        format!("/v1/entries/%6f{}", &KEY[1..]),
    ];
    // What could stand between user and key where they are stored.
    for between in
        ["/", "%2F", "%252F", ":", "%3A", "%00", "%0A", "%0D%0A", "%1F", "|", "%20", "%09", ".", "%5C", "%25"]
    {
        targets.push(format!("/v1/entries/{VICTIM}{between}{KEY}"));
        targets.push(format!("/v1/entries/..{between}{VICTIM}{between}{KEY}"));
    }
    for query in [
        String::new(),
        format!("?prefix={KEY}"),
        "?prefix=".to_owned(),
        "?prefix=%25".to_owned(),
        "?prefix=_".to_owned(),
        "?after=".to_owned(),
        "?limit=1000&after=a".to_owned(),
        format!("?user={VICTIM}&limit=1000"),
        "?prefix=%27%20OR%201=1%20--".to_owned(),
        format!("?prefix={VICTIM}%00"),
    ] {
        targets.push(format!("/v1/entries{query}"));
    }
    targets
}

/// Further headers by which somebody might be taken for another.
fn headers() -> Vec<String> {
    let mut lines = vec![
        String::new(),
        format!("X-User-ID: {VICTIM}"),
        format!("x-user-id:{VICTIM}"),
        format!("X_User_ID: {VICTIM}"),
        format!("X-User-Id : {VICTIM}"),
        format!("X-User-ID:\t{VICTIM}"),
        format!("Cookie: X-User-ID={VICTIM}; user={VICTIM}"),
        format!("Forwarded: for={VICTIM}"),
        "Connection: X-User-ID".to_owned(),
        "Connection: close, X-User-ID, Authorization".to_owned(),
        "X-HTTP-Method-Override: GET".to_owned(),
        "X-Shardcache-Detached: 1".to_owned(),
        "X-Ring-Epoch: 999999".to_owned(),
        format!("X-Original-URL: /v1/entries/{KEY}"),
        format!("X-Rewrite-URL: /v1/entries/{KEY}"),
    ];
    for name in
        ["X-Forwarded-User", "X-Remote-User", "Remote-User", "X-Forwarded-For", "X-Real-IP", "From", "Via", "Host"]
    {
        lines.push(format!("{name}: {VICTIM}"));
    }
    lines
}

fn assert_nothing_told(answer: &[u8], trick: &str) {
    let text = String::from_utf8_lossy(answer);
    // A problem may not repeat the key either, so a list that has it is the victim's.
    for told in [VALUE.to_owned(), STANDARD.encode(VALUE), format!("\"{KEY}\"")] {
        assert!(!text.contains(&told), "{told} is told by {trick}: {text}");
    }
}

/// Every target with every header, written by hand: no library tidies them up.
async fn try_all(gateway: &Gateway, own: &str) {
    for target in targets() {
        for header in headers() {
            let line = if header.is_empty() { String::new() } else { format!("{header}\r\n") };
            for both in [format!("{own}\r\n{line}"), format!("{line}{own}\r\n")] {
                let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{both}\r\n");
                let mut connection = RawConnection::open(gateway.address).await;
                connection.send(request.as_bytes()).await;
                if let Some(answer) = connection.answer(SOON).await {
                    assert_nothing_told(answer.head.as_bytes(), &request);
                    assert_nothing_told(&answer.body, &request);
                }
            }
        }
    }
}

async fn try_multi_gets(gateway: &Gateway, own: (&str, &str)) {
    for body in [
        json!({"keys": [KEY]}),
        json!({"keys": [format!("{VICTIM}/{KEY}"), format!("{VICTIM}:{KEY}"), format!("../{VICTIM}/{KEY}"), KEY]}),
        json!({"keys": [KEY], "user": VICTIM, "user_id": VICTIM, "X-User-ID": VICTIM}),
        json!({"keys": [{"user": VICTIM, "key": KEY}]}),
        json!({"keys": [[VICTIM, KEY]]}),
        json!([KEY]),
    ] {
        for path in ["/v1/entries:mget".to_owned(), format!("/v1/entries:mget?user={VICTIM}")] {
            let answer = gateway.send(Method::POST, &path, &[own], body.to_string()).await;
            let text = answer.text();
            for told in [VALUE.to_owned(), STANDARD.encode(VALUE)] {
                assert!(!text.contains(&told), "{body} tells {text}");
            }
        }
    }
}

async fn victim_is_untouched(cluster: &Cluster) {
    let victim = cluster.user(VICTIM);
    assert_eq!(victim.get(KEY).await.text(), VALUE);
}

#[test]
fn no_trick_shows_another_users_entry() {
    on_shared(async |cluster| {
        assert!(cluster.user(VICTIM).put(KEY, VALUE).await.status < 300);
        let secret = TemporaryFile::new(SECRET);
        let env = [("SHARDCACHE_AUTH", "jwt"), ("SHARDCACHE_JWT_KEY_FILE", secret.path())];
        let by_token = Gateway::start(cluster, &env).await;
        let token = bearer("isolation-mallory");
        try_all(&by_token, &format!("Authorization: {token}")).await;
        try_multi_gets(&by_token, ("Authorization", &token)).await;
        victim_is_untouched(cluster).await;
    });
}

#[test]
fn no_trick_shows_another_users_entry_to_somebody_who_says_who_it_is() {
    on_shared(async |cluster| {
        assert!(cluster.user(VICTIM).put(KEY, VALUE).await.status < 300);
        let gateway = Gateway::start(cluster, &[]).await;
        try_all(&gateway, "X-User-ID: isolation-mallory").await;
        try_multi_gets(&gateway, ("X-User-ID", "isolation-mallory")).await;
        victim_is_untouched(cluster).await;
    });
}
