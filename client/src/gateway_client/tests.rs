//! The gateway client against a peer that speaks raw HTTP on a socket.

use wire::ProblemCode;

use super::*;
use crate::scripted_peer::answering;

fn names() -> (UserId, EntryKey) {
    (UserId::parse(b"ada").expect("user"), EntryKey::parse("a/../b c").expect("key"))
}

async fn client_of(status: &str, headers: &str, body: &str) -> (Client, tokio::sync::oneshot::Receiver<String>) {
    let (address, seen) = answering(status, headers, body).await;
    (Client::new(&format!("http://{address}/"), Duration::from_secs(5)).expect("client"), seen)
}

#[tokio::test]
async fn a_get_returns_value_version_and_tier() {
    let headers = "ETag: \"41\"\r\nContent-Type: text/plain\r\nCache-Status: shardcache-l1; hit\r\n";
    let (client, seen) = client_of("200 OK", headers, "hello").await;
    let (user, key) = names();
    let entry = client.get(&user, &key).await.expect("answer").expect("entry");
    assert_eq!((&entry.value[..], entry.version, entry.tier), (&b"hello"[..], Version(41), Some(Tier::L1)));
    assert_eq!(entry.content_type, "text/plain");
    let seen = seen.await.expect("seen");
    assert!(seen.starts_with("GET /v1/entries/a%2F%2E%2E%2Fb%20c HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains("x-user-id: ada\r\n"), "{seen}");
}

#[tokio::test]
async fn an_absent_entry_is_none_and_a_delete_of_it_false() {
    let problem = serde_json::to_string(&Problem::new(ProblemCode::EntryNotFound, "none")).expect("json");
    let (user, key) = names();
    let (client, _seen) = client_of("404 Not Found", "", &problem).await;
    assert_eq!(client.get(&user, &key).await.expect("answer"), None);
    let (client, _seen) = client_of("404 Not Found", "", &problem).await;
    assert!(!client.delete(&user, &key, Precondition::None).await.expect("answer"));
}

#[tokio::test]
async fn preconditions_travel_as_headers() {
    let (user, key) = names();
    for (condition, header) in
        [(Precondition::Absent, "if-none-match: *\r\n"), (Precondition::Unchanged(Version(7)), "if-match: \"7\"\r\n")]
    {
        let (client, seen) = client_of("201 Created", "ETag: \"8\"\r\n", "").await;
        let written = client.put(&user, &key, Bytes::from_static(b"v"), "text/plain", condition).await;
        assert_eq!(written.expect("written"), Written { version: Version(8), created: true });
        assert!(seen.await.expect("seen").contains(header), "{header}");
    }
}

#[tokio::test]
async fn only_an_unknown_or_unreadable_answer_to_a_write_may_have_happened() {
    let (user, key) = names();
    for (code, status, unknown) in [
        (ProblemCode::OwnerUnavailable, "503 Service Unavailable", false),
        (ProblemCode::WriteOutcomeUnknown, "504 Gateway Timeout", true),
    ] {
        let problem = serde_json::to_string(&Problem::new(code, "so it is")).expect("json");
        let (client, _seen) = client_of(status, "", &problem).await;
        let error = client.put(&user, &key, Bytes::new(), "text/plain", Precondition::None).await.expect_err("refused");
        assert_eq!(error.may_have_happened(), unknown, "{error:?}");
    }
    let (client, _seen) = client_of("200 OK", "", "").await;
    let error = client.put(&user, &key, Bytes::new(), "text/plain", Precondition::None).await.expect_err("no version");
    assert!(error.may_have_happened());
    let nobody = Client::new("http://127.0.0.1:1", Duration::from_secs(5)).expect("client");
    let error = nobody.put(&user, &key, Bytes::new(), "text/plain", Precondition::None).await.expect_err("no one");
    assert!(!error.may_have_happened());
}

#[tokio::test]
async fn dot_segments_are_refused_before_a_url_swallows_them() {
    let client = Client::new("http://127.0.0.1:1", Duration::from_secs(5)).expect("client");
    let key = EntryKey::parse("..").expect("key");
    assert!(matches!(client.get(&names().0, &key).await, Err(ClientError::KeyNotAddressable)));
}

#[tokio::test]
async fn a_listing_sends_only_what_is_asked_for() {
    let (client, seen) = client_of("200 OK", "", "{\"entries\":[]}").await;
    let query = ListQuery { prefix: Some("a&b"), limit: Some(5), ..ListQuery::default() };
    let page = client.list(&names().0, &query).await.expect("page");
    assert!(page.entries.is_empty() && page.next.is_none());
    assert!(seen.await.expect("seen").starts_with("GET /v1/entries?prefix=a%26b&limit=5 HTTP/1.1\r\n"));
}
