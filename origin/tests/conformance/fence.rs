//! The fence (protocol I1): a write commits only under the tenure it carries.

use bytes::Bytes;
use origin::{Precondition, WriteAnswer};
use placement::Tenure;

use crate::fixture::{Fixture, created, delete, only, put, replaced};

crate::on_both!(
    a_write_of_an_older_tenure_is_fenced,
    the_fence_is_told_before_the_precondition,
    a_fenced_write_does_not_fail_its_neighbours,
    no_write_of_the_old_tenure_commits_once_a_renewal_has,
);

async fn a_write_of_an_older_tenure_is_fenced(f: &Fixture) {
    f.ring().await;
    let old = f.tenure(7).await;
    created(f.write(put(old, "a", "1")).await);
    let renewed = f.renew(7, old).await;
    assert!(renewed[0].tenure > old);
    assert_eq!(f.write(put(old, "a", "2")).await, Ok(WriteAnswer::Fenced));
    assert_eq!(f.write(put(old, "new", "2")).await, Ok(WriteAnswer::Fenced));
    assert_eq!(f.write(delete(old, "a")).await, Ok(WriteAnswer::Fenced));
    assert_eq!(f.write(put(Tenure(renewed[0].tenure.0 + 1), "a", "2")).await, Ok(WriteAnswer::Fenced));
    assert_eq!(f.read("a").await.expect("an entry").0, "1");
    assert_eq!(f.read("new").await, None);
    replaced(f.write(put(renewed[0].tenure, "a", "3")).await);
}

async fn the_fence_is_told_before_the_precondition(f: &Fixture) {
    f.ring().await;
    let old = f.tenure(7).await;
    created(f.write(put(old, "a", "1")).await);
    f.renew(7, old).await;
    for precondition in [Precondition::IfAbsent, Precondition::IfMatch(vec![]), Precondition::IfExists] {
        for write in [put(old, "a", "2"), put(old, "b", "2"), delete(old, "a"), delete(old, "b")] {
            assert_eq!(f.write(only(precondition.clone(), write)).await, Ok(WriteAnswer::Fenced));
        }
    }
}

async fn a_fenced_write_does_not_fail_its_neighbours(f: &Fixture) {
    f.ring().await;
    let tenure = f.tenure(7).await;
    let tasks: Vec<_> = (0..100)
        .map(|number| {
            let origin = f.origin.clone();
            let carried = if number % 3 == 0 { Tenure(tenure.0 + 1_000_000) } else { tenure };
            let write = put(carried, &format!("k{number}"), "v");
            tokio::spawn(async move { origin.write_entry(&write).await })
        })
        .collect();
    for (number, task) in tasks.into_iter().enumerate() {
        match task.await.expect("a task") {
            Ok(WriteAnswer::Fenced) => assert!(number % 3 == 0),
            answer => assert!(number % 3 != 0 && created(answer) > 0),
        }
    }
}

async fn no_write_of_the_old_tenure_commits_once_a_renewal_has(f: &Fixture) {
    f.ring().await;
    let mut tenure = f.tenure(7).await;
    for round in 0..20 {
        let name = format!("k{}", round % 3);
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let origin = f.origin.clone();
                let write = put(tenure, &name, &format!("old {round} {writer}"));
                tokio::spawn(async move { origin.write_entry(&write).await })
            })
            .collect();
        tenure = f.renew(7, tenure).await[0].tenure;
        let seen = f.read(&name).await;
        for writer in writers {
            writer.await.expect("a task").expect("an answer");
        }
        assert_eq!(f.read(&name).await, seen, "a write of the old tenure landed after the renewal");
        f.write(put(tenure, &name, "new")).await.expect("an answer");
        assert_eq!(f.read(&name).await.expect("an entry").0, Bytes::from("new"));
    }
}
