//! Postgres slow, locked, paused, restarted, killed: what may be said of a write then, and how long it may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use origin::{OpenOptions, Origin, OriginError, WriteAnswer, WriteError};
use placement::Tenure;

use crate::fixture::{Fixture, TTL, claim, created, eventually, key, node, put, replaced, user};

/// Acquire and statement time-outs of the default options, with the grace of the client's own deadline.
const BOUND: Duration = Duration::from_millis(3600);

/// Statements that wait for a lock now.
async fn waiting_for_locks(f: &mut Fixture) -> usize {
    let count =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shardcache' AND wait_event_type = 'Lock'";
    f.postgres_server().sql(count).await.expect("rows").parse().expect("a number")
}

pub(crate) async fn until_waiting(f: &mut Fixture, number: usize) {
    let began = Instant::now();
    while waiting_for_locks(f).await < number {
        assert!(began.elapsed() < Duration::from_secs(10), "never {number} waiting");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_waits_for_the_writer_and_fences_the_next() {
    let mut f = Fixture::postgres().await;
    f.ring().await;
    let tenure = f.tenure(7).await;
    created(f.write(put(tenure, "a", "1")).await);
    let mut holder = f.postgres_server().session().await.expect("a session");
    holder.run("BEGIN; SELECT 1 FROM entries WHERE key = 'a' FOR UPDATE").await.expect("a row lock");

    let origin = f.origin.clone();
    let writer = tokio::spawn(async move { origin.write_entry(&put(tenure, "a", "2")).await });
    until_waiting(&mut f, 1).await;
    let origin = f.origin.clone();
    let keep = origin::L2SpaceChange::Keep;
    let renewal =
        tokio::spawn(
            async move { origin.renew_tenure(&node("n1"), &[(crate::fixture::slot(7), tenure)], &keep).await },
        );
    until_waiting(&mut f, 2).await;
    assert_eq!(f.tenure(7).await, tenure, "the renewal has not committed");

    holder.run("COMMIT").await.expect("released");
    replaced(writer.await.expect("a task"));
    let renewed = renewal.await.expect("a task").expect("an answer");
    assert!(renewed[0].tenure > tenure);
    assert_eq!(f.write(put(tenure, "a", "3")).await, Ok(WriteAnswer::Fenced));
    assert_eq!(f.read("a").await.expect("an entry").0, "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_waits_for_a_change_of_tenure_and_is_fenced_by_it() {
    let mut f = Fixture::postgres().await;
    f.ring().await;
    let tenure = f.tenure(7).await;
    let mut changer = f.postgres_server().session().await.expect("a session");
    changer.run("BEGIN; UPDATE slots SET tenure = nextval('tenure_seq') WHERE slot = 7").await.expect("an update");
    let origin = f.origin.clone();
    let writer = tokio::spawn(async move { origin.write_entry(&put(tenure, "a", "1")).await });
    until_waiting(&mut f, 1).await;
    changer.run("COMMIT").await.expect("committed");
    assert_eq!(writer.await.expect("a task"), Ok(WriteAnswer::Fenced));
    assert_eq!(f.read("a").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_table_costs_a_bounded_wait_and_never_a_heartbeat() {
    let mut f = Fixture::postgres().await;
    let [first, ..] = f.ring().await;
    let tenure = f.tenure(7).await;
    created(f.write(put(tenure, "a", "1")).await);
    let mut holder = f.postgres_server().session().await.expect("a session");
    holder.run("BEGIN; LOCK TABLE entries IN ACCESS EXCLUSIVE MODE").await.expect("a lock");

    let calls: Vec<_> = (0..60)
        .map(|number| {
            let origin = f.origin.clone();
            tokio::spawn(async move {
                let began = Instant::now();
                if number % 2 == 0 {
                    origin.read_entry(&user(), &key("a")).await.expect_err("locked");
                } else {
                    let outcome = origin.write_entry(&put(tenure, "a", "2")).await;
                    assert_eq!(outcome, Err(WriteError::NotExecuted(OriginError::Timeout)));
                }
                began.elapsed()
            })
        })
        .collect();
    until_waiting(&mut f, 10).await;
    for _ in 0..5 {
        let began = Instant::now();
        assert_eq!(f.origin.renew_lease(&node("n1"), first, TTL).await, Ok(true));
        f.origin.ring_digest().await.expect("a digest");
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
    for call in calls {
        let took = call.await.expect("a task");
        assert!(took < Duration::from_millis(3200), "{took:?}");
    }
    drop(holder);
    let origin = f.origin.clone();
    let began = Instant::now();
    eventually("normal again", || async { origin.read_entry(&user(), &key("a")).await.is_ok() }).await;
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!(f.read("a").await.expect("an entry").0, "1", "a write that timed out on the server is not executed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_cut_by_a_silent_server_is_unknown_and_its_connection_is_not_used_again() {
    let mut f = Fixture::postgres().await;
    f.ring().await;
    let tenure = f.tenure(7).await;
    created(f.write(put(tenure, "a", "1")).await);
    f.postgres_server().pause().expect("paused");
    let began = Instant::now();
    let outcome = f.write(put(tenure, "a", "2")).await;
    assert_eq!(outcome, Err(WriteError::Unknown(OriginError::Timeout)));
    // No idle connection is left now, and the server answers no new one.
    let outcome = f.write(put(tenure, "b", "2")).await;
    assert_eq!(outcome, Err(WriteError::NotExecuted(OriginError::Timeout)));
    f.origin.read_entry(&user(), &key("a")).await.expect_err("silent");
    assert!(began.elapsed() < 3 * BOUND, "{:?}", began.elapsed());
    f.postgres_server().resume().expect("resumed");
    let origin = f.origin.clone();
    eventually("normal again", || async { origin.read_entry(&user(), &key("a")).await.is_ok() }).await;
    let renewed = f.renew(7, tenure).await;
    let settled = f.read("a").await;
    assert_eq!(f.read("b").await, None);
    assert_eq!(f.write(put(tenure, "a", "3")).await, Ok(WriteAnswer::Fenced));
    assert_eq!(f.read("a").await, settled);
    replaced(f.write(put(renewed[0].tenure, "a", "4")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_dropped_mid_statement_poisons_nothing() {
    let mut f = Fixture::postgres().await;
    f.ring().await;
    let tenure = f.tenure(7).await;
    created(f.write(put(tenure, "a", "0")).await);
    for round in 0..30 {
        let mut holder = f.postgres_server().session().await.expect("a session");
        holder.run("BEGIN; SELECT 1 FROM entries WHERE key = 'a' FOR UPDATE").await.expect("a row lock");
        let origin = f.origin.clone();
        let writer = tokio::spawn(async move { origin.write_entry(&put(tenure, "a", &format!("{round}"))).await });
        until_waiting(&mut f, 1).await;
        writer.abort();
        assert!(writer.await.is_err());
        holder.run("COMMIT").await.expect("released");
        // The dropped statement lands or not; every answer after it belongs to its own question.
        created(f.write(put(tenure, &format!("b{round}"), &format!("{round}"))).await);
        assert_eq!(f.read(&format!("b{round}")).await.expect("an entry").0, format!("{round}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_reads_and_writes_go_on_without_an_unknown_per_connection() {
    let mut f = Fixture::postgres().await;
    f.ring().await;
    let tenure = f.tenure(7).await;
    let warm: Vec<_> = (0..40)
        .map(|number| {
            let origin = f.origin.clone();
            tokio::spawn(async move { origin.write_entry(&put(tenure, &format!("w{number}"), "v")).await })
        })
        .collect();
    for write in warm {
        created(write.await.expect("a task"));
    }
    f.postgres_server().stop().await.expect("stopped");
    f.postgres_server().restart().await.expect("started");
    assert_eq!(f.read("w0").await.expect("an entry").0, "v");
    let mut unknown = 0;
    for number in 0..40 {
        match f.write(put(tenure, &format!("x{number}"), "v")).await {
            Ok(WriteAnswer::Created(_)) => {}
            Err(WriteError::Unknown(_)) => unknown += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(unknown <= 1, "{unknown} unknown");
}

/// Writers, each of its own keys, until told to stop; every key with what was said of it.
async fn write_until(origin: Origin, tenure: Tenure, writer: usize, stop: Arc<AtomicBool>) -> Vec<(String, Said)> {
    let mut said = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let name = format!("w{writer}-{}", said.len());
        let outcome = match origin.write_entry(&put(tenure, &name, &name)).await {
            Ok(WriteAnswer::Created(_)) => Said::Done,
            Ok(other) => panic!("{other:?}"),
            Err(WriteError::NotExecuted(_)) => Said::NotExecuted,
            Err(WriteError::Unknown(_)) => Said::Unknown,
        };
        said.push((name, outcome));
    }
    said
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Said {
    Done,
    NotExecuted,
    Unknown,
}

/// Ends the server under load several times; afterwards every acknowledged write is there, and none "not executed".
async fn what_was_said_is_true_after(kill: bool) {
    let mut f = Fixture::postgres().await;
    f.ring().await;
    let tenure = f.tenure(7).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> =
        (0..12).map(|writer| tokio::spawn(write_until(f.origin.clone(), tenure, writer, Arc::clone(&stop)))).collect();
    for _ in 0..4 {
        let before = f.read_count().await;
        while f.read_count().await < before + 50 {}
        if kill {
            f.postgres_server().kill().await.expect("killed");
        } else {
            f.postgres_server().stop().await.expect("stopped");
        }
        f.postgres_server().restart().await.expect("started");
    }
    stop.store(true, Ordering::Relaxed);
    let (mut done, mut not_executed, mut unknown) = (0, 0, 0);
    for writer in writers {
        for (name, said) in writer.await.expect("a task") {
            let there = f.read(&name).await.is_some();
            match said {
                Said::Done => done += 1,
                Said::NotExecuted => not_executed += 1,
                Said::Unknown => unknown += 1,
            }
            assert!(said != Said::Done || there, "{name} was acknowledged and is gone");
            assert!(said != Said::NotExecuted || !there, "{name} was said not to be executed and is there");
        }
    }
    assert!(done > 200, "{done} done, {not_executed} not executed, {unknown} unknown");
    assert!(unknown <= 4 * 12, "{unknown} unknown: at most one per writer and restart");
}

impl Fixture {
    async fn read_count(&mut self) -> usize {
        let count = self.postgres_server().sql("SELECT count(*) FROM entries").await.expect("rows");
        count.parse().expect("a number")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_makes_no_write_a_lie() {
    what_was_said_is_true_after(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fast_shutdown_makes_no_write_a_lie() {
    what_was_said_is_true_after(false).await;
}

#[tokio::test]
async fn a_refused_statement_is_certainly_not_executed() {
    let mut f = Fixture::postgres().await;
    f.ring().await;
    let tenure = f.tenure(7).await;
    let only_short = "ALTER TABLE entries ADD CHECK (length(key) < 3)";
    f.postgres_server().sql(only_short).await.expect("a constraint");
    let outcome = f.write(put(tenure, "long", "v")).await;
    assert_eq!(outcome, Err(WriteError::NotExecuted(OriginError::Refused { code: "23514".to_owned() })));
    created(f.write(put(tenure, "ok", "v")).await);
}

#[tokio::test]
async fn a_commit_without_a_disk_flush_is_not_asked_for() {
    let mut f = Fixture::postgres().await;
    f.postgres_server().sql("ALTER SYSTEM SET synchronous_commit = off").await.expect("a setting");
    f.postgres_server().sql("SELECT pg_reload_conf()").await.expect("a reload");
    f.postgres_server().stop().await.expect("stopped");
    f.postgres_server().restart().await.expect("started");
    f.ring().await;
    assert_eq!(f.postgres_server().sql("SHOW synchronous_commit").await.expect("rows"), "off");
    // Seen from inside one of our sessions, by a trigger.
    let trap = "CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        IF current_setting('synchronous_commit') <> 'on' THEN RAISE 'not durable'; END IF; RETURN NEW; END $$; \
        CREATE TRIGGER trap BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION trap()";
    f.postgres_server().sql(trap).await.expect("a trigger");
    created(f.write(put(f.tenure(7).await, "a", "1")).await);
}

#[tokio::test]
async fn no_error_shows_the_password() {
    let mut f = Fixture::postgres().await;
    let (good, port) = (f.postgres_server().url(), f.postgres_server().port());
    let urls = [
        good.replace("Zx9SECRET", "Zx9SECRET-wrong"),
        good.replace("127.0.0.1", "no-such-host.invalid"),
        good.replace(&format!(":{port}/"), ":1/"),
        good.replace("/postgres", "/no_such_database"),
        format!("{good}?sslmode=require"),
    ];
    for url in urls {
        let url = url.parse().expect("a URL");
        let origin = Origin::open(&url, OpenOptions::default()).expect("an origin");
        let began = Instant::now();
        let texts = [
            format!("{url} {url:?} {origin:?}"),
            shown(origin.migrate().await.expect_err("no connection")),
            shown(origin.nodes().await.expect_err("no connection")),
            shown(origin.write_entry(&put(Tenure(1), "a", "v")).await.expect_err("no connection")),
        ];
        assert!(!texts.concat().contains("SECRET"), "{texts:?}");
        let outcome = origin.write_entry(&put(Tenure(1), "a", "v")).await;
        assert!(matches!(outcome, Err(WriteError::NotExecuted(_))), "{outcome:?}");
        assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    }
    claim(&f.origin, "n1", TTL).await;
}

fn shown(error: impl std::error::Error) -> String {
    format!("{error} {error:?}")
}
