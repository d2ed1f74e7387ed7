//! The body of a node's answer, streamed; holds the connection until it has ended.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};

use super::InUse;
use crate::limits;

/// An answer that stopped half-way.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerCut {
    /// The connection to the node broke.
    #[error("the node's answer broke off")]
    Broken(#[source] hyper::Error),
    /// The node keeps the connection but sends nothing.
    #[error("the node stopped in the middle of its answer")]
    Frozen,
}

/// Streams at the client's pace. A node that dies half-way is an error here, never an end.
pub(crate) struct UpstreamBody {
    body: Incoming,
    connection: Option<InUse>,
    /// Runs only while the node is waited for, never while the client is.
    patience: Option<Pin<Box<Sleep>>>,
}

impl UpstreamBody {
    pub(super) fn new(body: Incoming, connection: InUse) -> Self {
        let mut this = Self { body, connection: Some(connection), patience: None };
        this.give_back_at_the_end();
        this
    }

    fn give_back_at_the_end(&mut self) {
        if self.body.is_end_stream()
            && let Some(connection) = self.connection.take()
        {
            connection.give_back();
        }
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = AnswerCut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnswerCut>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) else {
            let patience = this.patience.get_or_insert_with(|| Box::pin(sleep(limits::ANSWER_PAUSE)));
            ready!(patience.as_mut().poll(context));
            this.connection = None;
            return Poll::Ready(Some(Err(AnswerCut::Frozen)));
        };
        this.patience = None;
        match &frame {
            Some(Ok(_)) => this.give_back_at_the_end(),
            None => {
                if let Some(connection) = this.connection.take() {
                    connection.give_back();
                }
            }
            Some(Err(_)) => this.connection = None,
        }
        Poll::Ready(frame.map(|frame| frame.map_err(AnswerCut::Broken)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
