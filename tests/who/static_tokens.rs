//! Static tokens at a running gateway: scopes, users, and a file that changes.

use reqwest::Method;
use serde_json::json;
use tests::poll::eventually;

use crate::support::{Gateway, SOON, TemporaryFile, assert_problem, on_shared};

const READER: &str = "Zx9SECRET-reader-token";
const WRITER: &str = "Zx9SECRET-writer-token";
const ADMIN: &str = "Zx9SECRET-admin-token";
const OF_ADA: &str = "Zx9SECRET-token-of-ada";

fn tokens() -> String {
    format!(
        "reader read {READER}\nwriter write {WRITER}\nadmin admin {ADMIN}\nada read,write {OF_ADA} user=token-ada\n"
    )
}

#[test]
fn a_token_does_what_its_scopes_say_and_nothing_else() {
    on_shared(async |cluster| {
        let file = TemporaryFile::new(&tokens());
        let env = [("SHARDCACHE_AUTH", "token"), ("SHARDCACHE_TOKEN_FILE", file.path())];
        let gateway = Gateway::start(cluster, &env).await;
        let status = async |token: &str, method: Method, path: &str| {
            let body = if method == Method::POST { json!({"keys": ["k"]}).to_string() } else { String::new() };
            let authorization = format!("Bearer {token}");
            let headers = [("Authorization", authorization.as_str()), ("X-User-ID", "token-user")];
            let answer = gateway.send(method, path, &headers, body).await;
            answer.status
        };
        let rows = [
            (Method::PUT, "/v1/entries/k", [403, 201, 403, 401]),
            (Method::GET, "/v1/entries/k", [200, 403, 403, 401]),
            (Method::HEAD, "/v1/entries/k", [200, 403, 403, 401]),
            (Method::GET, "/v1/entries", [200, 403, 403, 401]),
            (Method::POST, "/v1/entries:mget", [200, 403, 403, 401]),
            (Method::GET, "/v1/ring/locate", [200, 403, 403, 401]),
            (Method::GET, "/metrics", [403, 403, 200, 401]),
            (Method::GET, "/v1/ring", [403, 403, 200, 401]),
            (Method::GET, "/", [403, 403, 200, 401]),
            (Method::DELETE, "/v1/entries/k", [403, 204, 403, 401]),
            (Method::GET, "/healthz", [200; 4]),
            (Method::GET, "/readyz", [200; 4]),
        ];
        for (method, path, expected) in rows {
            // The writer first: there must be something to read.
            for at in [1, 0, 2, 3] {
                let token = [READER, WRITER, ADMIN, "Zx9SECRET-no-such-token"][at];
                assert_eq!(status(token, method.clone(), path).await, expected[at], "{method} {path} of token {at}");
            }
        }
        assert_problem(&gateway.get("/v1/entries/k", &[("X-User-ID", "token-user")]).await, 401, "unauthorized");
        assert!(!gateway.process.log().contains("Zx9SECRET"), "{}", gateway.process.log());
    });
}

#[test]
fn a_token_of_one_user_asks_for_no_other_and_goes_with_its_line() {
    on_shared(async |cluster| {
        let file = TemporaryFile::new(&tokens());
        let env = [("SHARDCACHE_AUTH", "token"), ("SHARDCACHE_TOKEN_FILE", file.path())];
        let gateway = Gateway::start(cluster, &env).await;
        let authorization = format!("Bearer {OF_ADA}");
        let own = ("Authorization", authorization.as_str());
        assert_eq!(gateway.put("bound", &[own], "of ada").await.status, 201);
        assert_eq!(gateway.get("/v1/entries/bound", &[own, ("X-User-ID", "token-ada")]).await.text(), "of ada");
        for other in ["token-bob", "TOKEN-ADA", "token-ada2"] {
            let answer = gateway.get("/v1/entries/bound", &[own, ("X-User-ID", other)]).await;
            assert_problem(&answer, 403, "forbidden");
        }
        file.write(&tokens().replace(OF_ADA, "Zx9SECRET-another-one-of-ada"));
        eventually("the token is no longer one", SOON, async || {
            gateway.get("/v1/entries/bound", &[own]).await.status == 401
        })
        .await;
    });
}
