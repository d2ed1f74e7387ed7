//! Faults on purpose: only when on, as rules and headers say, and shown wherever somebody looks.

use std::time::{Duration, Instant};

use tests::processes::{Env, run};

use crate::support::{cluster, get_with, page};

#[tokio::test]
async fn while_faults_are_off_rules_and_headers_have_no_effect() {
    let cluster = cluster(&[("SHARDCACHE_FAULT_RULES", "abort=503")]).await;
    let user = cluster.user("drill");
    assert_eq!(user.put("k", "v").await.status, 201);
    let answer = get_with(&user, "k", &[("X-Shardcache-Fault", "abort=503")]).await;
    assert_eq!((answer.status, answer.header("x-shardcache-fault")), (200, ""));
    assert!(page(&cluster, "/readyz").await.json().get("faults").is_none());
    assert!(!page(&cluster, "/").await.text().contains("Fault drill"));
}

#[tokio::test]
async fn while_faults_are_on_requests_meet_them_and_everybody_can_see_why() {
    let rules = "abort=429 route=delete; abort=504 header=X-Drill; delay=1ms route=list";
    let cluster = cluster(&[("SHARDCACHE_FAULTS", "on"), ("SHARDCACHE_FAULT_RULES", rules)]).await;
    let user = cluster.user("drill");
    assert_eq!(user.put("k", "v").await.status, 201, "no rule means it");
    let refused = user.delete("k").await;
    assert_eq!((refused.status, refused.header("x-shardcache-fault")), (429, "abort=429"));
    assert_eq!(user.get("k").await.text(), "v", "an aborted request is not executed");
    assert_eq!(get_with(&user, "k", &[("X-Drill", "1")]).await.code(), "write_outcome_unknown");
    let asked = [("X-Shardcache-Fault", "delay=300ms")];
    let began = Instant::now();
    let delayed = get_with(&user, "k", &asked).await;
    assert_eq!((delayed.status, delayed.header("x-shardcache-fault")), (200, "delay=300ms"));
    assert!(began.elapsed() >= Duration::from_millis(300));
    // Longer than the client waits.
    let late = [("X-Shardcache-Fault", "delay=10s"), ("X-Request-Timeout-Ms", "50")];
    assert_eq!(get_with(&user, "k", &late).await.code(), "owner_unavailable");
    assert_eq!(get_with(&user, "k", &[("X-Shardcache-Fault", "delay=11s")]).await.code(), "request_invalid");
    assert_eq!(page(&cluster, "/readyz").await.json()["faults"], "on");
    assert!(page(&cluster, "/").await.text().contains("Fault drill"));
    let metrics = page(&cluster, "/metrics").await.text();
    assert!(metrics.contains("shardcache_gateway_faults_injected_total{fault=\"abort\"} 2"), "{metrics}");
    assert!(cluster.gateways[0].process.log().contains("FAULT DRILL"));
}

#[tokio::test]
async fn a_write_that_is_delayed_is_carried_out() {
    let cluster = cluster(&[("SHARDCACHE_FAULTS", "on"), ("SHARDCACHE_FAULT_RULES", "delay=200ms route=put")]).await;
    let user = cluster.user("drill");
    assert_eq!(user.put("k", "v").await.status, 201);
    assert_eq!(user.get("k").await.text(), "v");
}

#[tokio::test]
async fn bad_settings_stop_the_start_with_one_line_that_names_them() {
    for (name, value, reason) in [
        ("SHARDCACHE_RATE_USER", "100", "a rate is COUNT/UNIT"),
        ("SHARDCACHE_RATE_CLIENT", "0/s", "must be more than 0"),
        ("SHARDCACHE_RATE_TOTAL", "1/h burst=100", "takes more than a day"),
        ("SHARDCACHE_CONCURRENCY", "0", "off, adaptive, or a number"),
        ("SHARDCACHE_FAULTS", "yes", "possible values are off, on"),
        ("SHARDCACHE_FAULT_RULES", "abort=500", "abort is 429, 503 or 504"),
    ] {
        let env: Env = vec![(name.to_owned(), value.to_owned())];
        let ended = run("gateway", &[], &env, Duration::from_secs(20)).await;
        assert_eq!(ended.code, Some(2), "{ended:?}");
        let line = ended.stderr.trim();
        assert!(line.starts_with("error: ") && line.contains(name) && line.contains(reason), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}
