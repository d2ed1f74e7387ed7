//! Tests of who shares a statement, on a real node over SQLite, and of how long a read waits.

use std::sync::Arc;

use origin::OriginError;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::{AskedRead, Row};
use crate::interleavings::{fixture, name, put};
use crate::limits;
use crate::node::Node;
use crate::shared_trips::{Bounds, RoundTrip, SharedTrips};

async fn texts(node: &Arc<Node>, keys: &[&str]) -> Vec<Option<String>> {
    let mut texts = Vec::new();
    for asked in node.origin_reads.read_all(keys.iter().map(|key| name(key)).collect()) {
        let row = asked.row().await.expect("a read");
        texts.push(row.map(|entry| String::from_utf8(entry.value.to_vec()).expect("utf-8")));
    }
    texts
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_asked_for_at_once_share_a_statement_and_get_their_own_rows() {
    let fixture = fixture().await;
    let node = &fixture.node;
    node.write(put("a", "of a")).await.expect("write");
    node.write(put("b", "of b")).await.expect("write");
    let before = (node.metrics.origin_read_statements.get(), node.metrics.origin_reads.get());
    let found = texts(node, &["b", "missing", "a", "b"]).await;
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(found, [text("of b"), None, text("of a"), text("of b")]);
    let after = (node.metrics.origin_read_statements.get(), node.metrics.origin_reads.get());
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_sees_every_write_that_was_acknowledged_before_it_was_asked_for() {
    let fixture = fixture().await;
    let node = &fixture.node;
    // Others keep the statements busy, so that reads have to share.
    let busy = Arc::clone(node);
    let crowd = tokio::spawn(async move {
        for round in 0..200 {
            let others: Vec<String> = (0..8).map(|other| format!("{round}-{other}")).collect();
            texts(&busy, &others.iter().map(String::as_str).collect::<Vec<_>>()).await;
        }
    });
    for value in ["1", "2", "3", "4", "5", "6", "7", "8"] {
        node.write(put("k", value)).await.expect("write");
        assert_eq!(texts(node, &["k"]).await, [Some(value.to_owned())]);
    }
    crowd.await.expect("the crowd ends");
}

/// A database that never answers.
struct Silent;

impl RoundTrip for Silent {
    type Question = ();
    type Answer = Row;

    async fn make(&self, _: Vec<()>) -> Vec<Row> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn reads_asked_for_together_wait_together_though_they_are_looked_at_one_by_one() {
    let trips = SharedTrips::new(Silent, Bounds { trips: 1, questions: 8, waiting: 8 }, TaskTracker::new());
    let began = Instant::now();
    for asked in trips.ask_all([(); 8]).into_iter().map(AskedRead::begun).collect::<Vec<_>>() {
        assert_eq!(asked.row().await.err(), Some(OriginError::Timeout));
    }
    assert!(began.elapsed() < 2 * limits::ORIGIN_READ, "{:?}", began.elapsed());
}
