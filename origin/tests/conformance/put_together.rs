//! Several writes in one statement of Postgres: each under its own fence, none waiting for the slot of another.

use bytes::Bytes;
use origin::{FencedWrite, Origin, Precondition, WriteAnswer, WriteError, WriteKind};
use placement::{Tenure, UserId};
use wire::entries::Version;

use crate::fixture::{Fixture, created, delete, node, only, put, slot};
use crate::postgres_faults::until_waiting;

async fn together(origin: &Origin, writes: &[FencedWrite]) -> Result<Vec<Option<WriteAnswer>>, WriteError> {
    origin.put_together(&writes.iter().collect::<Vec<_>>()).await
}

/// Alice's PUT as if her slot were this one.
fn through(number: u16, tenure: Tenure, name: &str, value: &str) -> FencedWrite {
    FencedWrite { slot: slot(number), ..put(tenure, name, value) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_together_is_there_as_if_written_one_by_one() {
    let f = Fixture::postgres().await;
    f.ring().await;
    let tenure = f.tenure(7).await;
    let before = created(f.write(put(tenure, "old", "1")).await);
    let mut with_header = put(tenure, "new", "n");
    if let WriteKind::Put { cache_control, .. } = &mut with_header.kind {
        *cache_control = Some("max-age=5".to_owned());
    }
    let bob = UserId::parse(b"bob").expect("a user");
    let of_bob = FencedWrite { user: bob.clone(), ..put(tenure, "old", "bob's") };
    let answers = together(&f.origin, &[put(tenure, "old", "2"), with_header, of_bob]).await.expect("answers");
    let [Some(WriteAnswer::Replaced(old)), Some(WriteAnswer::Created(new)), Some(WriteAnswer::Created(bobs))] =
        answers[..]
    else {
        panic!("{answers:?}");
    };
    assert!(old.0 > before && new.0 > before && bobs.0 > before);
    assert_eq!(f.read("old").await, Some((Bytes::from("2"), old.0)));
    let entry = f.origin.read_entry(&crate::fixture::user(), &crate::fixture::key("new")).await.expect("a read");
    let entry = entry.expect("an entry");
    assert_eq!((entry.version, entry.cache_control.as_deref()), (new, Some("max-age=5")));
    let entry = f.origin.read_entry(&bob, &crate::fixture::key("old")).await.expect("a read").expect("an entry");
    assert_eq!((entry.version, &entry.value[..]), (bobs, &b"bob's"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_write_has_a_fence_of_its_own() {
    let f = Fixture::postgres().await;
    f.ring().await;
    let (seven, eight) = (f.tenure(7).await, f.tenure(8).await);
    f.renew(8, eight).await;
    let writes = [
        through(7, seven, "a", "1"),
        through(8, eight, "b", "1"),
        through(7, Tenure(seven.0 + 1_000_000), "c", "1"),
        // The tenure of another slot is not its own.
        through(8, seven, "d", "1"),
        through(7, seven, "e", "1"),
    ];
    let answers = together(&f.origin, &writes).await.expect("answers");
    let done: Vec<_> = answers.iter().map(Option::is_some).collect();
    assert_eq!(done, [true, false, false, false, true]);
    assert_eq!(f.list("", None, 10).await, ["a", "e"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_whose_tenure_is_being_changed_holds_up_no_write_of_another() {
    let mut f = Fixture::postgres().await;
    f.ring().await;
    let (seven, eight) = (f.tenure(7).await, f.tenure(8).await);
    let mut changer = f.postgres_server().session().await.expect("a session");
    changer.run("BEGIN; UPDATE slots SET tenure = nextval('tenure_seq') WHERE slot = 7").await.expect("an update");
    let writes = [through(7, seven, "a", "1"), through(8, eight, "b", "1")];
    let answers = together(&f.origin, &writes).await.expect("answers");
    assert!(answers[0].is_none() && matches!(answers[1], Some(WriteAnswer::Created(_))), "{answers:?}");
    assert_eq!(f.list("", None, 10).await, ["b"]);
    changer.run("COMMIT").await.expect("committed");
    assert_eq!(together(&f.origin, &writes[..1]).await, Ok(vec![None]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_waits_for_what_is_written_together_and_fences_what_comes_after() {
    let mut f = Fixture::postgres().await;
    f.ring().await;
    let tenure = f.tenure(7).await;
    created(f.write(put(tenure, "a", "1")).await);
    let mut holder = f.postgres_server().session().await.expect("a session");
    holder.run("BEGIN; SELECT 1 FROM entries WHERE key = 'a' FOR UPDATE").await.expect("a row lock");
    let origin = f.origin.clone();
    let writes = [put(tenure, "a", "2"), put(tenure, "b", "2")];
    let again = writes.clone();
    let writer = tokio::spawn(async move { together(&origin, &writes).await });
    until_waiting(&mut f, 1).await;
    let origin = f.origin.clone();
    let keep = origin::L2SpaceChange::Keep;
    let renewal = tokio::spawn(async move { origin.renew_tenure(&node("n1"), &[(slot(7), tenure)], &keep).await });
    until_waiting(&mut f, 2).await;
    assert_eq!(f.tenure(7).await, tenure, "the renewal has not committed");
    holder.run("COMMIT").await.expect("released");
    let answers = writer.await.expect("a task").expect("answers");
    assert!(matches!(answers[..], [Some(WriteAnswer::Replaced(_)), Some(WriteAnswer::Created(_))]), "{answers:?}");
    assert!(renewal.await.expect("a task").expect("an answer")[0].tenure > tenure);
    assert_eq!(together(&f.origin, &again).await, Ok(vec![None, None]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_of_the_old_tenure_is_written_together_once_a_renewal_has_committed() {
    let f = Fixture::postgres().await;
    f.ring().await;
    let mut tenure = f.tenure(7).await;
    for round in 0..40 {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let origin = f.origin.clone();
                let writes =
                    ["x", "y", "z"].map(|name| put(tenure, &format!("{name}{writer}"), &format!("old {round}")));
                tokio::spawn(async move { together(&origin, &writes).await })
            })
            .collect();
        tenure = f.renew(7, tenure).await[0].tenure;
        let seen = f.list("", None, 100).await;
        let mut values = Vec::new();
        for name in &seen {
            values.push(f.read(name).await);
        }
        for writer in writers {
            writer.await.expect("a task").expect("answers");
        }
        assert_eq!(f.list("", None, 100).await, seen, "round {round}");
        for (name, value) in seen.iter().zip(values) {
            assert_eq!(f.read(name).await, value, "a write of the old tenure landed after the renewal");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_plain_small_puts_may_be_written_together() {
    let f = Fixture::postgres().await;
    let of_size = |bytes: usize| {
        let kind = WriteKind::Put { value: vec![0; bytes].into(), content_type: String::new(), cache_control: None };
        FencedWrite { kind, ..put(Tenure(1), "a", "") }
    };
    assert!(f.origin.may_put_together(&of_size(4096)));
    let conditional = only(Precondition::IfMatch(vec![Version(1)]), of_size(1));
    for other in [of_size(1 << 20), delete(Tenure(1), "a"), conditional] {
        assert!(!f.origin.may_put_together(&other), "{other:?}");
    }
    assert!(!Fixture::sqlite().await.origin.may_put_together(&of_size(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_refused_fails_all_of_a_statement_and_says_that_none_was_executed() {
    let mut f = Fixture::postgres().await;
    f.ring().await;
    let tenure = f.tenure(7).await;
    f.postgres_server().sql("ALTER TABLE entries ADD CHECK (key <> 'bad')").await.expect("a check");
    let outcome = together(&f.origin, &[put(tenure, "good", "1"), put(tenure, "bad", "1")]).await;
    assert!(matches!(&outcome, Err(WriteError::NotExecuted(error)) if error.may_be_of_one_row()), "{outcome:?}");
    assert_eq!(f.read("good").await, None);
}
