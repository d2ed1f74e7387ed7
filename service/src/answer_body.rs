//! The body of an answer: most are whole, small and known, and need no box.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// A body that is here already, or one of any other kind.
#[derive(Debug)]
pub enum AnswerBody {
    /// All of it, or what is left.
    Whole(Bytes),
    /// As the router and streams have it.
    Other(axum::body::Body),
}

impl From<Bytes> for AnswerBody {
    fn from(whole: Bytes) -> Self {
        Self::Whole(whole)
    }
}

impl From<axum::body::Body> for AnswerBody {
    fn from(other: axum::body::Body) -> Self {
        Self::Other(other)
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Other(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Other(body) => body.size_hint(),
        }
    }
}
