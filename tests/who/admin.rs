//! The listener for admins: their pages there, and no entries.

use reqwest::Method;
use tests::http::{answered, client};
use tests::processes::free_address;

use crate::support::{Gateway, SECRET, TemporaryFile, assert_problem, bearer, on_shared};

#[test]
fn the_pages_of_an_admin_are_at_their_listener_alone() {
    on_shared(async |cluster| {
        let (admin, secret) = (free_address(), TemporaryFile::new(SECRET));
        let address = admin.to_string();
        let env = [
            ("SHARDCACHE_ADMIN_LISTEN", address.as_str()),
            ("SHARDCACHE_AUTH", "jwt"),
            ("SHARDCACHE_JWT_KEY_FILE", secret.path()),
            ("SHARDCACHE_DENY", "127.0.0.0/8"),
        ];
        let shut = Gateway::start(cluster, &env).await;
        let at_admin = async |method: Method, path: &str, headers: &[(&str, &str)]| {
            let mut request = client().request(method, format!("http://{admin}{path}"));
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            answered(request).await
        };
        for page in ["/", "/metrics", "/v1/ring", "/healthz", "/readyz", "/openapi.json"] {
            let answer = at_admin(Method::GET, page, &[]).await;
            assert_eq!(answer.status, 200, "{page}: {answer:?}");
            assert!(!answer.header("x-request-id").is_empty());
        }
        let located = at_admin(Method::GET, "/v1/ring/locate", &[("X-User-ID", "anyone")]).await;
        assert_eq!(located.status, 200, "an admin may ask where any user lives");
        let ada = bearer("admin-ada");
        let headers = [("X-User-ID", "admin-ada"), ("Authorization", ada.as_str())];
        for (method, path) in [
            (Method::GET, "/v1/entries/k"),
            (Method::PUT, "/v1/entries/k"),
            (Method::DELETE, "/v1/entries/k"),
            (Method::GET, "/v1/entries"),
            (Method::POST, "/v1/entries:mget"),
            (Method::GET, "/internal/slots"),
        ] {
            assert_problem(&at_admin(method, path, &headers).await, 404, "not_found");
        }
        assert_problem(&shut.get("/metrics", &[]).await, 403, "forbidden");

        let second = free_address().to_string();
        let open = Gateway::start(cluster, &[("SHARDCACHE_ADMIN_LISTEN", second.as_str())]).await;
        for page in ["/", "/metrics"] {
            assert_problem(&open.get(page, &[]).await, 404, "not_found");
        }
        for page in ["/v1/ring", "/healthz", "/readyz"] {
            assert_eq!(open.get(page, &[]).await.status, 200, "{page}");
        }
    });
}

#[test]
fn a_gateway_with_an_admin_listener_stops_cleanly() {
    on_shared(async |cluster| {
        let admin = free_address().to_string();
        let env = [("SHARDCACHE_ADMIN_LISTEN", admin.as_str()), ("SHARDCACHE_ACCESS_LOG", "json")];
        let mut gateway = Gateway::start(cluster, &env).await;
        assert_eq!(client().get(format!("http://{admin}/metrics")).send().await.expect("an answer").status(), 200);
        assert!(gateway.process.stop().await.success());
    });
}
