//! The routes beside the data plane: ring, locate, health, readiness, metrics, the status page, and what is no route.

use reqwest::Method;
use serde_json::Value;

use crate::support::{ask, assert_problem, on_shared, owner};

#[test]
fn the_ring_has_its_epoch_4096_slots_and_every_member() {
    on_shared(async |cluster| {
        let ring = cluster.ring().await;
        assert!(ring["epoch"].as_u64().is_some_and(|epoch| epoch > 0), "{ring}");
        assert_eq!((&ring["slots"], &ring["change"]), (&Value::from(4096), &Value::Null));
        let members = ring["members"].as_array().expect("members");
        assert_eq!(members.len(), 2);
        let slots: u64 = members.iter().map(|member| member["slots"].as_u64().expect("slots")).sum();
        assert_eq!(slots, 4096);
        for member in members {
            let node = &cluster.nodes[member["id"].as_str().expect("an id")];
            assert_eq!(member["address"], node.address.to_string());
            assert_eq!(member["weight"], 100);
            assert!(member["state"].is_string(), "{member}");
        }
    });
}

#[test]
fn locate_names_the_node_that_then_answers() {
    on_shared(async |cluster| {
        let mut owners = std::collections::BTreeSet::new();
        for number in 0..40 {
            let id = format!("located-{number}");
            let user = cluster.user(&id);
            let answer = ask(&cluster.gateway_url(), Method::GET, "/v1/ring/locate", &[("X-User-ID", &id)]).await;
            let place = answer.json();
            assert!(place["slot"].as_u64().is_some_and(|slot| slot < 4096), "{place}");
            assert_eq!(place["epoch"], cluster.ring().await["epoch"]);
            assert_eq!(user.get("k").await.header("x-cache-node"), place["owner"].as_str().expect("an owner"));
            owners.insert(owner(&user).await);
        }
        assert_eq!(owners.len(), 2, "forty users are spread");
    });
}

#[test]
fn gateway_and_nodes_tell_their_health_readiness_and_metrics() {
    on_shared(async |cluster| {
        let node = cluster.nodes["n1"].url();
        for (base, prefix) in [(cluster.gateway_url(), "shardcache_gateway_"), (node, "shardcache_node_")] {
            assert_eq!(ask(&base, Method::GET, "/healthz", &[]).await.status, 200);
            let ready = ask(&base, Method::GET, "/readyz", &[]).await;
            assert_eq!(ready.status, 200);
            assert!(ready.json()["reasons"].is_array() && ready.json()["state"].is_string(), "{ready:?}");
            cluster.user("measured").get("k").await;
            let metrics = ask(&base, Method::GET, "/metrics", &[]).await;
            assert_eq!(metrics.status, 200);
            let text = metrics.text();
            let series: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
            assert!(series.len() > 5, "{text}");
            assert!(series.iter().all(|line| line.starts_with(prefix)), "{text}");
            let named = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
            assert!(named.into_iter().all(|line| line.starts_with("shardcache_")), "{text}");
            for path in ["/healthz", "/readyz", "/metrics"] {
                let head = ask(&base, Method::HEAD, path, &[]).await;
                assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
            }
        }
    });
}

#[test]
fn the_status_page_is_html() {
    on_shared(async |cluster| {
        let page = ask(&cluster.gateway_url(), Method::GET, "/", &[]).await;
        assert_eq!(page.status, 200);
        assert!(page.header("content-type").starts_with("text/html"), "{page:?}");
        assert!(page.text().contains("shardcache"));
    });
}

#[test]
fn what_is_no_route_is_not_found() {
    on_shared(async |cluster| {
        for base in [cluster.gateway_url(), cluster.nodes["n1"].url()] {
            for path in [
                "/nope",
                "/v1",
                "/v1/",
                "/v1/entry/k",
                "/v1/entriesk",
                "/v1/entries:other",
                "/healthz/",
                "/%2e%2e/x",
                "/V1/entries/k",
            ] {
                let answer = ask(&base, Method::GET, path, &[("X-User-ID", "u")]).await;
                assert_problem(&answer, 404, "not_found");
            }
        }
    });
}

#[test]
fn a_method_that_a_route_has_not_is_refused_and_the_others_named() {
    on_shared(async |cluster| {
        let user = [("X-User-ID", "methods")];
        let base = cluster.gateway_url();
        for (method, path, allowed) in [
            ("POST", "/v1/entries/k", &["GET", "HEAD", "PUT", "DELETE"][..]),
            ("PATCH", "/v1/entries/k", &["GET", "HEAD", "PUT", "DELETE"]),
            ("get", "/v1/entries/k", &["GET", "HEAD", "PUT", "DELETE"]),
            ("BREW", "/v1/entries/k", &["GET", "HEAD", "PUT", "DELETE"]),
            ("PUT", "/v1/entries", &["GET"]),
            ("DELETE", "/v1/entries:mget", &["POST"]),
            ("POST", "/v1/ring", &["GET", "HEAD"]),
            ("PUT", "/v1/ring/locate", &["GET", "HEAD"]),
            ("DELETE", "/healthz", &["GET", "HEAD"]),
            ("POST", "/readyz", &["GET", "HEAD"]),
            ("PUT", "/metrics", &["GET", "HEAD"]),
            ("POST", "/", &["GET", "HEAD"]),
        ] {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            let answer = ask(&base, method.clone(), path, &user).await;
            assert_problem(&answer, 405, "method_not_allowed");
            let mut named: Vec<_> = answer.header("allow").split(',').map(str::trim).collect();
            let mut allowed = allowed.to_vec();
            named.sort_unstable();
            allowed.sort_unstable();
            assert_eq!(named, allowed, "{method} {path}");
        }
        let node = cluster.nodes["n1"].url();
        for (method, path) in
            [(Method::POST, "/v1/entries/k"), (Method::POST, "/healthz"), (Method::GET, "/internal/refresh")]
        {
            assert_problem(&ask(&node, method, path, &user).await, 405, "method_not_allowed");
        }
    });
}
