//! Tests of several reads at once, on a real node over SQLite.

use std::sync::Arc;

use placement::freshness::Bypass;

use super::{ReadRefused, Source, begin_load_for_test};
use crate::entry_name::EntryName;
use crate::interleavings::{fixture, name, put};
use crate::node::Node;

fn names(count: usize) -> Vec<EntryName> {
    (0..count).map(|number| name(&format!("cold-{number}"))).collect()
}

fn statements(node: &Arc<Node>) -> u64 {
    node.metrics.origin_read_statements.get()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cold_keys_of_a_multi_get_are_read_by_one_statement() {
    let fixture = fixture().await;
    let node = &fixture.node;
    node.write(put("cold-7", "seven")).await.expect("write");
    node.l1.remove(&name("cold-7"));
    let before = statements(node);
    let reads = node.read_all(&names(256)).await.expect("read");
    assert_eq!(statements(node) - before, 1);
    let there: Vec<_> = reads.iter().enumerate().filter(|(_, read)| read.content.is_some()).map(|(at, _)| at).collect();
    assert_eq!(there, [7]);
    assert!(reads.iter().all(|read| read.source == Source::Origin { l2_asked: false, l2_stored: false }));
    // By now L1 has them all.
    let reads = node.read_all(&names(256)).await.expect("read");
    assert!(reads.iter().all(|read| read.source == Source::L1));
    assert_eq!(statements(node) - before, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detached_multi_get_is_one_statement() {
    let fixture = fixture().await;
    let before = statements(&fixture.node);
    let reads = fixture.node.read_all_direct(&names(256), Bypass::Detached).await.expect("read");
    assert!(reads.iter().all(|read| read.source == Source::Bypass(Bypass::Detached)));
    assert_eq!(statements(&fixture.node) - before, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_asked_for_twice_is_loaded_once() {
    let fixture = fixture().await;
    let node = &fixture.node;
    let before = node.metrics.origin_reads.get();
    let reads = node.read_all(&[name("k"), name("other"), name("k")]).await.expect("read");
    assert_eq!(reads.iter().map(|read| read.collapsed).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(node.metrics.origin_reads.get() - before, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_writer_only_its_own_key_passes_the_caches_by() {
    let fixture = fixture().await;
    let node = &fixture.node;
    let writer = node.register_for_test(&name("written"));
    let reads = node.read_all(&[name("a"), name("written"), name("b")]).await.expect("read");
    let direct = |source: Source| source == Source::Bypass(Bypass::WriterActive);
    assert_eq!(reads.iter().map(|read| direct(read.source)).collect::<Vec<_>>(), [false, true, false]);
    drop(writer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multi_get_that_is_dropped_leaves_loads_that_others_can_join_or_begin_again() {
    let fixture = fixture().await;
    let node = &fixture.node;
    node.write(put("cold-0", "v")).await.expect("write");
    node.l1.remove(&name("cold-0"));
    for _ in 0..50 {
        let asked = names(16);
        // Polled once, so that its loads have begun.
        let mut reading = std::pin::pin!(node.read_all(&asked));
        let _ = futures_util::poll!(reading.as_mut());
    }
    let read = node.read(&name("cold-0")).await.expect("read");
    assert_eq!(read.content.expect("there").value, "v");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multi_get_of_a_slot_that_is_another_nodes_is_refused_as_a_whole() {
    let fixture = fixture().await;
    let node = &fixture.node;
    let mut slot = node.slots.lock(name("a").slot);
    slot.hold = Default::default();
    drop(slot);
    let refused = node.read_all(&names(3)).await.map(|reads| reads.len());
    assert!(matches!(refused, Err(ReadRefused::NotOwner(_))), "{refused:?}");
}

#[tokio::test]
async fn a_load_outlives_the_request_that_began_it_and_those_who_joined_have_its_answer() {
    let fixture = fixture().await;
    let node = &fixture.node;
    let before = node.metrics.origin_reads.get();
    let joined = {
        let asked = name("cold");
        let mut leading = std::pin::pin!(node.read(&asked));
        assert!(futures_util::poll!(leading.as_mut()).is_pending());
        let (node, asked) = (Arc::clone(node), name("cold"));
        let mut joined = Box::pin(async move { node.read(&asked).await });
        assert!(futures_util::poll!(joined.as_mut()).is_pending());
        joined
    };
    let read = joined.await.expect("read");
    assert!(read.collapsed && read.content.is_none());
    assert_eq!(node.metrics.origin_reads.get() - before, 1);
}

#[tokio::test]
async fn a_load_that_is_dropped_without_an_end_has_those_who_joined_begin_again() {
    let fixture = fixture().await;
    let node = &fixture.node;
    let load = begin_load_for_test(node, &name("cold"));
    let (reader, asked) = (Arc::clone(node), name("cold"));
    let mut joined = Box::pin(async move { reader.read(&asked).await });
    assert!(futures_util::poll!(joined.as_mut()).is_pending());
    drop(load);
    assert!(!joined.await.expect("read").collapsed);
}
