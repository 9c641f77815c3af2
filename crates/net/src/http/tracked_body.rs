//! Request bodies that may be answered before their end.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::http::{Request, Version};
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::listen::UnreadRequest;

/// A body that records on its connection whether all of it was read.
pub(super) struct TrackedBody {
    source: Incoming,
    has_ended: bool,
    /// None with HTTP/2: its streams end one by one.
    unread: Option<UnreadRequest>,
}

/// Tracks the body of a request.
pub(super) fn track(request: Request<Incoming>, unread: &UnreadRequest) -> Request<TrackedBody> {
    let is_alone = request.version() < Version::HTTP_2;
    request.map(|source| TrackedBody {
        source,
        has_ended: false,
        unread: is_alone.then(|| unread.clone()),
    })
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.source).poll_frame(context));
        self.has_ended |= frame.is_none();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.source.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.source.size_hint()
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        if let Some(unread) = &self.unread {
            unread.set(!self.has_ended && !self.source.is_end_stream());
        }
    }
}
