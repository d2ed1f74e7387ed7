//! Requests without a user: by address, cookie or header, and never as somebody else.

use crate::support::{Gateway, assert_problem, on_shared};

const KEY: &str = "/v1/entries/keyless";

#[test]
fn a_forged_address_makes_nobody_another_user() {
    on_shared(async |cluster| {
        let gateway = Gateway::start(cluster, &[("SHARDCACHE_KEYLESS", "client-ip")]).await;
        assert!(gateway.put("keyless", &[], "of the peer").await.status < 300);
        for forged in ["203.0.113.9", "127.0.0.1", "garbage"] {
            let headers = [("X-Forwarded-For", forged), ("X-Real-IP", forged)];
            assert_eq!(gateway.get(KEY, &headers).await.text(), "of the peer");
            assert_eq!(gateway.get(KEY, &[("Forwarded", &format!("for={forged}"))]).await.text(), "of the peer");
        }
        assert_problem(&gateway.get(KEY, &[("X-User-ID", "ip:127.0.0.1")]).await, 400, "user_id_invalid");
        let env = [("SHARDCACHE_KEYLESS", "client-ip"), ("SHARDCACHE_TRUSTED_PROXIES", "127.0.0.0/8")];
        let behind = Gateway::start(cluster, &env).await;
        let by = |hops: &'static str| [("X-Forwarded-For", hops)];
        assert!(behind.put("keyless", &by("203.0.113.77"), "of .77").await.status < 300);
        assert_eq!(behind.get(KEY, &by("198.51.100.1, 203.0.113.77")).await.text(), "of .77");
        assert_problem(&behind.get(KEY, &by("203.0.113.77, 203.0.113.78")).await, 404, "entry_not_found");
    });
}

#[test]
fn a_cookie_or_a_header_stands_in_for_the_user() {
    on_shared(async |cluster| {
        for (setting, name, one, other) in [
            ("cookie:sid", "Cookie", "a=b; sid=one", "a=b; sid=other"),
            ("header:X-Tenant", "X-Tenant", "one", "other"),
        ] {
            let gateway = Gateway::start(cluster, &[("SHARDCACHE_KEYLESS", setting)]).await;
            let value = format!("of one by {setting}");
            assert_eq!(gateway.put("keyless", &[(name, one)], &value).await.status, 201);
            assert_eq!(gateway.get(KEY, &[(name, one)]).await.text(), value);
            assert_problem(&gateway.get(KEY, &[(name, other)]).await, 404, "entry_not_found");
            assert_problem(&gateway.get(KEY, &[]).await, 400, "user_id_missing");
            assert_problem(&gateway.get(KEY, &[(name, other), (name, one)]).await, 400, "user_id_invalid");
            assert_problem(&gateway.get(KEY, &[("X-User-ID", "header:one")]).await, 400, "user_id_invalid");
        }
    });
}
