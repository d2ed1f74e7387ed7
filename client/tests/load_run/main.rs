//! Whole runs of the load generator against a gateway of a few lines that can be told to misbehave.

mod fake_gateway;

use clap::Parser;
use client::load::{LoadError, Options, Report, run};
use fake_gateway::{FakeGateway, Fault};

async fn load(gateway: &FakeGateway, more: &[&str]) -> Result<Report, LoadError> {
    let target = format!("--target={}", gateway.url());
    let fixed = ["shardcache-load", &target, "--seed=7", "--zipf=50:0.99", "--users=5", "--rate=2000"];
    let options = Options::try_parse_from(fixed.iter().chain(more)).expect("options");
    run(&options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_correct_gateway_gives_a_clean_report_with_every_request_in_it() {
    let gateway = FakeGateway::start(Fault::None).await;
    let report = load(&gateway, &["--requests=1000", "--writes=20"]).await.expect("report");
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.requests, report.reads.count + report.writes.count), (1000, 1000));
    assert!((100..300).contains(&report.writes.count), "{report}");
    assert_eq!(report.tiers["l1"], report.reads.count);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_forgets_acknowledged_writes_is_caught() {
    let gateway = FakeGateway::start(Fault::KeepFirstValue).await;
    let report = load(&gateway, &["--requests=1000", "--writes=20"]).await.expect("report");
    assert!(report.wrong.contains_key("stale"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_mixes_users_up_damages_bodies_or_loses_entries_is_caught() {
    for (fault, class) in
        [(Fault::OneEntryForAll, "other_entry"), (Fault::FlipBit, "damaged"), (Fault::NothingStored, "lost")]
    {
        let gateway = FakeGateway::start(fault).await;
        let report = load(&gateway, &["--requests=200"]).await.expect("report");
        assert!(report.wrong.contains_key(class), "{class}: {report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_outcomes_are_counted_by_their_code_and_both_outcomes_allowed() {
    let gateway = FakeGateway::start(Fault::None).await;
    load(&gateway, &["--requests=1"]).await.expect("preloaded");
    gateway.misbehave(Fault::UnknownOutcome);
    let report = load(&gateway, &["--requests=1000", "--writes=20", "--preload=false"]).await.expect("report");
    assert!(report.errors["write_outcome_unknown"] > 100, "{report}");
    assert!(report.wrong.is_empty(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preload_that_fails_stops_the_run() {
    let gateway = FakeGateway::start(Fault::UnknownOutcome).await;
    assert!(matches!(load(&gateway, &[]).await, Err(LoadError::Preload("write_outcome_unknown"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_free_connection_counts_as_latency() {
    let gateway = FakeGateway::start(Fault::None).await;
    load(&gateway, &["--requests=1"]).await.expect("preloaded");
    gateway.misbehave(Fault::TakeTenMilliseconds);
    let slow = ["--requests=100", "--connections=1", "--preload=false"];
    let report = load(&gateway, &slow).await.expect("report");
    // 100 requests one after the other take a second although they arrive within 50 ms: the last ones wait for most of it.
    assert!(report.latency.p50_us > 300_000 && report.latency.max_us > 800_000, "{report}");
}
