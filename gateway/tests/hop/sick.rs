//! Nodes that are sick: they answer garbage, fail half the time, or are slow; and what the gateway sends more than once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gateway::{Config, Hedge, NodePolicy, Outlier};

use crate::scripted_node::{Act, ScriptedNode, exchange};
use crate::{CREATED, Cluster, FOUND, READYZ, status, well};

const METRICS: &str = "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
/// How long an ejection lasts at first, with the time in which it is noticed.
const EJECTED: Duration = Duration::from_secs(12);

fn policy(nodes: NodePolicy) -> Config {
    Config { nodes, ..Config::default() }
}

async fn metric(cluster: &Cluster, series: &str) -> u64 {
    let text = exchange(cluster.gateway, METRICS).await;
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
    line.unwrap_or_else(|| panic!("no {series} in {text}"))
}

#[tokio::test]
async fn garbage_for_an_answer_costs_reads_nothing_and_leaves_a_write_unknown() {
    const NO_HTTP: &str = "\0\x01SSH-2.0-OpenSSH_9.2\r\n\r\n\r\n";
    const TWO_LENGTHS: &str = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 5\r\n\r\nabc";
    const ENDLESS_STATUS: &str = "HTTP/1.1 99999999 OK\r\n\r\n";
    const FOREIGN: &str = "HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 5\r\n\r\n<html";
    for garbage in [NO_HTTP, TWO_LENGTHS, ENDLESS_STATUS, FOREIGN] {
        let n1 = ScriptedNode::start(well(move |_| Act::Raw(garbage))).await;
        let n2 = ScriptedNode::start(well(|_| FOUND)).await;
        let cluster = Cluster::start(&[n1.address, n2.address]).await;
        let began = Instant::now();
        let read = cluster.get().await;
        assert!(status(&read) == 200 && read.ends_with("value"), "{garbage:?}: {read}");
        let write = cluster.put().await;
        assert!(status(&write) == 504 && write.contains("write_outcome_unknown"), "{garbage:?}: {write}");
        assert!(began.elapsed() < Duration::from_secs(4), "{garbage:?}: {:?}", began.elapsed());
        assert!(n2.seen().iter().all(|seen| seen.head.starts_with("GET ")), "no other node may write");
    }
}

#[tokio::test]
async fn garbage_in_the_middle_of_an_answer_never_looks_complete() {
    const CHUNKS: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nnonsense\r\n";
    let n1 = ScriptedNode::start(well(|_| Act::Raw(CHUNKS))).await;
    let cluster = Cluster::start(&[n1.address]).await;
    let answer = cluster.get().await;
    assert!(answer.contains("abc") && !answer.contains("nonsense") && !answer.ends_with("0\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn a_node_that_fails_half_the_time_is_passed_by_and_comes_back() {
    const ERROR: Act = Act::Answer("HTTP/1.1 500 Internal Server Error", "oops");
    let sick = Arc::new(AtomicBool::new(true));
    let still = Arc::clone(&sick);
    let n1 = ScriptedNode::start(well(move |seen| match seen.number {
        number if number % 2 == 0 && still.load(Ordering::SeqCst) => ERROR,
        _ if seen.head.starts_with("PUT ") => CREATED,
        _ => FOUND,
    }))
    .await;
    let others = [ScriptedNode::start(well(|_| FOUND)).await, ScriptedNode::start(well(|_| FOUND)).await];
    let config = policy(NodePolicy { outlier: Outlier::On, ..NodePolicy::default() });
    let cluster = Cluster::start_with(config, &[n1.address, others[0].address, others[1].address]).await;
    let noticed = Instant::now() + Duration::from_secs(30);
    while !exchange(cluster.gateway, READYZ).await.contains("ejected") {
        assert_eq!(status(&cluster.get().await), 200, "each read that fails goes past it");
        assert!(Instant::now() < noticed, "never ejected: {} requests", n1.seen().len());
    }
    let ejected = Instant::now();
    let before = n1.seen().len();
    assert_eq!(status(&cluster.get().await), 200);
    let refused = cluster.put().await;
    assert!(status(&refused) == 503 && refused.contains("owner_unavailable"), "{refused}");
    assert!(refused.to_lowercase().contains("retry-after: "), "{refused}");
    assert_eq!(n1.seen().len(), before, "an ejected node is not asked");
    assert_eq!(metric(&cluster, "shardcache_gateway_nodes{condition=\"ejected\"}").await, 1);
    assert_eq!(metric(&cluster, "shardcache_gateway_ejections_total{reason=\"success_rate\"}").await, 1);
    sick.store(false, Ordering::SeqCst);
    while status(&cluster.put().await) != 201 {
        assert!(ejected.elapsed() < EJECTED, "it gets no writes");
    }
    assert!(ejected.elapsed() > Duration::from_secs(5), "back after {:?}", ejected.elapsed());
    let back = n1.seen().len();
    while n1.seen().len() == back {
        assert_eq!(status(&cluster.get().await), 200);
        assert!(ejected.elapsed() < EJECTED * 2, "it gets no reads");
    }
}

#[tokio::test]
async fn a_slow_owner_is_hedged_and_a_write_never() {
    let n1 = ScriptedNode::start(well(|_| Act::Silence)).await;
    let n2 = ScriptedNode::start(well(|_| FOUND)).await;
    let hedge = Hedge::After(Duration::from_millis(50));
    let config = policy(NodePolicy { hedge, ..NodePolicy::default() });
    let cluster = Cluster::start_with(config, &[n1.address, n2.address]).await;
    let began = Instant::now();
    assert_eq!(status(&cluster.get().await), 200);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(n2.seen().iter().all(|seen| seen.has("x-shardcache-detached: 1")));
    for result in ["sent", "won"] {
        assert_eq!(metric(&cluster, &format!("shardcache_gateway_hedges_total{{result=\"{result}\"}}")).await, 1);
    }
    let asked = n2.seen().len();
    assert_eq!(status(&cluster.put().await), 504);
    assert_eq!(n2.seen().len(), asked, "a write has one place");
}

#[tokio::test]
async fn an_owner_that_answers_in_time_is_not_hedged_and_one_that_fails_leaves_it_to_the_other() {
    let n1 = ScriptedNode::start(well(|seen| if seen.number == 0 { FOUND } else { Act::RawThenClose("") })).await;
    let n2 = ScriptedNode::start(well(|_| FOUND)).await;
    let hedge = Hedge::After(Duration::from_millis(900));
    let config = policy(NodePolicy { hedge, ..NodePolicy::default() });
    let cluster = Cluster::start_with(config, &[n1.address, n2.address]).await;
    assert_eq!(status(&cluster.get().await), 200);
    assert_eq!(n2.seen().len(), 0);
    assert_eq!(status(&cluster.get().await), 200, "by the other node");
    assert_eq!(metric(&cluster, "shardcache_gateway_hedges_total{result=\"sent\"}").await, 0);
}

#[tokio::test]
async fn retries_end_with_the_budget() {
    const READS: usize = 150;
    let n1 = ScriptedNode::start(well(|_| Act::RawThenClose(""))).await;
    let config = policy(NodePolicy { retry_budget: 0, ..NodePolicy::default() });
    let cluster = Cluster::start_with(config, &[n1.address]).await;
    let began = Instant::now();
    for _ in 0..READS {
        let answer = cluster.get().await;
        assert!(status(&answer) == 503 && answer.contains("owner_unavailable"), "{answer}");
    }
    let most = 100 + 10 * (began.elapsed().as_secs() as usize + 1);
    let retried = n1.seen().len() - READS;
    assert!(retried <= most, "{retried} retries");
    let counted = metric(&cluster, "shardcache_gateway_retries_total").await;
    assert!(counted >= retried as u64 && counted <= most as u64, "{counted} counted, {retried} seen");
}

#[tokio::test]
async fn a_list_goes_to_any_node() {
    let nodes = [ScriptedNode::start(well(|_| FOUND)).await, ScriptedNode::start(well(|_| FOUND)).await];
    let cluster = Cluster::start(&[nodes[0].address, nodes[1].address]).await;
    let list = "GET /v1/entries HTTP/1.1\r\nhost: x\r\nx-user-id: u\r\nconnection: close\r\n\r\n";
    for _ in 0..40 {
        assert_eq!(status(&exchange(cluster.gateway, list).await), 200);
    }
    let [owner, other] = [nodes[0].seen().len(), nodes[1].seen().len()];
    assert!(owner + other == 40 && owner >= 5 && other >= 5, "{owner} and {other}");
}
