//! One line to a node (`wire::line`): many requests put their questions aboard, one task carries them over and hands out the
//! answers.
//!
//! A request waits for its own answer alone, and may go away at any moment: its place stays taken until the answer has come,
//! so that no later question can be given it.

mod carry;
mod open;
mod waiting;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use wire::line::{Read, name_hash, write_read};

use super::SendFailed;
use crate::limits;
use waiting::Waiting;

pub(super) use carry::carry;
pub(super) use open::{Refused, open};

/// A read of one entry, as far as lines are concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) user: &'a str,
    pub(crate) key: &'a str,
    pub(crate) head_only: bool,
    pub(crate) detached: bool,
    pub(crate) request_id: &'a [u8],
    /// Those that go on to a node.
    pub(crate) headers: &'a HeaderMap,
}

/// What comes of a question.
pub(super) type Told = Result<Said, SendFailed>;

/// What a node said.
#[derive(Debug)]
pub(super) enum Said {
    /// The answer.
    Answer(Response<Bytes>),
    /// That the answer does not fit on a line.
    Elsewhere,
}

/// A line that is open, or was.
#[derive(Debug, Default)]
pub(super) struct Line {
    board: Mutex<Board>,
    /// Wakes the task that carries.
    wake: Notify,
}

#[derive(Debug, Default)]
struct Board {
    /// Questions that have not been written yet.
    out: BytesMut,
    waiting: Waiting<oneshot::Sender<Told>>,
    /// Whether the task must be woken when there is something to write.
    asleep: bool,
    /// Nobody comes aboard any more.
    closed: bool,
}

impl Line {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a question aboard; `None`: it does not fit, the line is full or closed. The answer is waited for until `deadline`.
    pub(super) fn ask(&self, question: &Question<'_>, deadline: Instant) -> Option<oneshot::Receiver<Told>> {
        let name = name_hash(question.user, question.key);
        let (to, told) = oneshot::channel();
        let mut board = self.board();
        if board.closed || board.out.len() > limits::LINE_OUT_MAX {
            return None;
        }
        let id = board.waiting.next_id()?;
        let Question { user, key, head_only, detached, request_id, headers } = *question;
        let read = Read { id, head_only, detached, user, key, request_id };
        write_read(&mut board.out, &read, headers.iter()).ok()?;
        board.waiting.begin(id, waiting::Place { name, head_only, deadline, to: Some(to) });
        let wake = std::mem::take(&mut board.asleep);
        drop(board);
        if wake {
            self.wake.notify_one();
        }
        Some(told)
    }

    /// Lets nobody aboard any more; the task ends once those who are have been answered.
    pub(super) fn retire(&self) {
        self.board().closed = true;
        self.wake.notify_one();
    }
}

/// Ends a line, however its task ends: those who still wait learn that it broke.
struct Ending<'a>(&'a Arc<Line>);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let waiting = {
            let mut board = self.0.board();
            board.closed = true;
            std::mem::take(&mut board.waiting)
        };
        waiting.into_waiters().for_each(|to| drop(to.send(Err(SendFailed::Broken))));
    }
}

#[cfg(test)]
mod tests;
