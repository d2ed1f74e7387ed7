//! Users with a slot of their own: what the flip that pins one changes, and whom it fences.

use origin::{BeginOutcome, FencedWrite, FlipOutcome, NewChange, WriteAnswer};
use placement::ring::SlotMove;
use placement::{ChangeId, PinnedUser, Pool, Slot};

use crate::fixture::{Fixture, moving, node, put, user};

crate::on_both!(
    a_user_gets_a_slot_of_its_own_and_its_home_another_tenure,
    a_statement_under_the_home_slots_old_tenure_is_fenced_by_the_flip,
    a_renewal_after_the_seal_refuses_the_flip_and_pins_nobody,
    a_pinned_slot_moves_like_any_other_and_keeps_its_pool_unless_told_another,
    a_user_that_leaves_moves_alone_and_to_a_free_slot,
    rows_of_a_restart_and_of_a_renewal_name_the_pinned_users_too,
);

fn home() -> Slot {
    Slot::of_user(&user())
}

fn pinned() -> PinnedUser {
    PinnedUser { slot: Slot::pinned(0).expect("a place"), user: user() }
}

fn vip() -> Pool {
    "vip".parse().expect("a pool")
}

/// The user leaves its home at n1 for a slot of its own at n2.
fn leaving() -> SlotMove {
    SlotMove { leaves: Some(pinned()), pool: Some(vip()), ..SlotMove::new(home(), node("n1"), node("n2")) }
}

async fn sealed(f: &Fixture, moves: Vec<SlotMove>, epoch: u64) -> ChangeId {
    let incarnations = f.origin.nodes().await.expect("a read");
    let of = |name: &str| incarnations.iter().find(|row| row.id == node(name)).expect("a node").incarnation;
    let slots: Vec<u16> = moves.iter().map(|moving| moving.slot.number()).collect();
    let mut seal = f.seal_list(&slots, [of("n1"), of("n2"), of("n3")]).await;
    for (line, moving) in seal.iter_mut().zip(&moves) {
        (line.owner, line.receiver) = (moving.from.clone(), moving.to.clone());
        line.receiver_incarnation = of(moving.to.as_str());
    }
    let change = NewChange { moves, ..moving(epoch, &[]) };
    let BeginOutcome::Begun(id) = f.origin.begin_change(&change).await.expect("an answer") else { panic!("not begun") };
    assert_eq!(f.origin.record_seal(id, &seal).await, Ok(true));
    id
}

async fn flipped(f: &Fixture, moves: Vec<SlotMove>, epoch: u64) -> ChangeId {
    let id = sealed(f, moves, epoch).await;
    let outcome = f.origin.flip_change(id).await;
    assert!(matches!(outcome, Ok(FlipOutcome::Flipped { .. })), "{outcome:?}");
    id
}

async fn pinned_at_n2(f: &Fixture) -> ChangeId {
    f.ring().await;
    flipped(f, vec![leaving()], 1).await
}

async fn a_user_gets_a_slot_of_its_own_and_its_home_another_tenure(f: &Fixture) {
    f.ring().await;
    let before = f.origin.ring_state().await.expect("a read").expect("a ring");
    let id = flipped(f, vec![leaving()], 1).await;
    let after = f.origin.ring_state().await.expect("a read").expect("a ring");
    let (old, new) = (&before.slots[home().index()], &after.slots[home().index()]);
    assert!(new.tenure > old.tenure);
    assert_eq!((&new.owner, new.gained, &new.l2_space), (&old.owner, old.gained, &old.l2_space));
    assert_eq!(new.pinned.iter().cloned().collect::<Vec<_>>(), [pinned()]);
    let own = after.slots.last().expect("rows");
    assert_eq!((own.slot, &own.owner, &own.l2_space, &own.pool), (pinned().slot, &node("n2"), &None, &Some(vip())));
    assert!(own.gained.0 > old.gained.0 && own.gained.0 != own.tenure.0);
    let change = f.origin.change(id).await.expect("a read").expect("a change");
    assert_eq!(change.flip, [(home(), new.tenure), (own.slot, own.tenure)]);
    assert_eq!(change.moves, [leaving()]);
    assert_eq!(after.pinned(), [(pinned(), node("n2"))]);
    let others = before.slots.iter().zip(&after.slots).filter(|(old, _)| old.slot != home());
    assert!(others.into_iter().all(|(old, new)| old == new));
    assert_ne!(before.digest, after.digest);
}

async fn a_statement_under_the_home_slots_old_tenure_is_fenced_by_the_flip(f: &Fixture) {
    f.ring().await;
    let old = f.tenure(home().number()).await;
    flipped(f, vec![leaving()], 1).await;
    let late = f.write(FencedWrite { slot: home(), ..put(old, "k", "late") }).await;
    assert_eq!(late, Ok(WriteAnswer::Fenced));
    let now = f.tenure(pinned().slot.number()).await;
    let write = f.write(FencedWrite { slot: pinned().slot, ..put(now, "k", "own") }).await;
    assert!(matches!(write, Ok(WriteAnswer::Created { .. })), "{write:?}");
}

async fn a_renewal_after_the_seal_refuses_the_flip_and_pins_nobody(f: &Fixture) {
    f.ring().await;
    let id = sealed(f, vec![leaving()], 1).await;
    f.renew(home().number(), f.tenure(home().number()).await).await;
    assert!(matches!(f.origin.flip_change(id).await, Ok(FlipOutcome::Refused(_))));
    let state = f.origin.ring_state().await.expect("a read").expect("a ring");
    assert_eq!((state.pinned(), state.slots.len()), (Vec::new(), placement::SLOT_COUNT));
}

async fn a_pinned_slot_moves_like_any_other_and_keeps_its_pool_unless_told_another(f: &Fixture) {
    let first = pinned_at_n2(f).await;
    assert_eq!(f.origin.finish_change(first).await, Ok(true));
    let own = pinned().slot;
    let second = flipped(f, vec![SlotMove::new(own, node("n2"), node("n3"))], 2).await;
    assert_eq!(f.origin.finish_change(second).await, Ok(true));
    let row = f.slot_row(own.number()).await;
    assert_eq!((row.owner, row.pool), (node("n3"), Some(vip())));
    let back = SlotMove { pool: Some(Pool::default()), ..SlotMove::new(own, node("n3"), node("n1")) };
    flipped(f, vec![back], 3).await;
    let row = f.slot_row(own.number()).await;
    assert_eq!((row.owner, row.pool), (node("n1"), Some(Pool::default())));
    assert_eq!(f.slot_row(home().number()).await.pinned.slot_of(user().as_str()), Some(own), "once pinned, for ever");
}

async fn a_user_that_leaves_moves_alone_and_to_a_free_slot(f: &Fixture) {
    f.ring().await;
    let beside = SlotMove::new(Slot::all().find(|slot| *slot != home()).expect("slots"), node("n1"), node("n2"));
    let id = sealed(f, vec![leaving(), beside], 1).await;
    assert!(matches!(f.origin.flip_change(id).await, Ok(FlipOutcome::Refused(_))));
    let id = flipped(f, vec![leaving()], 1).await;
    assert_eq!(f.origin.finish_change(id).await, Ok(true));
    let again = sealed(f, vec![leaving()], 2).await;
    assert!(matches!(f.origin.flip_change(again).await, Ok(FlipOutcome::Refused(_))), "the slot is taken");
}

async fn rows_of_a_restart_and_of_a_renewal_name_the_pinned_users_too(f: &Fixture) {
    pinned_at_n2(f).await;
    let tenure = f.tenure(home().number()).await;
    let renewed = f.renew(home().number(), tenure).await;
    assert_eq!(renewed[0].pinned.slot_of(user().as_str()), Some(pinned().slot));
    let row = f.origin.nodes().await.expect("a read").into_iter().find(|row| row.id == node("n1")).expect("n1");
    let read = f.origin.read_slots(&node("n1"), row.incarnation).await.expect("a read").expect("not fenced");
    assert_eq!(read[home().index()].pinned, renewed[0].pinned);
    f.origin.release_lease(&node("n1"), row.incarnation).await.expect("released");
    let (_, regained) = crate::fixture::claim(&f.origin, "n1", crate::fixture::TTL).await;
    assert_eq!(regained[home().index()].pinned, renewed[0].pinned);
}
