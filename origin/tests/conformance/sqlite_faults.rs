//! SQLite with a lock held by another process, a full queue, callers that go away, and several writing processes.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::task::Poll;
use std::time::{Duration, Instant};

use origin::{DatabaseUrl, OriginError, WriteAnswer, WriteError};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Executor, SqliteConnection};

use crate::fixture::{Fixture, TTL, created, eventually, node, put};

/// Another process' connection to the file.
async fn stranger(f: &Fixture) -> SqliteConnection {
    let DatabaseUrl::Sqlite(path) = f.url() else { panic!("an SQLite fixture") };
    let url = format!("sqlite://{}", path.display());
    SqliteConnectOptions::from_str(&url).expect("a URL").connect().await.expect("a connection")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_write_lock_costs_a_bounded_wait_and_no_read() {
    let f = Fixture::sqlite().await;
    let [first, ..] = f.ring().await;
    let tenure = f.tenure(7).await;
    created(f.write(put(tenure, "a", "1")).await);
    let mut stranger = stranger(&f).await;
    stranger.execute("BEGIN IMMEDIATE").await.expect("the lock");
    let began = Instant::now();
    let outcome = f.write(put(tenure, "a", "2")).await;
    assert_eq!(outcome, Err(WriteError::NotExecuted(OriginError::Timeout)));
    assert_eq!(f.origin.renew_lease(&node("n1"), first, TTL).await, Err(OriginError::Timeout));
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(f.read("a").await.expect("an entry").0, "1");
    stranger.execute("COMMIT").await.expect("released");
    let version = f.read("a").await.expect("an entry").1;
    match f.write(put(tenure, "a", "3")).await {
        Ok(WriteAnswer::Replaced(next)) => assert!(next.0 > version),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_the_queue_writes_are_refused_at_once_and_none_lands_later() {
    let f = Fixture::sqlite().await;
    f.ring().await;
    let tenure = f.tenure(7).await;
    let mut stranger = stranger(&f).await;
    stranger.execute("BEGIN IMMEDIATE").await.expect("the lock");
    let tasks: Vec<_> = (0..1000)
        .map(|number| {
            let origin = f.origin.clone();
            tokio::spawn(async move {
                let began = Instant::now();
                let outcome = origin.write_entry(&put(tenure, &format!("k{number}"), "v")).await;
                (outcome, began.elapsed())
            })
        })
        .collect();
    eventually("writes wait", || async { f.origin.waiting() > 0 }).await;
    let mut at_once = 0;
    for task in tasks {
        let (outcome, took) = task.await.expect("a task");
        assert!(matches!(outcome, Err(WriteError::NotExecuted(_))), "{outcome:?}");
        at_once += usize::from(took < Duration::from_millis(300));
        assert!(took < Duration::from_secs(3), "{took:?}");
    }
    assert!(at_once > 300, "{at_once}");
    stranger.execute("COMMIT").await.expect("released");
    // Those taken back stay in the queue until the writer comes by.
    eventually("room in the queue", || async { f.write(put(tenure, "after", "v")).await.is_ok() }).await;
    assert_eq!(f.list("", None, 1000).await, ["after"]);
    assert_eq!(f.origin.waiting(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_caller_has_gone_still_completes() {
    let f = Fixture::sqlite().await;
    f.ring().await;
    let tenure = f.tenure(7).await;
    for number in 0..20 {
        let write = put(tenure, &format!("k{number}"), "v");
        let mut call = Box::pin(f.origin.write_entry(&write));
        std::future::poll_fn(|cx| {
            let _ = call.as_mut().poll(cx);
            Poll::Ready(())
        })
        .await;
        drop(call);
    }
    eventually("all landed", || async { f.list("k", None, 100).await.len() == 20 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_at_once_are_all_acknowledged_with_versions_of_their_own() {
    let f = Fixture::sqlite().await;
    f.ring().await;
    let tenure = f.tenure(7).await;
    let tasks: Vec<_> = (0..400)
        .map(|number| {
            let origin = f.origin.clone();
            tokio::spawn(async move { origin.write_entry(&put(tenure, &format!("k{number}"), "v")).await })
        })
        .collect();
    let mut versions = BTreeSet::new();
    for task in tasks {
        versions.insert(created(task.await.expect("a task")));
    }
    assert_eq!(versions.len(), 400);
    assert_eq!(f.list("", None, 1000).await.len(), 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_write_does_not_fail_the_others_of_its_group() {
    let f = Fixture::sqlite().await;
    f.ring().await;
    let tenure = f.tenure(7).await;
    let trap = "CREATE TRIGGER trap BEFORE INSERT ON entries WHEN NEW.key = 'bad' \
        BEGIN SELECT RAISE(ABORT, 'trap'); END";
    stranger(&f).await.execute(trap).await.expect("a trigger");
    let tasks: Vec<_> = (0..50)
        .map(|number| {
            let origin = f.origin.clone();
            let name = if number == 25 { "bad".to_owned() } else { format!("k{number}") };
            tokio::spawn(async move { (number, origin.write_entry(&put(tenure, &name, "v")).await) })
        })
        .collect();
    for task in tasks {
        let (number, outcome) = task.await.expect("a task");
        if number == 25 {
            assert!(matches!(outcome, Err(WriteError::NotExecuted(OriginError::Refused { .. }))), "{outcome:?}");
        } else {
            created(outcome);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_writer_does_not_starve_another_process() {
    let f = Fixture::sqlite().await;
    let [first, ..] = f.ring().await;
    let tenure = f.tenure(7).await;
    let flood: Vec<_> = (0..64)
        .map(|writer| {
            let origin = f.origin.clone();
            tokio::spawn(async move {
                for number in 0.. {
                    origin
                        .write_entry(&put(tenure, &format!("k{writer}-{}", number % 10), "v"))
                        .await
                        .expect("written");
                }
            })
        })
        .collect();
    let other = f.another();
    eventually("the flood has begun", || async { f.read("k63-0").await.is_some() }).await;
    let mut slowest = Duration::ZERO;
    for _ in 0..30 {
        let began = Instant::now();
        assert_eq!(other.renew_lease(&node("n1"), first, TTL).await, Ok(true));
        slowest = slowest.max(began.elapsed());
    }
    for writer in flood {
        writer.abort();
    }
    assert!(slowest < Duration::from_millis(900), "{slowest:?}");
}
