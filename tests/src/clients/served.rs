//! Whether every user is served: a write and a read of each through each door, recorded as the clients' are.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::client::Client;
use super::{Action, Outcome, Recorded};
use crate::door::Door;

impl Recorded {
    /// Writes a fresh key of each user through each door and reads it through each, all users at the same time. Adds that to
    /// the history; how many requests got no answer or an error.
    pub async fn refused_by(&mut self, doors: &[Door]) -> usize {
        let keys = self.run.keys().of_each_user();
        self.history.names = self.run.keys().names().to_vec();
        let before = self.answered();
        let mut tasks = JoinSet::new();
        for (number, key) in (0..).zip(&keys) {
            let (run, doors, key) = (Arc::clone(&self.run), doors.to_vec(), *key);
            tasks.spawn(async move {
                let number = run.options.clients + number;
                let mut client = Client::new(Arc::clone(&run), number);
                for door in &doors {
                    client.write(door, key, Action::Put(run.next_value())).await;
                    for reader in &doors {
                        client.read(reader, key).await;
                    }
                }
                client.log()
            });
        }
        while let Some(log) = tasks.join_next().await {
            self.take(log.expect("a client does not panic"));
        }
        keys.len() * doors.len() * (1 + doors.len()) - (self.answered() - before)
    }

    /// Requests with an answer that says what was done.
    fn answered(&self) -> usize {
        self.history.count(|operation| matches!(operation.outcome, Outcome::Read { .. } | Outcome::Done { .. }))
    }
}
