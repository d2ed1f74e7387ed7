//! Which client addresses may come in, and what a forged one is worth.

use tests::http::Answer;

use crate::support::{Gateway, assert_problem, on_shared};

const USER: (&str, &str) = ("X-User-ID", "addressed");

#[test]
fn a_denied_address_gets_nothing_but_the_health_routes() {
    on_shared(async |cluster| {
        let env = [("SHARDCACHE_ALLOW", "127.0.0.0/8"), ("SHARDCACHE_DENY", "127.0.0.0/8")];
        let gateway = Gateway::start(cluster, &env).await;
        for path in
            ["/v1/entries/k", "/v1/entries", "/", "/metrics", "/v1/ring", "/v1/ring/locate", "/openapi.json", "/no"]
        {
            assert_problem(&gateway.get(path, &[USER, ("X-Forwarded-For", "203.0.113.9")]).await, 403, "forbidden");
        }
        assert_problem(&gateway.put("k", &[USER], "v").await, 403, "forbidden");
        for open in ["/healthz", "/readyz"] {
            assert_eq!(gateway.get(open, &[]).await.status, 200, "{open}");
        }
        assert_eq!(cluster.user("addressed").get("k").await.status, 404);
    });
}

#[test]
fn an_allowed_address_is_one_that_a_trusted_proxy_has_seen() {
    on_shared(async |cluster| {
        let env = [
            ("SHARDCACHE_TRUSTED_PROXIES", "127.0.0.0/8,10.0.0.0/8"),
            ("SHARDCACHE_ALLOW", "203.0.113.0/24, 2001:db8::/32"),
        ];
        let gateway = Gateway::start(cluster, &env).await;
        let from = async |headers: &[(&str, &str)]| -> Answer {
            gateway.get("/v1/entries/k", &[&[USER], headers].concat()).await
        };
        for good in [
            ("X-Forwarded-For", "203.0.113.9"),
            ("X-Forwarded-For", "198.51.100.1, 203.0.113.9, 10.1.1.1"),
            ("Forwarded", "for=\"[2001:db8::7]:4711\";proto=https"),
        ] {
            assert_eq!(from(&[good]).await.status, 404, "{good:?}");
        }
        for bad in [
            ("X-Forwarded-For", "203.0.113.9, 198.51.100.1"),
            ("X-Forwarded-For", "203.0.113.9, unknown"),
            ("Forwarded", "for=203.0.113.9, for=198.51.100.1"),
            ("X-Real-IP", "203.0.113.9"),
        ] {
            assert_problem(&from(&[bad]).await, 403, "forbidden");
        }
        assert_problem(&from(&[]).await, 403, "forbidden");
        let two = [("X-Forwarded-For", "203.0.113.9"), ("Forwarded", "for=203.0.113.10")];
        assert_problem(&from(&two).await, 400, "request_invalid");
    });
}
