//! The access log of a running gateway: what it says, and what it never says.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use tests::poll::until;

use crate::support::{Gateway, assert_problem, on_shared};

const HASH_KEY: &str = "Zx9HASHKEY-of-all-gateways";
const USER: &str = "Zx9USER";
const BOUND: Duration = Duration::from_secs(20);

/// The line of a request.
async fn line(gateway: &Gateway, request_id: &str) -> Value {
    let found = until(BOUND, async || {
        let log = gateway.process.log();
        let lines = log.lines().filter(|line| line.contains("\"gateway_us\""));
        let mut lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["request_id"] == request_id)
    });
    found.await.unwrap_or_else(|| panic!("no line of {request_id} in {}", gateway.process.log()))
}

#[test]
fn each_request_of_the_data_plane_has_a_line_without_user_key_or_value() {
    on_shared(async |cluster| {
        let env = [
            ("SHARDCACHE_ACCESS_LOG", "json"),
            ("SHARDCACHE_LOG_HASH_KEY", HASH_KEY),
            ("SHARDCACHE_TRUSTED_PROXIES", "127.0.0.0/8"),
            ("SHARDCACHE_DENY", "198.51.100.0/24"),
            ("RUST_LOG", "debug"),
        ];
        let (gateway, other) = (Gateway::start(cluster, &env).await, Gateway::start(cluster, &env).await);
        let by = |id: &'static str| [("X-User-ID", USER), ("X-Request-ID", id), ("X-Forwarded-For", "203.0.113.9")];
        assert_eq!(gateway.put("Zx9KEY", &by("put"), "Zx9VALUE").await.status, 201);
        assert_eq!(gateway.get("/v1/entries/Zx9KEY", &by("get")).await.text(), "Zx9VALUE");
        assert_eq!(gateway.ask(Method::HEAD, "/v1/entries/Zx9KEY", &by("head")).await.status, 200);
        assert_eq!(gateway.get("/v1/entries/Zx9KEY2", &by("absent")).await.status, 404);
        assert_eq!(gateway.ask(Method::PATCH, "/v1/entries/Zx9KEY", &by("patch")).await.status, 405);
        assert_eq!(gateway.get("/v1/entries?prefix=Zx9KEY", &by("list")).await.status, 200);
        let denied = [("X-User-ID", USER), ("X-Request-ID", "denied"), ("X-Forwarded-For", "198.51.100.7")];
        assert_problem(&gateway.get("/v1/entries/Zx9KEY", &denied).await, 403, "forbidden");
        assert_eq!(other.get("/v1/entries/Zx9KEY", &by("other")).await.status, 200);
        gateway.get("/healthz", &[("X-Request-ID", "page")]).await;

        let mut users = Vec::new();
        for (id, method, route, status, bytes) in [
            ("put", "PUT", "put", 201, Some(0)),
            ("get", "GET", "get", 200, Some(8)),
            ("head", "HEAD", "head", 200, Some(0)),
            ("absent", "GET", "get", 404, None),
            ("list", "GET", "list", 200, None),
        ] {
            let line = line(&gateway, id).await;
            assert_eq!((&line["method"], &line["route"]), (&method.into(), &route.into()), "{line}");
            assert_eq!((&line["status"], &line["client"]), (&status.into(), &"203.0.113.9".into()), "{line}");
            assert!(bytes.is_none_or(|bytes: u64| line["bytes"] == bytes), "{line}");
            assert!(line["node"].as_str().is_some_and(|node| node.starts_with('n')), "{line}");
            let (gateway_us, node_us) = (line["gateway_us"].as_u64(), line["node_us"].as_u64());
            assert!(node_us.is_some() && node_us <= gateway_us, "{line}");
            users.push(line["user"].as_str().expect("a hash").to_owned());
        }
        assert_eq!(line(&gateway, "get").await["tier"], "l1");
        users.push(line(&other, "other").await["user"].as_str().expect("a hash").to_owned());
        assert!(users.iter().all(|user| *user == users[0] && user.len() == 32), "{users:?}");
        let denied = line(&gateway, "denied").await;
        assert_eq!((&denied["status"], &denied["client"]), (&403.into(), &"198.51.100.7".into()));
        assert_eq!((&denied["user"], &denied["node"], &denied["node_us"]), (&Value::Null, &Value::Null, &Value::Null));
        assert_eq!(line(&gateway, "patch").await["route"], "other");

        for log in [gateway.process.log(), other.process.log()] {
            for told in [USER, "Zx9KEY", "Zx9VALUE", HASH_KEY] {
                let line = log.lines().find(|line| line.contains(told));
                assert_eq!(line, None, "{told} is shown");
            }
            assert!(!log.contains("\"page\""), "pages are not of the data plane");
        }
        let metrics = gateway.get("/metrics", &[]).await.text();
        assert!(metrics.contains("shardcache_gateway_access_log_dropped_total 0"), "{metrics}");
    });
}

#[test]
fn without_it_nothing_is_logged() {
    on_shared(async |cluster| {
        let mut gateway = Gateway::start(cluster, &[]).await;
        assert_eq!(gateway.get("/v1/entries/k", &[("X-User-ID", USER)]).await.status, 404);
        assert!(gateway.process.stop().await.success());
        assert!(!gateway.process.log().contains("gateway_us"));
    });
}
