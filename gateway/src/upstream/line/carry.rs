//! The task of one line: writes what is aboard, many questions at a time, and hands out the answers.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Buf, Bytes, BytesMut};
use http::Response;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use wire::line::frame::{FROM_NODE_MAX, first};
use wire::line::{FromNode, LineInvalid, RawAnswer, ToNode};

use super::waiting::OutOfStep;
use super::{Ending, Line, Said, Told};
use crate::limits;
use crate::upstream::SendFailed;

/// Why a line ended though it was wanted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("the connection broke: {0}")]
    Connection(#[from] std::io::Error),
    #[error("{0}")]
    Frame(#[from] LineInvalid),
    #[error("{0}")]
    OutOfStep(#[from] OutOfStep),
    #[error("the node is silent")]
    Silent,
    #[error("the node closed it")]
    Closed,
}

/// Carries until the line is retired and everybody has an answer, or until it breaks. `inbox` is what was read already.
pub(in crate::upstream) async fn carry<R, W>(
    line: &Arc<Line>,
    (mut from, mut to): (R, W),
    mut inbox: BytesMut,
) -> Result<(), Ended>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let _ending = Ending(line);
    let mut out = BytesMut::new();
    line.hand_out(&mut inbox)?;
    let mut clock = Clock::new();
    let mut tick = std::pin::pin!(sleep(limits::LINE_TICK_IDLE));
    loop {
        let busy = line.take_aboard(&mut out);
        inbox.reserve(limits::LINE_READ);
        if busy && std::mem::take(&mut clock.idle) {
            // Somebody waits now, and not longer than to the deadline.
            tick.as_mut().reset(Instant::now() + limits::LINE_TICK);
        }
        tokio::select! {
            biased;
            read = from.read_buf(&mut inbox) => {
                if read? == 0 {
                    return Err(Ended::Closed);
                }
                clock.heard = true;
                line.hand_out(&mut inbox)?;
            }
            written = to.write(&out), if !out.is_empty() => {
                match written? {
                    0 => return Err(Ended::Closed),
                    length => out.advance(length),
                }
            }
            () = line.wake.notified(), if out.is_empty() => {
                // Where there are others, those that were woken with this one come aboard first: one write for them all.
                if line.board().waiting.are_several() {
                    after_this_turn().await;
                }
            }
            () = tick.as_mut() => {
                let now = Instant::now();
                if line.look(now) && out.is_empty() {
                    return Ok(());
                }
                clock.look(now, &mut out)?;
                clock.idle = line.board().waiting.is_empty();
                tick.as_mut().reset(now + if clock.idle { limits::LINE_TICK_IDLE } else { limits::LINE_TICK });
            }
        }
    }
}

/// Waits until the tasks that are ready have had their turn. `yield_now` would wait for one more look at all sockets as well,
/// which is a system call for each write of the line, and longest where few requests share one.
async fn after_this_turn() {
    let mut waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        // A task that wakes itself goes behind all others.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// When the node was heard last, kept without a look at the clock for each read.
struct Clock {
    /// Something came since the last look.
    heard: bool,
    heard_at: Instant,
    beaten_at: Instant,
    /// At the last look nobody waited.
    idle: bool,
}

impl Clock {
    fn new() -> Self {
        let now = Instant::now();
        Self { heard: true, heard_at: now, beaten_at: now, idle: true }
    }

    /// Beats where the node has said nothing for a while; one that is silent all the same has lost the line, or stands still.
    fn look(&mut self, now: Instant, out: &mut BytesMut) -> Result<(), Ended> {
        if std::mem::take(&mut self.heard) {
            self.heard_at = now;
        }
        let silent = now - self.heard_at;
        if silent >= limits::LINE_SILENCE {
            return Err(Ended::Silent);
        }
        if now - self.heard_at.max(self.beaten_at) >= limits::LINE_BEAT && out.len() < limits::LINE_OUT_MAX {
            self.beaten_at = now;
            ToNode::write_beat(out);
        }
        Ok(())
    }
}

impl Line {
    /// Moves what is to be written into `out` once that is empty; says whether anybody waits.
    fn take_aboard(&self, out: &mut BytesMut) -> bool {
        let mut board = self.board();
        if out.is_empty() {
            std::mem::swap(&mut board.out, out);
        }
        board.asleep = out.is_empty();
        !board.waiting.is_empty()
    }

    /// Gives the answers in `inbox` to those who asked.
    fn hand_out(&self, inbox: &mut BytesMut) -> Result<(), Ended> {
        let mut answered = Vec::new();
        let mut rest = &inbox[..];
        let mut board = self.board();
        while let Some(length) = first(rest, FROM_NODE_MAX)? {
            match FromNode::read(&rest[..length])? {
                FromNode::Answer { id, name, answer } => {
                    let question = board.waiting.answered(id, name)?;
                    answered.extend(question.to.map(|to| (to, Some((answer, question.head_only)))));
                }
                FromNode::Elsewhere { id, name } => {
                    answered.extend(board.waiting.answered(id, name)?.to.map(|to| (to, None)));
                }
                FromNode::Beat => {}
                FromNode::Goodbye => board.closed = true,
            }
            rest = &rest[length..];
        }
        drop(board);
        let taken = inbox.len() - rest.len();
        for (to, answer) in answered {
            tell(to, answer)?;
        }
        inbox.advance(taken);
        Ok(())
    }

    /// Lets those go whose time is over, and retires a line on which an answer never comes. Whether the line has served.
    fn look(&self, now: Instant) -> bool {
        let mut board = self.board();
        let late = board.waiting.expired(now);
        if board.waiting.overdue(now, limits::LINE_OVERDUE) {
            board.closed = true;
        }
        let served = board.closed && !board.waiting.somebody_waits(oneshot::Sender::is_closed);
        drop(board);
        late.into_iter().for_each(|to| drop(to.send(Err(SendFailed::TimedOut))));
        served
    }
}

/// An answer that nobody waits for any more goes to nobody.
fn tell(to: oneshot::Sender<Told>, answer: Option<(RawAnswer<'_>, bool)>) -> Result<(), LineInvalid> {
    if to.is_closed() {
        return Ok(());
    }
    let response: Option<Response<Bytes>> = answer.map(|(answer, head_only)| answer.read(head_only)).transpose()?;
    let _ = to.send(Ok(response.map_or(Said::Elsewhere, Said::Answer)));
    Ok(())
}
