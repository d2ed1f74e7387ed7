//! A node stopped the moment `remove-node` has ended: nobody is cut off, nobody is still sent there (D12).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::Method;
use tests::cluster::Cluster;
use tests::door::{Door, members, owned_by, users};
use tests::http::send;
use tests::poll::eventually;
use tests::postgres::SqlSession;
use tests::ring_change::{cluster, done, l2_in_use};
use tokio::task::JoinSet;

/// Between two arrivals: 200 a second, whatever the answers take.
const EVERY: Duration = Duration::from_millis(5);
/// How long the table is locked, and free, in turn.
const LOCKED: Duration = Duration::from_secs(1);
/// The most requests under way: a second of arrivals that all wait for the table, three times over.
const IN_FLIGHT_MAX: usize = 600;
/// A request that waited so long was held up by the lock or the change.
const SLOW: Duration = Duration::from_millis(300);
const USERS: usize = 150;

/// What was answered, by what it was.
#[derive(Debug, Default)]
struct Answers {
    counts: BTreeMap<String, u64>,
    slow: u64,
    longest: Duration,
}

/// Requests at a fixed rate until it is stopped: hits, cold reads and writes, each of them checked.
struct Load {
    answers: Arc<Mutex<Answers>>,
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Load {
    fn start(gateways: Vec<Door>) -> Self {
        let (answers, stop) = (Arc::<Mutex<Answers>>::default(), Arc::<AtomicBool>::default());
        let (noted, stopped) = (Arc::clone(&answers), Arc::clone(&stop));
        let task = tokio::spawn(async move {
            let mut clock = tokio::time::interval(EVERY);
            clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            let mut under_way = JoinSet::new();
            for number in 0_usize.. {
                clock.tick().await;
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                while under_way.len() >= IN_FLIGHT_MAX {
                    under_way.join_next().await;
                }
                let (door, noted) = (gateways[number % gateways.len()].clone(), Arc::clone(&noted));
                under_way.spawn(async move { request(&door, number, &noted).await });
            }
            while under_way.join_next().await.is_some() {}
        });
        Self { answers, stop, task }
    }

    fn count(&self) -> u64 {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).counts.values().sum()
    }

    /// Waits until so many more have been answered.
    async fn goes_on(&self, more: u64) {
        let goal = self.count() + more;
        eventually("the load is answered", Duration::from_secs(30), async || self.count() >= goal).await;
    }

    async fn finish(self) -> Answers {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("the load ends");
        std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One request: of ten, one writes, two read a key that nobody has read, the others a warm one.
async fn request(door: &Door, number: usize, noted: &Mutex<Answers>) {
    let user = format!("user-{}", number * 31 / 10 % USERS);
    let request = match number % 10 {
        0 => door.request(Method::PUT, &user, "/v1/entries/written").body(number.to_string()),
        1 | 2 => door.request(Method::GET, &user, &format!("/v1/entries/cold-{number}")),
        _ => door.request(Method::GET, &user, "/v1/entries/k"),
    };
    let began = Instant::now();
    let answer = send(request).await;
    let took = began.elapsed();
    let what = match answer {
        Ok(answer) if matches!(answer.status, 200 | 201 | 204 | 404) => answer.status.to_string(),
        Ok(answer) => format!("{} {}", answer.status, answer.code()),
        Err(error) => format!("no answer: {error:?}"),
    };
    let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
    *noted.counts.entry(what).or_default() += 1;
    noted.slow += u64::from(took > SLOW);
    noted.longest = noted.longest.max(took);
}

/// Locks the table for a second in every two, until it is aborted.
async fn bursts(mut session: SqlSession) {
    loop {
        session.run("BEGIN; LOCK TABLE entries IN ACCESS EXCLUSIVE MODE").await.expect("locked");
        tokio::time::sleep(LOCKED).await;
        session.run("COMMIT").await.expect("unlocked");
        tokio::time::sleep(LOCKED).await;
    }
}

/// The change begins within a burst, when requests that wait for the table are under way at the node.
async fn a_burst_begins(cluster: &Cluster) {
    let postgres = cluster.postgres.as_ref().expect("on Postgres");
    let waiting = "SELECT count(*) > 3 FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    eventually("requests wait for the table", 4 * LOCKED, async || {
        postgres.sql(waiting).await.is_ok_and(|waits| waits == "t")
    })
    .await;
}

#[tokio::test]
async fn a_node_stopped_the_moment_it_has_left_costs_no_request() {
    let mut cluster = cluster(2).await;
    l2_in_use(&cluster).await;
    let gateways = vec![Door::of(&cluster, 0), Door::of(&cluster, 1)];
    let all = users(USERS);
    gateways[0].put_all(&all, "v").await;
    let of_n3 = owned_by(&gateways[0].owners(&all).await, "n3");
    assert!(of_n3.len() > USERS / 5, "n3 has {} users", of_n3.len());
    let load = Load::start(gateways.clone());
    load.goes_on(400).await;
    let session = cluster.postgres.as_ref().expect("on Postgres").session().await.expect("psql");
    let bursts = tokio::spawn(bursts(session));
    a_burst_begins(&cluster).await;

    let began = Instant::now();
    done(&cluster, &["remove-node", "n3"]).await;
    let removed = began.elapsed();
    let left = cluster.node("n3");
    left.process.ask_to_stop();
    // The migrator has ended: every gateway is on the new ring, or learns of it from the answer it gets.
    let end = left.process.wait_end(tests::processes::STOP_BOUND).await;
    let stopped = began.elapsed() - removed;
    assert_eq!(end.code(), Some(0), "{}", left.process.log_tail());
    load.goes_on(800).await;
    let answers = load.finish().await;
    bursts.abort();
    println!("remove-node took {removed:?}, the stop {stopped:?}; {answers:?}");
    let good = ["200", "201", "204", "404"];
    let bad: Vec<_> = answers.counts.iter().filter(|(what, _)| !good.contains(&what.as_str())).collect();
    assert!(bad.is_empty(), "{answers:?}");
    assert!(answers.slow > 0, "none had to wait: {answers:?}");
    for gateway in &gateways {
        gateway.follows(2).await;
        assert_eq!(members(&gateway.ring().await), ["n1", "n2"]);
        let answers = gateway.read_all(&of_n3, "v").await;
        assert!(answers.iter().all(|answer| answer.header("X-Cache-Node") != "n3"));
    }
}
