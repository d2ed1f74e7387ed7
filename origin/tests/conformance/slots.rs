//! The table read (protocol T1) and RENEW (protocol R3).

use std::collections::BTreeSet;

use origin::L2SpaceChange;
use placement::{Slot, Tenure};

use crate::fixture::{Fixture, node, slot};

crate::on_both!(
    a_node_without_a_ring_is_not_fenced,
    a_table_read_gives_all_slots_to_the_current_incarnation_only,
    a_renewal_needs_owner_and_exact_tenure,
    a_renewal_sets_keeps_or_clears_the_l2_space,
    a_batch_renews_what_it_can,
    renewals_of_overlapping_batches_do_not_deadlock,
);

async fn a_node_without_a_ring_is_not_fenced(f: &Fixture) {
    let (incarnation, _) = crate::fixture::claim(&f.origin, "n1", crate::fixture::TTL).await;
    assert_eq!(f.origin.read_slots(&node("n1"), incarnation).await, Ok(Some(vec![])));
    assert_eq!(f.origin.read_slots(&node("n9"), incarnation).await, Ok(None));
}

async fn a_table_read_gives_all_slots_to_the_current_incarnation_only(f: &Fixture) {
    let [first, second, _] = f.ring().await;
    let rows = f.origin.read_slots(&node("n2"), second).await.expect("a read").expect("not fenced");
    assert_eq!(rows.len(), 4096);
    assert!(rows.iter().all(|row| row.owner == node("n1") && row.l2_space.is_none()));
    assert!(rows.iter().map(|row| row.slot).eq(Slot::all()));
    assert_eq!(f.origin.read_slots(&node("n2"), placement::Incarnation(second.0 + 1)).await, Ok(None));
    assert!(f.origin.read_slots(&node("n1"), first).await.expect("a read").is_some());
}

async fn a_renewal_needs_owner_and_exact_tenure(f: &Fixture) {
    f.ring().await;
    let before = f.slot_row(7).await;
    let renew = async |name: &str, tenure: i64| {
        let slots = [(slot(7), Tenure(tenure))];
        f.origin.renew_tenure(&node(name), &slots, &L2SpaceChange::Keep).await.expect("an answer")
    };
    assert_eq!(renew("n2", before.tenure.0).await, []);
    assert_eq!(renew("n1", before.tenure.0 - 1).await, []);
    assert_eq!(renew("n1", before.tenure.0 + 1).await, []);
    assert_eq!(f.slot_row(7).await, before);
    let renewed = renew("n1", before.tenure.0).await;
    assert!(renewed[0].tenure > before.tenure && renewed[0].gained == before.gained);
    assert_eq!(renewed, [f.slot_row(7).await]);
    assert_eq!(renew("n1", before.tenure.0).await, [], "once only");
    assert!(f.renew(8, f.tenure(8).await).await[0].tenure > renewed[0].tenure);
}

async fn a_renewal_sets_keeps_or_clears_the_l2_space(f: &Fixture) {
    f.ring().await;
    let all = async || [(slot(7), f.tenure(7).await), (slot(8), f.tenure(8).await)];
    let new = L2SpaceChange::New { identity: "run/repl".to_owned() };
    let mut spaces = BTreeSet::new();
    for _ in 0..3 {
        for row in f.origin.renew_tenure(&node("n1"), &all().await, &new).await.expect("an answer") {
            let space = row.l2_space.expect("a space");
            assert!(space.starts_with("run/repl/"), "{space}");
            spaces.insert(space);
        }
    }
    assert_eq!(spaces.len(), 6, "never the same space twice");
    let had = f.slot_row(7).await.l2_space;
    let kept = f.origin.renew_tenure(&node("n1"), &all().await, &L2SpaceChange::Keep).await.expect("an answer");
    assert_eq!((kept.len(), &kept[0].l2_space), (2, &had));
    let cleared = f.origin.renew_tenure(&node("n1"), &all().await, &L2SpaceChange::Clear).await.expect("an answer");
    assert!(cleared.len() == 2 && cleared.iter().all(|row| row.l2_space.is_none()));
}

async fn a_batch_renews_what_it_can(f: &Fixture) {
    let [first, ..] = f.ring().await;
    let rows = f.origin.read_slots(&node("n1"), first).await.expect("a read").expect("not fenced");
    let batch: Vec<_> = rows
        .iter()
        .rev()
        .map(|row| (row.slot, if row.slot.number() % 2 == 0 { row.tenure } else { Tenure(row.tenure.0 + 1) }))
        .collect();
    let renewed = f.origin.renew_tenure(&node("n1"), &batch, &L2SpaceChange::Keep).await.expect("an answer");
    assert_eq!(renewed.len(), 2048);
    assert!(renewed.iter().all(|row| row.slot.number() % 2 == 0));
    assert!(renewed.iter().map(|row| row.tenure).collect::<BTreeSet<_>>().len() == 2048);
    assert_eq!(f.origin.renew_tenure(&node("n1"), &[], &L2SpaceChange::Keep).await, Ok(vec![]));
}

async fn renewals_of_overlapping_batches_do_not_deadlock(f: &Fixture) {
    let [first, ..] = f.ring().await;
    for _ in 0..5 {
        let rows = f.origin.read_slots(&node("n1"), first).await.expect("a read").expect("not fenced");
        let batch: Vec<_> = rows.iter().take(500).map(|row| (row.slot, row.tenure)).collect();
        let tasks: Vec<_> = (0..4)
            .map(|task| {
                let (origin, mut batch) = (f.origin.clone(), batch.clone());
                if task % 2 == 0 {
                    batch.reverse();
                }
                tokio::spawn(async move { origin.renew_tenure(&node("n1"), &batch, &L2SpaceChange::Keep).await })
            })
            .collect();
        let mut renewed = 0;
        for task in tasks {
            renewed += task.await.expect("a task").expect("no deadlock").len();
        }
        assert_eq!(renewed, 500, "each slot once");
    }
}
