//! What these tests share: a watched cluster, many users, and who owns what.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use tests::cluster::{Cluster, ClusterOptions};
use tests::http::{self, Answer, answered};
use tests::poll::eventually;
use tests::processes::Process;

/// How long detection, a takeover or a readmission may take on a busy machine, the longest grace of a test included.
pub(crate) const HEALED: Duration = Duration::from_secs(30);
/// How many requests a test has under way at a time.
const CONCURRENCY: usize = 16;

/// Three members that hand their slots off when they stop.
pub(crate) async fn cluster() -> Cluster {
    let env = vec![("SHARDCACHE_DRAIN".to_owned(), "handoff".to_owned())];
    Cluster::start(ClusterOptions { env, ..ClusterOptions::default() }).await
}

/// A failure controller that leads by the time this returns.
pub(crate) async fn leader(cluster: &Cluster, grace: &str) -> Process {
    let watch = cluster.start_migrator(&["watch", "--grace", grace]);
    logs(&watch, "leading").await;
    watch
}

/// Waits until it has logged this.
pub(crate) async fn logs(process: &Process, text: &str) {
    let seen = async || process.log().contains(text);
    eventually(&format!("a log line with {text:?} in\n{}", process.log_tail()), HEALED, seen).await;
}

/// Slots per member.
pub(crate) async fn shares(cluster: &Cluster) -> BTreeMap<String, u64> {
    let ring = cluster.ring().await;
    let members = ring["members"].as_array().expect("members");
    let share = |member: &Value| Some((member["id"].as_str()?.to_owned(), member["slots"].as_u64()?));
    members.iter().filter_map(share).collect()
}

/// The ring's epoch in the database.
pub(crate) async fn epoch(cluster: &Cluster) -> u64 {
    status(cluster).await["epoch"].as_u64().expect("an epoch")
}

/// What `migrator status --json` says.
pub(crate) async fn status(cluster: &Cluster) -> Value {
    json(cluster, &["status", "--json"]).await
}

/// The actions of all changes that were done, oldest first. Some may have taken more than one try.
pub(crate) async fn done(cluster: &Cluster) -> Vec<String> {
    let history = json(cluster, &["history", "--json"]).await;
    let changes = history["changes"].as_array().expect("changes").iter().rev();
    let done = changes.filter(|change| change["phase"] == "done");
    done.filter_map(|change| Some(change["action"].as_str()?.to_owned())).collect()
}

async fn json(cluster: &Cluster, args: &[&str]) -> Value {
    let finished = cluster.migrator(args).await;
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("no JSON ({error}): {finished:#?}"))
}

/// Many users of the first gateway, each with one entry, over one pool of connections.
pub(crate) struct Users {
    http: reqwest::Client,
    gateway: String,
    ids: Vec<String>,
}

impl Users {
    pub(crate) fn new(cluster: &Cluster, count: usize) -> Self {
        let ids = (0..count).map(|number| format!("user-{number}")).collect();
        Self { http: http::client(), gateway: cluster.gateway_url(), ids }
    }

    /// Those whose slot this node owns.
    pub(crate) async fn of(&self, owner: &str) -> Self {
        let located = self.each(async |id| {
            let answer = answered(self.request(Method::GET, id, "/v1/ring/locate")).await;
            (answer.json()["owner"] == owner).then(|| id.to_owned())
        });
        let ids: Vec<_> = located.await.into_iter().flatten().collect();
        assert!(!ids.is_empty(), "{owner} has users");
        Self { http: self.http.clone(), gateway: self.gateway.clone(), ids }
    }

    pub(crate) async fn put_all(&self, value: &str) {
        for (id, answer) in self.each(async |id| (id.to_owned(), self.put(id, value).await)).await {
            assert!(matches!(answer.status, 201 | 204), "PUT for {id}: {} {}", answer.status, answer.text());
        }
    }

    /// Writes for all; whether every write was done.
    pub(crate) async fn can_put_all(&self, value: &str) -> bool {
        let statuses = self.each(async |id| self.put(id, value).await.status).await;
        statuses.iter().all(|status| matches!(status, 201 | 204))
    }

    /// Reads for all, each of which must be this value.
    pub(crate) async fn read_all(&self, value: &str) -> Vec<Answer> {
        let read = async |id: &str| (id.to_owned(), answered(self.request(Method::GET, id, "/v1/entries/k")).await);
        let answers = self.each(read).await;
        for (id, answer) in &answers {
            assert_eq!((answer.status, answer.text().as_str()), (200, value), "GET for {id}: {answer:?}");
        }
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    async fn put(&self, id: &str, value: &str) -> Answer {
        answered(self.request(Method::PUT, id, "/v1/entries/k").body(value.to_owned())).await
    }

    fn request(&self, method: Method, id: &str, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.gateway)).header("X-User-ID", id)
    }

    async fn each<T>(&self, act: impl AsyncFn(&str) -> T) -> Vec<T> {
        stream::iter(&self.ids).map(|id| act(id)).buffer_unordered(CONCURRENCY).collect().await
    }
}
