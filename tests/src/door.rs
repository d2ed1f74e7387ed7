//! One gateway or node, asked for many users over one pool; and what rings say of users and shares.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use reqwest::Method;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::http::{self, Answer, answered};
use crate::poll::eventually;

/// How soon every gateway must hold a new ring (C08, C10).
pub const FOLLOW_BOUND: Duration = Duration::from_secs(5);
/// How long a change may take to come to a phase where it is held.
pub const PHASE_BOUND: Duration = Duration::from_secs(10);
/// How many requests a test has under way at a time.
pub(crate) const CONCURRENCY: usize = 24;

/// A gateway or node, asked for many users over one pool of connections.
#[derive(Clone, Debug)]
pub struct Door {
    http: reqwest::Client,
    /// `http://host:port`.
    pub url: String,
}

impl Door {
    /// A door to the gateway or node at `url`, such as `http://127.0.0.1:8080`.
    pub fn new(url: &str) -> Self {
        Self { http: http::client(), url: url.to_owned() }
    }

    /// A door to gateway `number`.
    pub fn of(cluster: &Cluster, number: usize) -> Self {
        Self::new(&cluster.gateways[number].url())
    }

    /// A request of that user; `path` begins with `/`.
    pub fn request(&self, method: Method, user: &str, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).header("X-User-ID", user)
    }

    /// The user's one entry in these tests.
    pub async fn get(&self, user: &str) -> Answer {
        answered(self.request(Method::GET, user, "/v1/entries/k")).await
    }

    /// Writes the user's one entry in these tests.
    pub async fn put(&self, user: &str, value: &str) -> Answer {
        answered(self.request(Method::PUT, user, "/v1/entries/k").body(value.to_owned())).await
    }

    /// `GET /v1/ring`.
    pub async fn ring(&self) -> Value {
        answered(self.request(Method::GET, "anyone", "/v1/ring")).await.json()
    }

    /// The epoch this gateway holds.
    pub async fn epoch(&self) -> u64 {
        self.ring().await["epoch"].as_u64().expect("an epoch")
    }

    /// The owner of each user's slot as this gateway sees it.
    pub async fn owners(&self, users: &[String]) -> BTreeMap<String, String> {
        let located = each(users, async |user| {
            let answer = answered(self.request(Method::GET, user, "/v1/ring/locate")).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            (user.to_owned(), answer.json()["owner"].as_str().expect("an owner").to_owned())
        });
        located.await.into_iter().collect()
    }

    /// Writes the same value for all these users.
    pub async fn put_all(&self, users: &[String], value: &str) {
        let statuses = each(users, async |user| (user.to_owned(), self.put(user, value).await));
        for (user, answer) in statuses.await {
            assert!(matches!(answer.status, 201 | 204), "PUT for {user}: {} {}", answer.status, answer.text());
        }
    }

    /// Reads the entry of all these users, which must be there and be `value`.
    pub async fn read_all(&self, users: &[String], value: &str) -> Vec<Answer> {
        let answers = each(users, async |user| (user.to_owned(), self.get(user).await)).await;
        for (user, answer) in &answers {
            assert_eq!((answer.status, answer.text().as_str()), (200, value), "GET for {user}: {answer:?}");
        }
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// A counter of `/metrics`: the sum of the series that begin so.
    pub async fn counted(&self, series: &str) -> u64 {
        let text = answered(self.request(Method::GET, "anyone", "/metrics")).await.text();
        let values = text.lines().filter(|line| line.starts_with(series)).filter_map(|line| line.rsplit(' ').next());
        values.filter_map(|value| value.parse::<f64>().ok()).sum::<f64>() as u64
    }

    /// Waits until this gateway holds the epoch and no change is under way.
    pub async fn follows(&self, epoch: u64) {
        let what = format!("{} is at epoch {epoch} with no change", self.url);
        eventually(&what, FOLLOW_BOUND, async || {
            let ring = self.ring().await;
            ring["epoch"].as_u64() == Some(epoch) && ring["change"].is_null()
        })
        .await;
    }

    /// Waits until a change is in this phase.
    pub async fn sees_phase(&self, phase: &str) {
        eventually(&format!("a change in phase {phase}"), PHASE_BOUND, async || {
            self.ring().await["change"]["phase"] == phase
        })
        .await;
    }
}

/// Does something for each user, some at the same time.
pub async fn each<T>(users: &[String], act: impl AsyncFn(&str) -> T) -> Vec<T> {
    stream::iter(users).map(|user| act(user)).buffer_unordered(CONCURRENCY).collect().await
}

/// So many users.
pub fn users(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("user-{number}")).collect()
}

/// The users that such an owner has.
pub fn owned_by(owners: &BTreeMap<String, String>, owner: &str) -> Vec<String> {
    owners.iter().filter(|(_, of)| *of == owner).map(|(user, _)| user.clone()).collect()
}

/// Slots per member, and that every slot has an owner among them.
pub fn shares(ring: &Value) -> BTreeMap<String, u64> {
    let members = ring["members"].as_array().expect("members");
    let share = |member: &Value| Some((member["id"].as_str()?.to_owned(), member["slots"].as_u64()?));
    let shares: BTreeMap<_, _> = members.iter().filter_map(share).collect();
    assert_eq!((shares.len(), shares.values().sum::<u64>()), (members.len(), 4096), "{ring}");
    shares
}

/// Members by name.
pub fn members(ring: &Value) -> Vec<String> {
    shares(ring).into_keys().collect()
}
