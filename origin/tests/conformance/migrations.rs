//! Bringing the schema up to date, by many at once and against a held lock.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use origin::{OpenOptions, Origin, OriginError};
use tempfile::TempDir;
use tests::postgres::PostgresServer;

use crate::fixture::{Fixture, TTL, claim, eventually};

crate::on_both!(migrating_again_changes_nothing, a_closed_origin_refuses);

async fn migrating_again_changes_nothing(f: &Fixture) {
    f.ring().await;
    let before = f.origin.ring_digest().await;
    f.another().migrate().await.expect("nothing to do");
    assert_eq!(f.origin.ring_digest().await, before);
}

async fn a_closed_origin_refuses(f: &Fixture) {
    claim(&f.origin, "n1", TTL).await;
    f.origin.close().await;
    assert!(matches!(f.origin.nodes().await, Err(OriginError::Unreachable(_))));
    let renewed = f.origin.renew_lease(&crate::fixture::node("n1"), placement::Incarnation(1), TTL).await;
    assert!(matches!(renewed, Err(OriginError::Unreachable(_))), "{renewed:?}");
    assert_eq!(f.another().nodes().await.expect("a read").len(), 1);
}

/// What a thread has logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("a log")).into_owned()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("a log").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn six_migrate_at_once(url: String) {
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let url = url.parse().expect("a URL");
            tokio::spawn(async move {
                let origin = Origin::open(&url, OpenOptions::default())?;
                origin.migrate().await?;
                origin.ring_state().await
            })
        })
        .collect();
    for task in tasks {
        assert!(task.await.expect("a task").expect("a schema").is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_processes_may_migrate_postgres_at_once() {
    let server = PostgresServer::start().await.expect("a server");
    six_migrate_at_once(server.url()).await;
    assert_eq!(server.sql("SELECT version FROM schema_version").await.expect("rows"), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_processes_may_migrate_sqlite_at_once() {
    for _ in 0..5 {
        let directory = TempDir::new().expect("a directory");
        six_migrate_at_once(format!("sqlite://{}/new/origin.db", directory.path().display())).await;
    }
}

#[tokio::test]
async fn a_held_schema_lock_is_waited_for_and_not_for_ever() {
    let server = PostgresServer::start().await.expect("a server");
    let mut holder = server.session().await.expect("a session");
    holder.run("SELECT pg_advisory_lock(8316003855878021475)").await.expect("a lock");
    let origin = Origin::open(&server.url().parse().expect("a URL"), OpenOptions::default()).expect("an origin");
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let listening = tracing::subscriber::set_default(subscriber);
    let began = Instant::now();
    let told = eventually("a log line names the wait", || async { log.text().contains("schema lock") });
    let (outcome, told_after) = tokio::join!(origin.migrate(), async {
        told.await;
        began.elapsed()
    });
    drop(listening);
    assert!(told_after < Duration::from_secs(5), "{told_after:?}");
    assert!(log.text().contains("backend_pid="), "it names the holder: {}", log.text());
    assert!(matches!(&outcome, Err(OriginError::Schema(why)) if why.contains("schema lock")), "{outcome:?}");
    assert!((29..40).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    drop(holder);
    eventually("the lock is free", || async { origin.migrate().await.is_ok() }).await;
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let mut f = Fixture::postgres().await;
    f.postgres_server().sql("INSERT INTO schema_version (version) VALUES (2)").await.expect("a row");
    let outcome = f.origin.migrate().await;
    assert!(matches!(&outcome, Err(OriginError::Schema(why)) if why.contains("version 2")), "{outcome:?}");
}

#[tokio::test]
async fn without_a_schema_every_call_fails_cleanly() {
    let server = PostgresServer::start().await.expect("a server");
    let directory = TempDir::new().expect("a directory");
    for url in [server.url(), format!("sqlite://{}/none.db", directory.path().display())] {
        let origin = Origin::open(&url.parse().expect("a URL"), OpenOptions::default()).expect("an origin");
        let began = Instant::now();
        origin.nodes().await.expect_err("no schema");
        claim_error(&origin).await;
        assert!(began.elapsed() < Duration::from_secs(5));
    }
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0, "only migrate makes the file");
}

async fn claim_error(origin: &Origin) {
    let node = crate::fixture::node("n1");
    origin.claim_node(&node, "h:1", placement::Weight::default(), TTL).await.expect_err("no schema");
}
