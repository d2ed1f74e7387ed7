//! What the tests of ring changes share: many users over one pool, the migrator's verbs, and holding a change half-way.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use reqwest::Method;
use serde_json::Value;
use tests::cluster::{Cluster, ClusterOptions, Database};
use tests::http::{self, Answer, answered};
use tests::poll::eventually;
use tests::postgres::SqlSession;
use tests::processes::Finished;

/// How soon every gateway must hold a new ring (C08, C10).
pub(crate) const FOLLOW_BOUND: Duration = Duration::from_secs(5);
/// How long a change may take to come to a phase where it is held.
pub(crate) const PHASE_BOUND: Duration = Duration::from_secs(10);
/// How many requests a test has under way at a time.
const CONCURRENCY: usize = 24;

/// A gateway or node, asked for many users over one pool of connections.
#[derive(Clone)]
pub(crate) struct Door {
    http: reqwest::Client,
    pub(crate) url: String,
}

impl Door {
    pub(crate) fn new(url: &str) -> Self {
        Self { http: http::client(), url: url.to_owned() }
    }

    /// A door to gateway `number`.
    pub(crate) fn of(cluster: &Cluster, number: usize) -> Self {
        Self::new(&cluster.gateways[number].url())
    }

    pub(crate) fn request(&self, method: Method, user: &str, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).header("X-User-ID", user)
    }

    /// The user's one entry in these tests.
    pub(crate) async fn get(&self, user: &str) -> Answer {
        answered(self.request(Method::GET, user, "/v1/entries/k")).await
    }

    pub(crate) async fn put(&self, user: &str, value: &str) -> Answer {
        answered(self.request(Method::PUT, user, "/v1/entries/k").body(value.to_owned())).await
    }

    /// `GET /v1/ring`.
    pub(crate) async fn ring(&self) -> Value {
        answered(self.request(Method::GET, "anyone", "/v1/ring")).await.json()
    }

    pub(crate) async fn epoch(&self) -> u64 {
        self.ring().await["epoch"].as_u64().expect("an epoch")
    }

    /// The owner of each user's slot as this gateway sees it.
    pub(crate) async fn owners(&self, users: &[String]) -> BTreeMap<String, String> {
        let located = each(users, async |user| {
            let answer = answered(self.request(Method::GET, user, "/v1/ring/locate")).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            (user.to_owned(), answer.json()["owner"].as_str().expect("an owner").to_owned())
        });
        located.await.into_iter().collect()
    }

    /// Writes the same value for all these users.
    pub(crate) async fn put_all(&self, users: &[String], value: &str) {
        let statuses = each(users, async |user| (user.to_owned(), self.put(user, value).await));
        for (user, answer) in statuses.await {
            assert!(matches!(answer.status, 201 | 204), "PUT for {user}: {} {}", answer.status, answer.text());
        }
    }

    /// Reads the entry of all these users, which must be there and be `value`.
    pub(crate) async fn read_all(&self, users: &[String], value: &str) -> Vec<Answer> {
        let answers = each(users, async |user| (user.to_owned(), self.get(user).await)).await;
        for (user, answer) in &answers {
            assert_eq!((answer.status, answer.text().as_str()), (200, value), "GET for {user}: {answer:?}");
        }
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// A counter of `/metrics`: the sum of the series that begin so.
    pub(crate) async fn counted(&self, series: &str) -> u64 {
        let text = answered(self.request(Method::GET, "anyone", "/metrics")).await.text();
        let values = text.lines().filter(|line| line.starts_with(series)).filter_map(|line| line.rsplit(' ').next());
        values.filter_map(|value| value.parse::<f64>().ok()).sum::<f64>() as u64
    }

    /// Waits until this gateway holds the epoch and no change is under way.
    pub(crate) async fn follows(&self, epoch: u64) {
        let what = format!("{} is at epoch {epoch} with no change", self.url);
        eventually(&what, FOLLOW_BOUND, async || {
            let ring = self.ring().await;
            ring["epoch"].as_u64() == Some(epoch) && ring["change"].is_null()
        })
        .await;
    }

    /// Waits until a change is in this phase.
    pub(crate) async fn sees_phase(&self, phase: &str) {
        eventually(&format!("a change in phase {phase}"), PHASE_BOUND, async || {
            self.ring().await["change"]["phase"] == phase
        })
        .await;
    }
}

/// Does something for each user, some at the same time.
pub(crate) async fn each<T>(users: &[String], act: impl AsyncFn(&str) -> T) -> Vec<T> {
    stream::iter(users).map(|user| act(user)).buffer_unordered(CONCURRENCY).collect().await
}

/// So many users.
pub(crate) fn users(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("user-{number}")).collect()
}

/// The users that such an owner has.
pub(crate) fn owned_by(owners: &BTreeMap<String, String>, owner: &str) -> Vec<String> {
    owners.iter().filter(|(_, of)| *of == owner).map(|(user, _)| user.clone()).collect()
}

/// Slots per member, and that every slot has an owner among them.
pub(crate) fn shares(ring: &Value) -> BTreeMap<String, u64> {
    let members = ring["members"].as_array().expect("members");
    let share = |member: &Value| Some((member["id"].as_str()?.to_owned(), member["slots"].as_u64()?));
    let shares: BTreeMap<_, _> = members.iter().filter_map(share).collect();
    assert_eq!((shares.len(), shares.values().sum::<u64>()), (members.len(), 4096), "{ring}");
    shares
}

/// Members by name.
pub(crate) fn members(ring: &Value) -> Vec<String> {
    shares(ring).into_keys().collect()
}

/// Three members on Postgres and Redis, with all their connections made.
pub(crate) async fn cluster(gateways: usize) -> Cluster {
    let cluster = Cluster::start(ClusterOptions { gateways, ..ClusterOptions::default() }).await;
    warm(&cluster).await;
    cluster
}

/// Has every node make its connections to the database: in a debug build each handshake takes so much computing that a
/// node which makes all of them under load would answer "overloaded" for its first second.
pub(crate) async fn warm(cluster: &Cluster) {
    let readers = users(CONCURRENCY);
    for node in cluster.nodes.values() {
        let door = Door::new(&node.url());
        eventually("the node reads the database", PHASE_BOUND, async || {
            let read = async |user: &str| {
                let read = door.request(Method::GET, user, "/v1/entries/warm").header("X-Shardcache-Detached", "1");
                answered(read).await.status
            };
            each(&readers, read).await.iter().all(|status| *status == 404)
        })
        .await;
    }
}

/// Starts a further node, ready to be added under load.
pub(crate) async fn add_standby(cluster: &mut Cluster, name: &str, more: &[(&str, &str)]) {
    cluster.add_standby(name, more).await;
    warm(cluster).await;
}

/// Members on a file, without Redis.
pub(crate) async fn cluster_on_a_file(nodes: usize) -> Cluster {
    Cluster::start(ClusterOptions { nodes, database: Database::Sqlite, redis: 0, ..ClusterOptions::default() }).await
}

/// Runs a verb that must end well.
pub(crate) async fn done(cluster: &Cluster, args: &[&str]) -> Finished {
    let finished = cluster.migrator(args).await;
    assert_eq!(finished.code, Some(0), "{args:?}: {finished:#?}\n{}", cluster.log_tails());
    finished
}

/// Runs a verb that must end with this code, and say why in words of which `reason` is a part.
pub(crate) async fn refused(cluster: &Cluster, args: &[&str], code: i32, reason: &str) -> Finished {
    let finished = cluster.migrator(args).await;
    assert_eq!(finished.code, Some(code), "{args:?}: {finished:#?}");
    assert!(finished.stderr.contains(reason), "{args:?} should say {reason:?}: {finished:#?}");
    finished
}

/// The JSON a verb prints.
pub(crate) async fn json(cluster: &Cluster, args: &[&str]) -> Value {
    let finished = done(cluster, &[args, &["--json"]].concat()).await;
    serde_json::from_str(&finished.stdout)
        .unwrap_or_else(|error| panic!("{args:?} prints no JSON ({error}): {finished:#?}"))
}

/// Holds any flip that takes slots of this owner, until it is dropped or released. Longer than the migrator's
/// statements may take (3 s), it fails them.
pub(crate) struct FlipHeld(SqlSession);

impl FlipHeld {
    pub(crate) async fn of(cluster: &Cluster, owner: &str) -> Self {
        let mut session = cluster.postgres.as_ref().expect("on Postgres").session().await.expect("psql");
        let rows = format!("SELECT count(*) FROM (SELECT 1 FROM slots WHERE owner = '{owner}' FOR UPDATE) held");
        session.run("BEGIN").await.expect("a transaction");
        let held = session.run(&rows).await.expect("the lock");
        assert_ne!(held, ["0"], "{owner} has slots");
        Self(session)
    }

    pub(crate) async fn release(mut self) {
        self.0.run("COMMIT").await.expect("the end of the transaction");
    }
}
