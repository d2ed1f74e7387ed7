//! The change journal: begin, seal, flip, abort, finish (protocol section 9).

use std::time::Duration;

use origin::{AbortOutcome, BeginOutcome, FlipOutcome, RingDigest, WriteAnswer};
use placement::{ChangeId, Epoch, Phase};

use crate::fixture::{Fixture, TTL, claim, eventually, member, moving, node, put, slot};

crate::on_both!(
    a_change_goes_from_copy_to_done_and_moves_exactly_its_slots,
    while_a_change_is_not_over_no_other_begins,
    of_many_begins_at_once_one_wins,
    a_stale_plan_is_refused,
    a_seal_is_recorded_once_and_in_copy_only,
    a_change_is_aborted_before_the_flip_only,
    a_flip_is_refused_when_a_tenure_moved,
    a_flip_is_refused_when_a_receiver_is_gone_or_another_process,
    a_flip_is_refused_when_the_seal_is_not_the_plan,
    a_flip_needs_a_sealed_change,
    a_change_that_moves_nothing_still_makes_an_epoch,
    a_flip_fences_the_old_owner,
    every_step_changes_the_digest,
    a_change_is_attended_for_as_long_as_somebody_says_so,
    an_ended_change_is_attended_by_nobody,
);

async fn a_change_goes_from_copy_to_done_and_moves_exactly_its_slots(f: &Fixture) {
    let incarnations = f.ring().await;
    let moved = [3, 7, 4095];
    let before = f.origin.ring_state().await.expect("a read").expect("a ring");
    let id = f.begin(&moved).await;
    let seal = f.seal_list(&moved, incarnations).await;
    assert_eq!(f.origin.record_seal(id, &seal).await, Ok(true));
    assert_eq!(f.origin.flip_change(id).await, Ok(FlipOutcome::Flipped { epoch: Epoch(2) }));

    let after = f.origin.ring_state().await.expect("a read").expect("a ring");
    let change = after.change.expect("an active change");
    assert_eq!((change.phase, &change.seal, change.to_epoch), (Phase::Flipped, &seal, Epoch(2)));
    for (old, new) in before.slots.iter().zip(&after.slots) {
        if moved.contains(&old.slot.number()) {
            assert_eq!(new.owner, node("n2"));
            assert!(new.tenure > old.tenure && new.gained > old.gained && new.gained.0 != new.tenure.0);
            assert_eq!(new.l2_space, old.l2_space);
            assert!(change.flip.contains(&(new.slot, new.tenure)));
        } else {
            assert_eq!(new, old);
        }
    }
    assert_eq!(change.flip.len(), 3);
    assert_eq!(after.members, [member("n1", 100), member("n2", 50)]);
    let epochs = f.origin.epochs(10).await.expect("a read");
    assert_eq!((epochs[0].epoch, epochs[0].change, epochs.len()), (Epoch(2), Some(id), 2));
    assert_eq!(f.origin.epochs(1).await.expect("a read").len(), 1);

    assert_eq!(f.origin.flip_change(id).await, Ok(FlipOutcome::NotSealed(Phase::Flipped)));
    assert_eq!(f.origin.finish_change(id).await, Ok(true));
    assert_eq!(f.origin.finish_change(id).await, Ok(false));
    let done = f.origin.change(id).await.expect("a read").expect("a change");
    assert_eq!((done.phase, done.reason.clone()), (Phase::Done, None));
    assert!(done.ended_ms >= Some(done.started_ms) && done.started_ms > 1_600_000_000_000);
    assert_eq!(f.origin.changes(10).await, Ok(vec![done]));
    assert_eq!(f.origin.active_change().await, Ok(None));
}

async fn while_a_change_is_not_over_no_other_begins(f: &Fixture) {
    let incarnations = f.ring().await;
    let id = f.begin(&[7]).await;
    let refused = async || match f.origin.begin_change(&moving(1, &[8])).await {
        Ok(BeginOutcome::Active(active)) => (active.id, active.phase, active.operator.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused().await, (id, Phase::Copy, "conformance".to_owned()));
    f.origin.record_seal(id, &f.seal_list(&[7], incarnations).await).await.expect("an answer");
    assert_eq!(refused().await.1, Phase::Sealed);
    f.origin.flip_change(id).await.expect("an answer");
    assert_eq!(refused().await.1, Phase::Flipped);
    f.origin.finish_change(id).await.expect("an answer");
    let next = f.origin.begin_change(&moving(2, &[8])).await;
    assert!(matches!(next, Ok(BeginOutcome::Begun(next)) if next > id), "{next:?}");
}

async fn of_many_begins_at_once_one_wins(f: &Fixture) {
    f.ring().await;
    let tasks: Vec<_> = (0..10)
        .map(|number| {
            let origin = f.another();
            tokio::spawn(async move { origin.begin_change(&moving(1, &[number])).await })
        })
        .collect();
    let mut begun = Vec::new();
    let mut active = Vec::new();
    for task in tasks {
        match task.await.expect("a task").expect("an answer") {
            BeginOutcome::Begun(id) => begun.push(id),
            BeginOutcome::Active(row) => active.push(row.id),
            BeginOutcome::StalePlan { epoch } => panic!("at {epoch}"),
        }
    }
    assert_eq!((begun.len(), active.len()), (1, 9));
    assert!(active.iter().all(|id| *id == begun[0]));
}

async fn a_stale_plan_is_refused(f: &Fixture) {
    let before_init = f.origin.begin_change(&moving(0, &[7])).await;
    assert_eq!(before_init, Ok(BeginOutcome::StalePlan { epoch: Epoch(0) }));
    f.ring().await;
    for epoch in [0, 2, 9] {
        let outcome = f.origin.begin_change(&moving(epoch, &[7])).await;
        assert_eq!(outcome, Ok(BeginOutcome::StalePlan { epoch: Epoch(1) }));
    }
    assert_eq!(f.origin.changes(10).await, Ok(vec![]));
}

async fn a_seal_is_recorded_once_and_in_copy_only(f: &Fixture) {
    let incarnations = f.ring().await;
    let id = f.begin(&[7]).await;
    let seal = f.seal_list(&[7], incarnations).await;
    assert_eq!(f.origin.record_seal(ChangeId(id.0 + 1), &seal).await, Ok(false));
    assert_eq!(f.origin.record_seal(id, &seal).await, Ok(true));
    assert_eq!(f.origin.record_seal(id, &[]).await, Ok(false));
    assert_eq!(f.origin.change(id).await.expect("a read").expect("a change").seal, seal);
}

async fn a_change_is_aborted_before_the_flip_only(f: &Fixture) {
    let incarnations = f.ring().await;
    assert_eq!(f.origin.abort_change(ChangeId(99), "why").await, Ok(AbortOutcome::Unknown));
    for sealed in [false, true] {
        let id = f.begin(&[7]).await;
        if sealed {
            f.origin.record_seal(id, &f.seal_list(&[7], incarnations).await).await.expect("an answer");
        }
        assert_eq!(f.origin.abort_change(id, "the operator's wish").await, Ok(AbortOutcome::Aborted));
        let again = f.origin.abort_change(id, "again").await;
        assert_eq!(again, Ok(AbortOutcome::NotAbortable(Phase::Aborted)));
        let row = f.origin.change(id).await.expect("a read").expect("a change");
        assert_eq!((row.phase, row.reason.as_deref()), (Phase::Aborted, Some("the operator's wish")));
        assert!(row.ended_ms.is_some());
        assert_eq!(f.origin.record_seal(id, &[]).await, Ok(false));
        assert_eq!(f.origin.flip_change(id).await, Ok(FlipOutcome::NotSealed(Phase::Aborted)));
        assert_eq!(f.origin.finish_change(id).await, Ok(false));
    }
    let id = f.begin(&[7]).await;
    f.origin.record_seal(id, &f.seal_list(&[7], incarnations).await).await.expect("an answer");
    f.origin.flip_change(id).await.expect("an answer");
    for phase in [Phase::Flipped, Phase::Done] {
        assert_eq!(f.origin.abort_change(id, "too late").await, Ok(AbortOutcome::NotAbortable(phase)));
        f.origin.finish_change(id).await.expect("an answer");
    }
}

/// Expects a refused flip that left the ring as it was and aborted the change for that reason.
async fn expect_refused(f: &Fixture, id: ChangeId, about: &str) {
    let before = f.origin.ring_state().await.expect("a read").expect("a ring");
    let outcome = f.origin.flip_change(id).await.expect("an answer");
    let FlipOutcome::Refused(reason) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains(about), "{reason}");
    let after = f.origin.ring_state().await.expect("a read").expect("a ring");
    assert_eq!((after.slots, after.members, after.digest.epoch), (before.slots, before.members, before.digest.epoch));
    let row = f.origin.change(id).await.expect("a read").expect("a change");
    assert_eq!((row.phase, row.reason, row.flip), (Phase::Aborted, Some(reason), vec![]));
}

async fn a_flip_is_refused_when_a_tenure_moved(f: &Fixture) {
    let incarnations = f.ring().await;
    let id = f.begin(&[7, 8]).await;
    f.origin.record_seal(id, &f.seal_list(&[7, 8], incarnations).await).await.expect("an answer");
    f.renew(8, f.tenure(8).await).await;
    expect_refused(f, id, "1 of 2 slots").await;
}

async fn a_flip_is_refused_when_a_receiver_is_gone_or_another_process(f: &Fixture) {
    let incarnations = f.ring().await;
    let id = f.begin(&[7]).await;
    f.origin.record_seal(id, &f.seal_list(&[7], incarnations).await).await.expect("an answer");
    f.origin.release_lease(&node("n2"), incarnations[1]).await.expect("an answer");
    expect_refused(f, id, "n2 has no lease").await;
    claim(&f.origin, "n2", TTL).await;
    let id = f.begin(&[7]).await;
    f.origin.record_seal(id, &f.seal_list(&[7], incarnations).await).await.expect("an answer");
    expect_refused(f, id, "n2 has restarted").await;
}

async fn a_flip_is_refused_when_the_seal_is_not_the_plan(f: &Fixture) {
    let incarnations = f.ring().await;
    for sealed in [&[7][..], &[7, 8, 9], &[7, 9], &[7, 7, 8]] {
        let id = f.begin(&[7, 8]).await;
        f.origin.record_seal(id, &f.seal_list(sealed, incarnations).await).await.expect("an answer");
        expect_refused(f, id, "not the list of planned moves").await;
    }
}

async fn a_flip_needs_a_sealed_change(f: &Fixture) {
    f.ring().await;
    let id = f.begin(&[7]).await;
    assert_eq!(f.origin.flip_change(id).await, Ok(FlipOutcome::NotSealed(Phase::Copy)));
    assert!(f.origin.flip_change(ChangeId(99)).await.is_err());
    assert_eq!(f.origin.change(id).await.expect("a read").expect("a change").phase, Phase::Copy);
}

async fn a_change_that_moves_nothing_still_makes_an_epoch(f: &Fixture) {
    f.ring().await;
    let id = f.begin(&[]).await;
    assert_eq!(f.origin.record_seal(id, &[]).await, Ok(true));
    assert_eq!(f.origin.flip_change(id).await, Ok(FlipOutcome::Flipped { epoch: Epoch(2) }));
    assert_eq!(f.origin.epoch().await, Ok(Epoch(2)));
}

async fn a_flip_fences_the_old_owner(f: &Fixture) {
    let incarnations = f.ring().await;
    let old = f.tenure(7).await;
    let id = f.begin(&[7]).await;
    f.origin.record_seal(id, &f.seal_list(&[7], incarnations).await).await.expect("an answer");
    f.origin.flip_change(id).await.expect("an answer");
    assert_eq!(f.write(put(old, "a", "1")).await, Ok(WriteAnswer::Fenced));
    assert_eq!(f.renew(7, old).await, []);
    assert_eq!(f.origin.change(id).await.expect("a read").expect("a change").flip, [(slot(7), f.tenure(7).await)]);
}

async fn every_step_changes_the_digest(f: &Fixture) {
    let mut seen: Vec<RingDigest> = Vec::new();
    let mut look = async || {
        let digest = f.origin.ring_digest().await.expect("a digest");
        assert!(!seen.contains(&digest), "{digest:?} again");
        seen.push(digest);
    };
    look().await;
    let incarnations = f.ring().await;
    look().await;
    let id = f.begin(&[7]).await;
    look().await;
    f.origin.abort_change(id, "why").await.expect("an answer");
    look().await;
    let id = f.begin(&[7]).await;
    look().await;
    f.origin.record_seal(id, &f.seal_list(&[7], incarnations).await).await.expect("an answer");
    look().await;
    f.origin.flip_change(id).await.expect("an answer");
    look().await;
    f.origin.finish_change(id).await.expect("an answer");
    look().await;
    claim(&f.origin, "n4", TTL).await;
    look().await;
    f.origin.release_lease(&node("n1"), incarnations[0]).await.expect("an answer");
    claim(&f.origin, "n1", TTL).await;
    look().await;
}

async fn a_change_is_attended_for_as_long_as_somebody_says_so(f: &Fixture) {
    f.ring().await;
    let id = f.begin(&[7]).await;
    let look = async || {
        let row = f.origin.change(id).await.expect("a read").expect("a change");
        (row.attended, row.operator)
    };
    assert_eq!(look().await, (true, "conformance".to_owned()), "whoever begins it has a little time");
    assert_eq!(f.origin.attend_change(id, "another", Duration::from_millis(50)).await, Ok(true));
    eventually("its time is over", || async { look().await == (false, "another".to_owned()) }).await;
    assert!(!f.origin.active_change().await.expect("a read").expect("a change").attended);
    assert_eq!(f.origin.attend_change(id, "a third", TTL).await, Ok(true));
    assert_eq!(look().await, (true, "a third".to_owned()));
    assert!(f.origin.ring_state().await.expect("a read").expect("a ring").change.expect("a change").attended);
    assert_eq!(f.origin.attend_change(ChangeId(id.0 + 1), "a third", TTL).await, Ok(false));
}

async fn an_ended_change_is_attended_by_nobody(f: &Fixture) {
    let incarnations = f.ring().await;
    let aborted = f.begin(&[7]).await;
    f.origin.abort_change(aborted, "why").await.expect("an answer");
    let done = f.begin(&[7]).await;
    assert_eq!(f.origin.attend_change(done, "conformance", TTL).await, Ok(true));
    f.origin.record_seal(done, &f.seal_list(&[7], incarnations).await).await.expect("an answer");
    assert_eq!(f.origin.attend_change(done, "conformance", TTL).await, Ok(true));
    f.origin.flip_change(done).await.expect("an answer");
    assert_eq!(f.origin.attend_change(done, "conformance", TTL).await, Ok(true));
    f.origin.finish_change(done).await.expect("an answer");
    for id in [aborted, done] {
        assert_eq!(f.origin.attend_change(id, "late", TTL).await, Ok(false));
        let row = f.origin.change(id).await.expect("a read").expect("a change");
        assert_eq!((row.attended, row.operator.as_str()), (false, "conformance"));
    }
}
