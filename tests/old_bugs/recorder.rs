//! The clients of a scene: each request is made when the scene says so, and written down with its answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tests::door::Door;
use tests::history::{Action, EntryName, History, Operation, Outcome};
use tests::http::Answer;
use tests::poll::eventually;

use crate::scene::STEP;

/// The body that stands for a value.
pub(crate) fn body(value: u64) -> String {
    format!("value-{value};")
}

/// The history in the making. Clones write the same one.
#[derive(Clone)]
pub(crate) struct Recorder {
    started: Instant,
    history: Arc<Mutex<History>>,
}

impl Recorder {
    /// A scene with the entries `k` of these users.
    pub(crate) fn new(users: &[&str]) -> Self {
        let entry = |user: &&str| EntryName { user: (*user).to_owned(), key: "k".to_owned() };
        let history = History { names: users.iter().map(entry).collect(), ..History::default() };
        Self { started: Instant::now(), history: Arc::new(Mutex::new(history)) }
    }

    /// Client `client` reads the user's entry.
    pub(crate) async fn get(&self, client: u32, door: &Door, user: &str) -> Answer {
        let begun = self.started.elapsed();
        let answer = door.get(user).await;
        let value = match answer.status {
            200 => Some(Some(value_of(&answer))),
            404 => Some(None),
            _ => None,
        };
        match value {
            Some(value) => {
                let outcome = Outcome::Read { value, version: version_of(&answer) };
                self.record(client, user, Action::Get, outcome, begun);
            }
            None => self.lock().unanswered_reads += 1,
        }
        answer
    }

    /// Client `client` reads the user's entry until there is an answer: what the scene comes down to.
    pub(crate) async fn get_answered(&self, client: u32, door: &Door, user: &str) {
        eventually("the read is answered", STEP, async || {
            matches!(self.get(client, door, user).await.status, 200 | 404)
        })
        .await;
    }

    /// Client `client` writes the user's entry, which must be acknowledged.
    pub(crate) async fn put(&self, client: u32, door: &Door, user: &str, value: u64) {
        let begun = self.started.elapsed();
        let answer = door.put(user, &body(value)).await;
        assert!(matches!(answer.status, 201 | 204), "PUT for {user}: {answer:?}");
        let outcome = Outcome::Done { version: version_of(&answer) };
        self.record(client, user, Action::Put(value), outcome, begun);
    }

    /// The user's entry has had this value since before the first request.
    pub(crate) fn was_there(&self, user: &str, value: u64, version: u64) {
        let outcome = Outcome::Done { version: Some(version) };
        self.record(0, user, Action::Put(value), outcome, Duration::ZERO);
    }

    /// What has been written down.
    pub(crate) fn history(&self) -> History {
        self.lock().clone()
    }

    fn record(&self, client: u32, user: &str, action: Action, outcome: Outcome, begun: Duration) {
        let ended = self.started.elapsed();
        let mut history = self.lock();
        let key = history.names.iter().position(|name| name.user == user).expect("a user of the scene");
        history.operations.push(Operation { client, key: key as u32, action, outcome, begun, ended });
    }

    fn lock(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn value_of(answer: &Answer) -> u64 {
    let text = answer.text();
    let value = text.strip_prefix("value-").and_then(|rest| rest.strip_suffix(';')?.parse().ok());
    value.unwrap_or_else(|| panic!("a value of nobody: {answer:?}"))
}

fn version_of(answer: &Answer) -> Option<u64> {
    answer.header("etag").strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}
