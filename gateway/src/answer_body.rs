//! The body of an answer to a client: whole, streamed from a node, or a page of the gateway's own. Not boxed.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body as Page;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::access_log::LoggedBody;
use crate::upstream::UpstreamBody;

/// What a client is sent.
pub(crate) enum AnswerBody {
    /// All of it is here.
    Whole(Bytes),
    /// A node is still sending it.
    Streamed(UpstreamBody),
    /// An answer of the router.
    Page(Page),
    /// One whose record is written at its end.
    Logged(Box<LoggedBody>),
}

impl From<Bytes> for AnswerBody {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Streamed(body) => {
                Pin::new(body).poll_frame(context).map(|frame| frame.map(|f| f.map_err(Into::into)))
            }
            Self::Page(body) => Pin::new(body).poll_frame(context).map(|frame| frame.map(|f| f.map_err(Into::into))),
            Self::Logged(logged) => {
                let polled = Pin::new(&mut logged.body).poll_frame(context);
                if let Poll::Ready(Some(Ok(frame))) = &polled {
                    logged.sends(frame.data_ref());
                }
                polled
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Streamed(body) => body.is_end_stream(),
            Self::Page(body) => body.is_end_stream(),
            Self::Logged(logged) => logged.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Streamed(body) => body.size_hint(),
            Self::Page(body) => body.size_hint(),
            Self::Logged(logged) => logged.body.size_hint(),
        }
    }
}
