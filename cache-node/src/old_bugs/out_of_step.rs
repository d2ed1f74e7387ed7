//! A connection whose commands and replies come out of step: a reply that nobody has waited for is taken for that to the
//! next command.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisFuture, RedisResult, Value};
use tokio::task::JoinHandle;

use super::{OldBug, is_back};

/// The replies of all connections, in the order of their commands, without those that somebody reads.
static UNREAD: Mutex<VecDeque<Reply>> = Mutex::new(VecDeque::new());

type Reply = JoinHandle<RedisResult<Value>>;

fn unread() -> MutexGuard<'static, VecDeque<Reply>> {
    UNREAD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection that falls out of step while [`OldBug::LateReply`] is back.
pub(crate) struct OutOfStep<C>(pub(crate) C);

impl<C: ConnectionLike + Clone + Send + 'static> ConnectionLike for OutOfStep<C> {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        if !is_back(OldBug::LateReply) {
            return self.0.req_packed_command(command);
        }
        let (mut connection, command) = (self.0.clone(), command.clone());
        let own = tokio::spawn(async move { connection.req_packed_command(&command).await });
        let mut replies = unread();
        replies.push_back(own);
        let reading = Reading(replies.pop_front());
        drop(replies);
        Box::pin(reading.read())
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(commands, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

/// Waits for one reply; given up, it leaves the reply to the next command.
struct Reading(Option<Reply>);

impl Reading {
    async fn read(mut self) -> RedisResult<Value> {
        let reply = self.0.as_mut().expect("the queue held at least the reply to this very command");
        let read = reply.await;
        self.0 = None;
        read.unwrap_or_else(|_| Err((redis::ErrorKind::Io, "the runtime ends").into()))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(reply) = self.0.take() {
            unread().push_front(reply);
        }
    }
}
