//! The failure controller's post: taking, keeping and leaving it, and what a second one is told.

use std::time::Duration;

use origin::{Control, Term};

use crate::fixture::{Fixture, TTL, eventually};

crate::on_both!(
    the_first_controller_has_term_one,
    a_term_that_lasts_is_nobody_elses,
    a_term_that_is_over_is_taken_and_cannot_be_revived,
    a_released_post_is_free_at_once,
    of_many_controllers_at_once_one_wins,
);

/// Takes the post, which must be free.
async fn take(f: &Fixture, holder: &str, ttl: Duration) -> Term {
    match f.origin.take_control(holder, ttl).await {
        Ok(Control::Ours(term)) => term,
        other => panic!("not taken: {other:?}"),
    }
}

/// Holder, term and note as they stand.
async fn row(f: &Fixture) -> (String, Term, String) {
    let row = f.origin.controller().await.expect("a read").expect("a row");
    (row.holder, row.term, row.note)
}

async fn the_first_controller_has_term_one(f: &Fixture) {
    assert_eq!(f.origin.controller().await, Ok(None));
    assert_eq!(f.origin.keep_control(Term(1), TTL, "").await, Ok(false));
    assert_eq!(f.origin.release_control(Term(1)).await, Ok(false));
    assert_eq!(take(f, "a", TTL).await, Term(1));
    assert_eq!(row(f).await, ("a".to_owned(), Term(1), String::new()));
    let left = f.origin.controller().await.expect("a read").expect("a row").left_ms;
    assert!((50_000..=60_000).contains(&left), "{left}");
}

async fn a_term_that_lasts_is_nobody_elses(f: &Fixture) {
    let term = take(f, "a", TTL).await;
    let other = f.another();
    for holder in ["b", "a"] {
        match other.take_control(holder, TTL).await {
            Ok(Control::Held { by, left_ms }) => {
                assert_eq!(by, "a");
                assert!((50_000..=60_000).contains(&left_ms), "{left_ms}");
            }
            outcome => panic!("{outcome:?}"),
        }
    }
    for not_ours in [Term(term.0 - 1), Term(term.0 + 1)] {
        assert_eq!(other.keep_control(not_ours, TTL, "mine").await, Ok(false));
        assert_eq!(other.release_control(not_ours).await, Ok(false));
    }
    assert_eq!(f.origin.keep_control(term, 2 * TTL, "n3 is down").await, Ok(true));
    assert_eq!(row(f).await, ("a".to_owned(), term, "n3 is down".to_owned()));
    let left = f.origin.controller().await.expect("a read").expect("a row").left_ms;
    assert!((110_000..=120_000).contains(&left), "{left}");
}

async fn a_term_that_is_over_is_taken_and_cannot_be_revived(f: &Fixture) {
    let first = take(f, "a", Duration::from_millis(50)).await;
    eventually("the term is over", || async {
        f.origin.controller().await.expect("a read").expect("a row").left_ms == 0
    })
    .await;
    assert_eq!(f.origin.keep_control(first, TTL, "late").await, Ok(false));
    assert_eq!(row(f).await, ("a".to_owned(), first, String::new()));
    // The moment at which it ends belongs to nobody.
    let taken = || async { matches!(f.another().take_control("b", TTL).await, Ok(Control::Ours(Term(2)))) };
    eventually("another takes it", taken).await;
    assert_eq!(f.origin.keep_control(first, TTL, "late").await, Ok(false));
    assert_eq!(f.origin.release_control(first).await, Ok(false));
    assert_eq!(row(f).await, ("b".to_owned(), Term(2), String::new()));
}

async fn a_released_post_is_free_at_once(f: &Fixture) {
    let first = take(f, "a", TTL).await;
    assert_eq!(f.origin.keep_control(first, TTL, "busy").await, Ok(true));
    assert_eq!(f.origin.release_control(first).await, Ok(true));
    assert_eq!(f.origin.controller().await.expect("a read").expect("a row").left_ms, 0);
    assert_eq!(f.origin.keep_control(first, TTL, "busy").await, Ok(false), "it has ended");
    assert_eq!(take(f, "b", TTL).await, Term(first.0 + 1));
    assert_eq!(row(f).await, ("b".to_owned(), Term(first.0 + 1), String::new()));
}

async fn of_many_controllers_at_once_one_wins(f: &Fixture) {
    for round in 1..=3 {
        let tasks: Vec<_> = (0..6)
            .map(|number| {
                let origin = f.another();
                tokio::spawn(async move { origin.take_control(&format!("c{number}"), TTL).await })
            })
            .collect();
        let mut ours = Vec::new();
        let mut held_by = Vec::new();
        for task in tasks {
            match task.await.expect("a task").expect("an answer") {
                Control::Ours(term) => ours.push(term),
                Control::Held { by, .. } => held_by.push(by),
            }
        }
        assert_eq!((ours.as_slice(), held_by.len()), ([Term(round)].as_slice(), 5));
        let holder = row(f).await.0;
        assert!(held_by.iter().all(|by| *by == holder), "{held_by:?}, not {holder}");
        assert_eq!(f.origin.release_control(Term(round)).await, Ok(true));
    }
}
