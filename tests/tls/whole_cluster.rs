//! Every connection of a cluster by TLS, and none without where it is asked for.

use std::time::Duration;

use tests::http::RawConnection;
use tests::poll::eventually;
use tests::processes::run;

use crate::certificates::{Authority, SOON, TlsClient};
use crate::scene::Scene;

#[tokio::test]
async fn gateway_nodes_and_migrator_reach_each_other_by_mutual_tls() {
    let mut scene = Scene::start(2).await;
    let (client, gateway) = (scene.client(), scene.gateway);
    for number in 0..40 {
        let put = client.ask(gateway, &format!("PUT /v1/entries/k{number}"), "value").await.expect("an answer");
        assert!(put.starts_with("HTTP/1.1 201 "), "{put}");
    }
    eventually("reads go by a line", SOON, async || {
        let get = client.ask(gateway, "GET /v1/entries/k1", "").await.expect("an answer");
        assert!(get.starts_with("HTTP/1.1 200 ") && get.ends_with("value"), "{get}");
        let metrics = client.ask(gateway, "GET /metrics", "").await.expect("an answer");
        metrics.lines().any(|line| line.starts_with("shardcache_gateway_lines ") && !line.ends_with(" 0"))
    })
    .await;

    // The stream from the old owner to the new one, and the migrator's calls.
    scene.start_node("n3");
    let added = scene.migrator(&["add-node", "n3", "--json"]).await;
    assert_eq!(added.code, Some(0), "{added:#?}");
    let moved = scene.migrator(&["remove-node", "n1"]).await;
    assert_eq!(moved.code, Some(0), "{moved:#?}");
    for process in scene.nodes.values().map(|(_, process)| process) {
        assert!(!process.log().contains("stream is broken"), "{}", process.log_tail());
    }
    let get = client.ask(gateway, "GET /v1/entries/k1", "").await.expect("an answer");
    assert!(get.starts_with("HTTP/1.1 200 ") && get.ends_with("value"), "{get}");
}

#[tokio::test]
async fn a_node_lets_in_nobody_without_a_certificate_of_its_authority_and_speaks_nothing_else() {
    let scene = Scene::start(1).await;
    let (node, _) = scene.nodes["n1"];
    let stranger = Authority::new();
    let strangers = stranger.pair(&["stranger".to_owned()]);
    let refused = [
        TlsClient::new(&scene.inner, None, &[]),
        TlsClient::new(&scene.inner, Some(&strangers), &[]),
        TlsClient::new(&stranger, Some(&scene.member), &[]),
    ];
    for client in refused {
        for path in ["GET /v1/entries/k", "GET /internal/slots", "GET /healthz"] {
            let answer = client.ask(node, path, "").await;
            assert!(answer.is_err(), "{path}: {answer:?}");
        }
    }
    let member = TlsClient::new(&scene.inner, Some(&scene.member), &[]);
    let answer = member.ask(node, "GET /healthz", "").await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");

    let mut plain = RawConnection::open(node).await;
    plain.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(plain.answer(SOON).await, None, "plain HTTP is not answered");
}

#[tokio::test]
async fn health_checks_speak_tls_where_the_program_does() {
    let scene = Scene::start(1).await;
    let (node, _) = scene.nodes["n1"];
    let of_node = [("TLS_CERT", "n1.crt"), ("TLS_KEY", "n1.key")];
    let of_gateway = [("TLS_CERT", "gateway.crt"), ("TLS_KEY", "gateway.key")];
    for (program, address, files) in [("cache-node", node, of_node), ("gateway", scene.gateway, of_gateway)] {
        let mut env = scene.env(&[("LISTEN", address.to_string())]);
        env.extend(scene.files(&files));
        let healthy = run(program, &["healthcheck"], &env, Duration::from_secs(20)).await;
        assert_eq!(healthy.code, Some(0), "{program}: {healthy:#?}");
        let plain = run(program, &["healthcheck"], &scene.env(&[("LISTEN", address.to_string())]), SOON).await;
        assert_eq!(plain.code, Some(1), "{program} without TLS: {plain:#?}");
    }
}

#[tokio::test]
async fn settings_that_leave_a_connection_plain_by_mistake_stop_the_start() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| dir.path().join(name).display().to_string();
    let authority = Authority::new();
    authority.write(dir.path(), "ca.pem");
    authority.pair(&["a".to_owned()]).write(dir.path(), "one");
    authority.pair(&["b".to_owned()]).write(dir.path(), "two");
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
    let cases: [Case<'_>; 8] = [
        ("cache-node", &[("TLS_CLIENT_CA", "ca.pem")], "SHARDCACHE_TLS_CLIENT_CA"),
        ("cache-node", &[("TLS_CERT", "one.crt"), ("TLS_KEY", "one.key")], "SHARDCACHE_NODE_CA"),
        ("gateway", &[("TLS_CERT", "one.crt")], "SHARDCACHE_TLS_KEY"),
        ("gateway", &[("TLS_CERT", "one.crt"), ("TLS_KEY", "two.key")], "are no pair"),
        ("gateway", &[("TLS_CERT", "none.crt"), ("TLS_KEY", "two.key")], "none.crt"),
        ("gateway", &[("TLS_CERT", "one.key"), ("TLS_KEY", "one.key")], "no certificate"),
        ("gateway", &[("NODE_CLIENT_CERT", "one.crt"), ("NODE_CLIENT_KEY", "one.key")], "SHARDCACHE_NODE_CA"),
        ("migrator", &[("NODE_CLIENT_CERT", "one.crt"), ("NODE_CLIENT_KEY", "one.key")], "SHARDCACHE_NODE_CA"),
    ];
    for (program, files, named) in cases {
        let mut env = vec![
            ("DATABASE_URL".to_owned(), format!("sqlite://{}", file("db"))),
            ("SHARDCACHE_LISTEN".to_owned(), "127.0.0.1:0".to_owned()),
        ];
        env.extend(files.iter().map(|(name, path)| (format!("SHARDCACHE_{name}"), file(path))));
        let verb: &[&str] = if program == "migrator" { &["status"] } else { &[] };
        let end = run(program, verb, &env, Duration::from_secs(20)).await;
        assert_eq!(end.code, Some(1), "{program} {files:?}: {end:#?}");
        assert!(end.stderr.contains(named) && !end.stderr.contains("PRIVATE"), "{program} {files:?}: {end:#?}");
    }
}

#[tokio::test]
async fn plain_http_is_answered_with_a_redirect_to_the_same_by_https() {
    let scene = Scene::start(1).await;
    let cases = [
        ("GET /v1/entries/a?b HTTP/1.1\r\nHost: example.com\r\n\r\n", 308, "https://example.com/v1/entries/a?b"),
        ("PUT /k HTTP/1.1\r\nHost: example.com:80\r\nContent-Length: 1\r\n\r\nx", 308, "https://example.com/k"),
        ("GET http://other/k HTTP/1.1\r\nHost: example.com\r\n\r\n", 308, "https://example.com/k"),
        ("GET / HTTP/1.1\r\nHost: a@evil\r\n\r\n", 400, ""),
        ("GET / HTTP/1.1\r\n\r\n", 400, ""),
        ("GET / HTTP/1.0\r\n\r\n", 400, ""),
    ];
    for (request, status, location) in cases {
        let mut plain = RawConnection::open(scene.redirect).await;
        plain.send(request.as_bytes()).await;
        let answer = plain.answer(SOON).await.unwrap_or_else(|| panic!("no answer to {request}"));
        assert_eq!(answer.status, status, "{request}: {answer:?}");
        let told = answer.head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap_or_default();
        assert_eq!(told, location, "{request}");
    }
}
