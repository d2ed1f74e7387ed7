//! One line: takes questions in, answers those that L1 can answer in the same turn and the others by tasks, and writes the
//! answers in whatever order they come. No question waits for another.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, Response, header};
use placement::UserId;
use service::request_metrics::Route;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use wire::headers::X_REQUEST_TIMEOUT_MS;
use wire::line::frame::{TO_NODE_MAX, first};
use wire::line::{
    FromNode, LineInvalid, OUTSTANDING_MAX, RawHeaders, Read, ToNode, VALUE_MAX, name_hash, write_answer,
    write_elsewhere,
};

use crate::entry_name::AskedName;
use crate::http::deadline::{read_until, until};
use crate::http::hit::{self, PlainQuestion};
use crate::http::reads;
use crate::limits;
use crate::node::Node;

/// Why a line ended before its gateway closed it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("the connection broke: {0}")]
    Connection(#[from] std::io::Error),
    #[error("{0}")]
    Frame(#[from] LineInvalid),
    #[error("a question about what is no user or no key")]
    Name,
    #[error("the gateway neither sends nor takes anything")]
    Silent,
    /// A bug of ours; as with a request of its own, its connection ends and no other.
    #[error("a read panicked")]
    Panicked(#[from] JoinError),
}

/// What an answer needs of its question.
struct Question {
    id: u64,
    user: UserId,
    name: u64,
    head_only: bool,
    began: Instant,
}

/// Serves a line until its gateway closes it; what is still being read then is dropped, as with any client that goes away.
pub(super) async fn serve<C>(node: Arc<Node>, connection: C, stop: &CancellationToken) -> Result<(), Ended>
where
    C: AsyncRead + AsyncWrite,
{
    let (mut from_gateway, mut to_gateway) = tokio::io::split(connection);
    let mut line = Line { node, inbox: BytesMut::new(), out: BytesMut::new(), reads: JoinSet::new() };
    let mut look = std::pin::pin!(sleep(limits::LINE_SILENCE));
    let mut stopped = std::pin::pin!(stop.cancelled());
    let (mut moved, mut said_goodbye) = (true, false);
    loop {
        line.take_questions()?;
        line.inbox.reserve(limits::LINE_READ);
        let (out_has_room, has_room) = (line.out_has_room(), line.has_room());
        tokio::select! {
            biased;
            written = to_gateway.write_buf(&mut line.out), if !line.out.is_empty() => {
                if written? == 0 {
                    return Err(Ended::Silent);
                }
                moved = true;
            }
            read = from_gateway.read_buf(&mut line.inbox), if has_room => {
                if read? == 0 {
                    return Ok(());
                }
                moved = true;
            }
            Some(done) = line.reads.join_next(), if out_has_room => line.put_done(done?)?,
            () = stopped.as_mut(), if !said_goodbye => {
                said_goodbye = true;
                FromNode::write_goodbye(&mut line.out);
            }
            () = look.as_mut() => {
                if !std::mem::take(&mut moved) {
                    return Err(Ended::Silent);
                }
                look.as_mut().reset(Instant::now() + limits::LINE_SILENCE);
            }
        }
    }
}

struct Line {
    node: Arc<Node>,
    inbox: BytesMut,
    out: BytesMut,
    /// Reads in progress. Dropped with the line.
    reads: JoinSet<(Question, Response<Bytes>)>,
}

impl Line {
    fn out_has_room(&self) -> bool {
        self.out.len() < limits::LINE_OUT_MAX
    }

    /// Whether one more question can be taken.
    fn has_room(&self) -> bool {
        self.out_has_room() && self.reads.len() < OUTSTANDING_MAX
    }

    /// Takes all questions that are there whole, as far as there is room.
    fn take_questions(&mut self) -> Result<(), Ended> {
        let inbox = std::mem::take(&mut self.inbox);
        let mut rest = &inbox[..];
        while self.has_room()
            && let Some(length) = first(rest, TO_NODE_MAX)?
        {
            match ToNode::read(&rest[..length])? {
                ToNode::Read(read, headers) => self.take(read, headers)?,
                ToNode::Beat => FromNode::write_beat(&mut self.out),
            }
            rest = &rest[length..];
        }
        let taken = inbox.len() - rest.len();
        self.inbox = inbox;
        self.inbox.advance(taken);
        Ok(())
    }

    /// Answers a question or has it answered.
    fn take(&mut self, read: Read<'_>, headers: RawHeaders<'_>) -> Result<(), Ended> {
        // The gateway has checked both, and answers for what is wrong with them.
        let name = AskedName::of(read.user.as_bytes(), read.key).ok_or(Ended::Name)?;
        let name = name.under(self.node.slots.served_under(name.slot, name.user));
        let Read { id, head_only, detached, .. } = read;
        let about = name_hash(name.user, name.key);
        let mut conditions = conditions(headers)?;
        let until = until(&conditions, Instant::now());
        conditions.remove(X_REQUEST_TIMEOUT_MS);
        // What is answered at once is done before anything else could begin: a look at the bound will do.
        let has_place = self.node.in_progress.available_permits() > 0;
        if has_place && !detached && conditions.is_empty() {
            let question = PlainQuestion { id, name, about, head_only };
            if hit::answer_on_line(&self.node, &question, &mut self.out).is_some() {
                return Ok(());
            }
        }
        let name = name.to_entry_name();
        let question = Question { id, user: name.user.clone(), name: about, head_only, began: Instant::now() };
        if !has_place {
            self.put(question, reads::overloaded());
            return Ok(());
        }
        let node = Arc::clone(&self.node);
        if detached {
            self.begin(question, until, async move { reads::detached(&node, &name, &conditions).await });
        } else if let Some(answer) = reads::at_once(&node, &name, &conditions) {
            self.put(question, answer);
        } else {
            self.begin(question, until, async move { reads::owned(&node, &name, &conditions).await });
        }
        Ok(())
    }

    /// Has a task read; it is one of those in progress.
    fn begin(
        &mut self,
        question: Question,
        until: Option<Instant>,
        read: impl Future<Output = Response<Bytes>> + Send + 'static,
    ) {
        let node = Arc::clone(&self.node);
        self.reads.spawn(async move {
            let answer = match node.in_progress.try_acquire() {
                Ok(_permit) => read_until(until, read).await,
                Err(_) => reads::overloaded(),
            };
            (question, answer)
        });
    }

    /// Puts a read that is done among the answers, and whatever else is done.
    fn put_done(&mut self, (question, answer): (Question, Response<Bytes>)) -> Result<(), Ended> {
        self.put(question, answer);
        while self.out_has_room()
            && let Some(done) = self.reads.try_join_next()
        {
            let (question, answer) = done?;
            self.put(question, answer);
        }
        Ok(())
    }

    fn put(&mut self, question: Question, mut answer: Response<Bytes>) {
        let Question { id, user, name, head_only, began } = question;
        // What goes elsewhere is asked again there, and counted there.
        if !head_only && answer.body().len() > VALUE_MAX {
            write_elsewhere(&mut self.out, id, name);
            return;
        }
        let sent = if head_only { 0 } else { answer.body().len() as u64 };
        reads::account(&self.node, user.as_str(), answer.status(), sent);
        let route = if head_only { Route::head } else { Route::get };
        reads::conclude(&self.node, &mut answer, route, began.elapsed());
        if write_answer(&mut self.out, id, name, &answer, head_only).is_err() {
            write_elsewhere(&mut self.out, id, name);
        }
    }
}

/// The headers on which an answer depends, and how long it is of use.
fn conditions(headers: RawHeaders<'_>) -> Result<HeaderMap, LineInvalid> {
    let mut conditions = HeaderMap::new();
    for line in headers.iter() {
        let (name, value) = line?;
        if [header::IF_MATCH, header::IF_NONE_MATCH, X_REQUEST_TIMEOUT_MS].contains(name) {
            conditions.append(name, value);
        }
    }
    Ok(conditions)
}
