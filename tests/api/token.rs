//! A cluster with a token: nodes want it from everyone, and a gateway without it serves nobody.

use reqwest::Method;
use tests::http::User;
use tests::processes::{Process, free_address};

use crate::support::{VALUE_MAX, ask, assert_problem, small_cluster};

const TOKEN: &str = "t0ken-Zx9SECRET";

#[tokio::test]
async fn a_node_answers_only_those_who_show_the_clusters_token() {
    let cluster = small_cluster(1, &[("SHARDCACHE_CLUSTER_TOKEN", TOKEN)]).await;
    let user = cluster.user("member");
    assert_eq!(user.put("k", "v").await.status, 201);
    assert_eq!(user.get("k").await.text(), "v");

    let node = cluster.nodes["n1"].url();
    let routes = [
        (Method::GET, "/v1/entries/k"),
        (Method::PUT, "/v1/entries/k"),
        (Method::DELETE, "/v1/entries/k"),
        (Method::GET, "/v1/entries"),
        (Method::POST, "/v1/entries:mget"),
        (Method::GET, "/internal/slots"),
        (Method::POST, "/internal/refresh"),
        (Method::GET, "/internal/no-such-route"),
    ];
    let right = format!("Bearer {TOKEN}");
    for (method, path) in routes {
        for wrong in [None, Some("Bearer wrong"), Some("Bearer "), Some("Basic dDprZW4="), Some(TOKEN)] {
            let mut headers = vec![("X-User-ID", "member")];
            headers.extend(wrong.map(|wrong| ("Authorization", wrong)));
            let answer = ask(&node, method.clone(), path, &headers).await;
            assert_problem(&answer, 401, "unauthorized");
            assert_eq!(answer.header("www-authenticate"), "Bearer");
        }
    }
    let shown = [("X-User-ID", "member"), ("Authorization", right.as_str())];
    assert_eq!(ask(&node, Method::GET, "/v1/entries/k", &shown).await.text(), "v");
    assert_eq!(ask(&node, Method::GET, "/internal/slots", &shown).await.status, 200);
    for open in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(ask(&node, Method::GET, open, &[]).await.status, 200, "{open}");
    }

    let address = free_address();
    let mut env = cluster.migrator_env();
    env.retain(|(name, _)| name != "SHARDCACHE_CLUSTER_TOKEN");
    env.push(("SHARDCACHE_LISTEN".to_owned(), address.to_string()));
    let mut gateway = Process::start("gateway", &[], &env);
    gateway.wait_ready(address, "/readyz").await;
    let outside = User::new(&format!("http://{address}"), "member");
    for _ in 0..3 {
        assert_problem(&outside.get("k").await, 503, "owner_unavailable");
        assert_problem(&outside.put("k", "w").await, 503, "owner_unavailable");
        // Refused unread: known not to be executed all the same.
        assert_problem(&outside.put("k", vec![0; VALUE_MAX]).await, 503, "owner_unavailable");
        assert_problem(&outside.delete("k").await, 503, "owner_unavailable");
    }
    assert_eq!(user.get("k").await.text(), "v");
    for log in [gateway.log(), cluster.gateways[0].process.log(), cluster.nodes["n1"].process.log()] {
        assert!(!log.contains(TOKEN), "{log}");
    }
}
