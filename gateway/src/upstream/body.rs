//! The body of a node's answer, streamed; holds the connection until it has ended.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::InUse;

/// Streams at the client's pace. A node that dies half-way is an error here, never an end.
pub(crate) struct UpstreamBody {
    body: Incoming,
    connection: Option<InUse>,
}

impl UpstreamBody {
    pub(super) fn new(body: Incoming, connection: InUse) -> Self {
        let mut this = Self { body, connection: Some(connection) };
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
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match &frame {
            Some(Ok(_)) => self.give_back_at_the_end(),
            None => {
                if let Some(connection) = self.connection.take() {
                    connection.give_back();
                }
            }
            Some(Err(_)) => self.connection = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
