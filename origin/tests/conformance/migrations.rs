//! Bringing the schema up to date, by many at once and against a held lock.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use origin::{Control, OpenOptions, Origin, OriginError, Term};
use placement::{Epoch, Phase};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor};
use tempfile::TempDir;
use tests::postgres::PostgresServer;

use crate::fixture::{Fixture, TTL, claim, eventually, key, node, slot, user};

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
    assert_eq!(server.sql("SELECT version FROM schema_version ORDER BY 1").await.expect("rows"), "1\n2\n3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_processes_may_migrate_sqlite_at_once() {
    for _ in 0..5 {
        let directory = TempDir::new().expect("a directory");
        six_migrate_at_once(format!("sqlite://{}/new/origin.db", directory.path().display())).await;
    }
}

/// What a program that knew the first version only may have left, in the words that both databases understand.
const OLD_ROWS: &str = "
INSERT INTO nodes (id, addr, weight, incarnation, lease_until) VALUES ('n1', 'n1:8081', 100, 7, LEASE_UNTIL);
INSERT INTO entries (usr, key, value, content_type, cache_control, version, updated_ms)
    VALUES ('alice', 'a', OLD_VALUE, 'text/plain', NULL, 12, 1700000000000);
INSERT INTO ring_changes (action, from_epoch, to_epoch, members, moves, phase, operator, started_ms)
    VALUES ('add-node n1', 1, 2, '[]', '[]', 'copy', 'old', 1700000000000);
INSERT INTO ring_epochs (epoch, members, change_id, created_ms)
    VALUES (1, '[{\"id\":\"n1\",\"weight\":100}]', NULL, 1700000000000);
INSERT INTO slots (slot, owner, tenure, gained, l2space)
    WITH RECURSIVE n (slot) AS (SELECT 0 UNION ALL SELECT slot + 1 FROM n WHERE slot < 4095)
    SELECT slot, 'n1', slot + 1, slot + 1, 'run/replid/1' FROM n;
";

/// The schema of version 1 and the rows, as one script.
fn old_database(first: &str, version_table: &str, lease_until: &str, value: &str) -> String {
    let rows = OLD_ROWS.replace("LEASE_UNTIL", lease_until).replace("OLD_VALUE", value);
    format!("{first}; {version_table}; INSERT INTO schema_version (version) VALUES (1); {rows}")
}

async fn is_brought_up_to_date(url: String) {
    let origin = Origin::open(&url.parse().expect("a URL"), OpenOptions::default()).expect("an origin");
    for _ in 0..2 {
        origin.migrate().await.expect("a schema");
    }
    let nodes = origin.nodes().await.expect("a read");
    assert_eq!((nodes.len(), nodes[0].incarnation.0, nodes[0].lease_left_ms, nodes[0].leaving), (1, 7, 0, false));
    let entry = origin.read_entry(&user(), &key("a")).await.expect("a read").expect("an entry");
    assert_eq!((entry.value.as_ref(), entry.version.0), (b"old".as_slice(), 12));
    let change = origin.active_change().await.expect("a read").expect("a change");
    assert_eq!((change.phase, change.operator.as_str(), change.attended), (Phase::Copy, "old", false));
    let state = origin.ring_state().await.expect("a read").expect("a ring");
    assert_eq!((state.digest.epoch, state.members.len(), state.change), (Epoch(1), 1, Some(change.clone())));
    let row = &state.slots[slot(7).index()];
    assert_eq!((&row.owner, row.tenure.0, row.l2_space.as_deref()), (&node("n1"), 8, Some("run/replid/1")));

    assert_eq!(origin.controller().await, Ok(None));
    assert_eq!(origin.take_control("new", TTL).await, Ok(Control::Ours(Term(1))));
    assert_eq!(origin.attend_change(change.id, "new", TTL).await, Ok(true));
    assert!(origin.change(change.id).await.expect("a read").expect("a change").attended);
    let (incarnation, _) = claim(&origin, "n1", TTL).await;
    assert_eq!(origin.announce_leaving(&node("n1"), incarnation).await, Ok(true));
    assert!(origin.nodes().await.expect("a read")[0].leaving);
}

#[tokio::test]
async fn a_postgres_database_of_the_first_version_is_brought_up_to_date() {
    let server = PostgresServer::start().await.expect("a server");
    let first = include_str!("../../../migrations/postgres/0001_initial.sql");
    let version_table = "CREATE TABLE schema_version (version bigint PRIMARY KEY, \
        applied_at timestamptz NOT NULL DEFAULT now())";
    let raise = "SELECT setval('tenure_seq', 4096)";
    let script = old_database(first, version_table, "'-infinity'", "'old'");
    server.sql(&format!("{script}; {raise}")).await.expect("an old database");
    is_brought_up_to_date(server.url()).await;
}

#[tokio::test]
async fn an_sqlite_file_of_the_first_version_is_brought_up_to_date() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("origin.db");
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut file = options.connect().await.expect("a file");
    let first = include_str!("../../../migrations/sqlite/0001_initial.sql");
    let version_table = "CREATE TABLE schema_version (version INTEGER PRIMARY KEY, \
        applied_ms INTEGER NOT NULL DEFAULT 0) STRICT";
    let raise = "UPDATE sequences SET value = 4096 WHERE name = 'tenure'";
    let script = old_database(first, version_table, "0", "x'6f6c64'");
    file.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(format!("{script}; {raise}")))).await.expect("an old database");
    file.close().await.expect("closed");
    is_brought_up_to_date(format!("sqlite://{}", path.display())).await;
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
    f.postgres_server().sql("INSERT INTO schema_version (version) VALUES (4)").await.expect("a row");
    let outcome = f.origin.migrate().await;
    assert!(matches!(&outcome, Err(OriginError::Schema(why)) if why.contains("version 4")), "{outcome:?}");
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
    origin
        .claim_node(&node, "h:1", placement::Weight::default(), &placement::Pool::default(), TTL)
        .await
        .expect_err("no schema");
}
