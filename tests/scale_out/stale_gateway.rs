//! The race itself, step by step: a gateway with an old ring, an old owner with old values, and a newer write (C10).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use reqwest::Method;
use tests::http::answered;

use crate::support::{Door, add_standby, cluster, done, each, users};

/// How long a request through a gateway that has just woken up may take (C10).
const ANSWER_BOUND: Duration = Duration::from_secs(2);
const NODE_EPOCH: &str = "X-Ring-Epoch";

#[tokio::test]
async fn a_gateway_and_an_old_owner_that_missed_the_change_never_return_the_old_value() {
    let mut cluster = cluster(2).await;
    add_standby(&mut cluster, "n4", &[]).await;
    let (fresh, stale) = (Door::of(&cluster, 0), Door::of(&cluster, 1));
    let all = users(500);
    fresh.put_all(&all, "old").await;
    // Into the old owners' L1, by the way that will be stale.
    stale.read_all(&all, "old").await;
    let before = stale.owners(&all).await;
    let misdirected = stale.counted("shardcache_gateway_hop_events_total{event=\"misdirected\"}").await;

    cluster.gateways[1].process.pause();
    done(&cluster, &["add-node", "n4"]).await;
    fresh.follows(2).await;
    let after = fresh.owners(&all).await;
    let moved: Vec<_> = all.iter().filter(|user| after[*user] == "n4").cloned().collect();
    assert!(moved.len() > 60, "{} of {} users moved", moved.len(), all.len());
    fresh.put_all(&moved, "new").await;

    // The reads are on their way before it wakes up, so that the first of them meet its old ring.
    let asked = moved.iter().map(|user| (user.clone(), Door::new(&cluster.nodes[&before[user]].url()))).collect();
    let (answers, woken) = tokio::join!(stale.read_all(&moved, "new"), async {
        ask_old_owners(asked).await;
        cluster.gateways[1].process.resume();
        Instant::now()
    });
    for answer in answers {
        assert_eq!((answer.header("X-Cache-Node"), answer.header(NODE_EPOCH)), ("n4", "2"), "{answer:?}");
    }
    let took = woken.elapsed();
    assert!(took < ANSWER_BOUND, "all reads after {took:?}");
    stale.follows(2).await;

    // One hop more for each at most, and none of them by way of the origin.
    let extra = stale.counted("shardcache_gateway_hop_events_total{event=\"misdirected\"}").await - misdirected;
    println!("{} users moved; {extra} of the reads met a 421; all answered after {took:?}", moved.len());
    assert!(extra <= moved.len() as u64, "{extra}");
    assert_eq!(stale.counted("shardcache_gateway_hop_events_total{event=\"detached\"}").await, 0);

    // The same for writes: the gateways agree on whatever came last.
    stale.put_all(&moved, "newer").await;
    fresh.read_all(&moved, "newer").await;
}

/// As a gateway with the ring of epoch 1 would: the old owner answers neither read nor write.
async fn ask_old_owners(asked: BTreeMap<String, Door>) {
    let names: Vec<String> = asked.keys().cloned().collect();
    let answers = each(&names, async |user| {
        let ask = |method| asked[user].request(method, user, "/v1/entries/k").header(NODE_EPOCH, "1");
        [answered(ask(Method::GET)).await, answered(ask(Method::PUT).body("lost")).await]
    });
    for answer in answers.await.into_iter().flatten() {
        assert_eq!((answer.status, answer.header(NODE_EPOCH)), (421, "2"), "{answer:?}");
    }
}
