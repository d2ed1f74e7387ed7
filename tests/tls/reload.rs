//! Certificates that change while a gateway runs.

use std::time::Duration;

use tests::poll::eventually;

use crate::certificates::{Authority, TlsClient};
use crate::scene::Scene;

/// The files are looked at every two seconds.
const RELOADED: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_new_pair_is_taken_a_broken_one_is_not_and_open_connections_stay() {
    let scene = Scene::start(1).await;
    let (old, gateway) = (scene.client(), scene.gateway);
    let ip = gateway.ip().to_string();
    let process = scene.gateway_process.as_ref().expect("started");
    let open = old.connect(gateway).await.expect("a connection");

    // Half of a pair is none: what was before stays.
    let next = Authority::new();
    let pair = next.pair(std::slice::from_ref(&ip));
    std::fs::write(scene.path().join("gateway.crt"), &pair.cert).expect("a file");
    eventually("the half is told of", RELOADED, async || process.log().contains("cannot be used")).await;
    assert!(old.ask(gateway, "GET /healthz", "").await.is_ok());

    std::fs::write(scene.path().join("gateway.key"), &pair.key).expect("a file");
    let new = TlsClient::new(&next, None, &[]);
    eventually("the new pair is in force", RELOADED, async || new.ask(gateway, "GET /healthz", "").await.is_ok()).await;
    assert!(old.ask(gateway, "GET /healthz", "").await.is_err(), "the old authority has not signed it");
    assert_eq!(process.log().matches("cannot be used").count(), 1, "{}", process.log_tail());
    drop(open);
}
