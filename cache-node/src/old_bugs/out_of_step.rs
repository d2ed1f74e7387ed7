//! A connection whose commands and replies come out of step: a reply that nobody has waited for is taken for that to the
//! next command.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, Pipeline, RedisFuture, RedisResult, Value};
use tokio::task::JoinHandle;

use super::{OldBug, is_back};

/// The replies of one connection, in the order of their commands and pipelines, without those that somebody reads.
static UNREAD: Mutex<Unread> = Mutex::new(Unread { session: 0, replies: VecDeque::new() });

struct Unread {
    session: usize,
    replies: VecDeque<Reply>,
}

/// Those of one pipeline; a command is a pipeline of one.
type Reply = JoinHandle<RedisResult<Vec<Value>>>;

/// The replies of this session; those of an older one are forgotten with its connection.
fn unread(session: usize) -> MutexGuard<'static, Unread> {
    let mut unread = UNREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if unread.session != session {
        *unread = Unread { session, replies: VecDeque::new() };
    }
    unread
}

/// A connection that falls out of step while [`OldBug::LateReply`] is back. `session` tells connections apart.
pub(crate) struct OutOfStep<C> {
    pub(crate) connection: C,
    pub(crate) session: usize,
}

impl<C: ConnectionLike + Clone + Send + 'static> ConnectionLike for OutOfStep<C> {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        if !is_back(OldBug::LateReply) {
            return self.connection.req_packed_command(command);
        }
        let (mut connection, command) = (self.connection.clone(), command.clone());
        let own = tokio::spawn(async move { Ok(vec![connection.req_packed_command(&command).await?]) });
        let reading = self.first_unread(own);
        Box::pin(async move {
            let reply = reading.read().await?.pop();
            reply.ok_or_else(|| (ErrorKind::UnexpectedReturnType, "the reply to no command").into())
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        if !is_back(OldBug::LateReply) {
            return self.connection.req_packed_commands(commands, offset, count);
        }
        let (mut connection, commands) = (self.connection.clone(), commands.clone());
        let own = tokio::spawn(async move { connection.req_packed_commands(&commands, offset, count).await });
        Box::pin(self.first_unread(own).read())
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
    }
}

impl<C> OutOfStep<C> {
    /// The first reply that nobody has read, which is not always one's own.
    fn first_unread(&self, own: Reply) -> Reading {
        let mut unread = unread(self.session);
        unread.replies.push_back(own);
        Reading { session: self.session, reply: unread.replies.pop_front() }
    }
}

/// Waits for one reply; given up, it leaves the reply to the next command.
struct Reading {
    session: usize,
    reply: Option<Reply>,
}

impl Reading {
    async fn read(mut self) -> RedisResult<Vec<Value>> {
        let reply = self.reply.as_mut().expect("the queue held at least the reply to this very command");
        let read = reply.await;
        self.reply = None;
        read.unwrap_or_else(|_| Err((redis::ErrorKind::Io, "the runtime ends").into()))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            unread(self.session).replies.push_front(reply);
        }
    }
}
