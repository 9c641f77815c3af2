//! Responses, and clients that do not read them.
//!
//! A response is handed out in chunks. Each counts until the connection has written it,
//! so an HTTP/2 stream without a window counts like a full socket. A connection with a
//! chunk older than [`limits::ANSWER_TIME`] is closed, and one with many unread bytes
//! has its next requests wait.
//!
//! Before its proof a connection is answered one request at a time, and only while it
//! reads: its requests and unread responses count as memory that it holds.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use bytes::{Buf, Bytes};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use steadfast_core::limits;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::listen::Admission;

/// The responses of one connection.
pub(super) struct ConnectionResponses {
    admission: Option<Admission>,
    /// The turn of one request at a time before the proof.
    turns: Semaphore,
    unread: Mutex<UnreadBytes>,
    /// A chunk was handed out while the stall watch was off.
    begun: Notify,
    /// Bytes were read.
    moved: Notify,
}

#[derive(Default)]
struct UnreadBytes {
    /// Chunks that are not written yet, by number.
    pieces: BTreeMap<u64, usize>,
    next: u64,
    /// Bytes of responses that are wholly in memory, and of chunks.
    bytes: usize,
    is_watched: bool,
}

/// The body of a response, in chunks.
pub(super) struct ResponseBody {
    inner: Body,
    rest: Bytes,
    /// The known part of its length, which is charged already.
    charged: usize,
    answers: Arc<ConnectionResponses>,
}

/// A chunk of a response; dropped when it is written.
pub(super) struct ResponseChunk {
    bytes: Bytes,
    number: u64,
    answers: Arc<ConnectionResponses>,
}

impl ConnectionResponses {
    pub(super) fn new(admission: Option<Admission>) -> Arc<Self> {
        Arc::new(Self {
            admission,
            turns: Semaphore::new(1),
            unread: Mutex::default(),
            begun: Notify::default(),
            moved: Notify::default(),
        })
    }

    /// Waits until a request may be answered. Before the proof of its connection it holds
    /// the turn until its response is counted.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        if let Some(admission) = self.admission.as_ref().filter(|own| !own.is_proven()) {
            let turn = async {
                let turn = self.turns.acquire().await;
                self.room(limits::ANSWERS_UNPROVEN_BYTES).await;
                turn
            };
            tokio::select! {
                turn = turn => return turn.ok(),
                () = admission.wait_for_proof() => {}
            }
        }
        self.room(limits::ANSWERS_BYTES).await;
        None
    }

    /// Counts a response until it is written.
    pub(super) fn count(self: &Arc<Self>, inner: Body) -> ResponseBody {
        // A long response is streamed: its unread part is not in memory.
        let length = HttpBody::size_hint(&inner).lower();
        let charged = length.min(limits::ANSWER_CHARGED_BYTES) as usize;
        self.unread.lock().bytes += charged;
        self.hold(charged);
        ResponseBody {
            inner,
            rest: Bytes::new(),
            charged,
            answers: Arc::clone(self),
        }
    }

    /// Charges the connection before its proof. If all connections together exceed the
    /// limit, the largest one is closed.
    fn hold(&self, bytes: usize) {
        if let Some(admission) = &self.admission {
            let _ = admission.hold(bytes);
        }
    }

    /// Backpressure: waits until the client has read enough of earlier responses.
    async fn room(&self, most: usize) {
        loop {
            let moved = self.moved.notified();
            if self.unread.lock().bytes < most {
                return;
            }
            moved.await;
        }
    }

    /// Returns when a chunk stays unwritten for too long. It sleeps while all chunks are
    /// written.
    pub(super) async fn stalled(&self) {
        loop {
            let is_idle = {
                let mut unread = self.unread.lock();
                unread.is_watched = !unread.pieces.is_empty();
                !unread.is_watched
            };
            if is_idle {
                self.begun.notified().await;
            }
            let newest = self.unread.lock().next;
            tokio::time::sleep(limits::ANSWER_TIME).await;
            let unread = self.unread.lock();
            let oldest = unread.pieces.first_key_value();
            if oldest.is_some_and(|(number, _)| *number < newest) {
                return;
            }
        }
    }

    fn piece(self: &Arc<Self>, bytes: Bytes) -> ResponseChunk {
        self.hold(bytes.len());
        let mut unread = self.unread.lock();
        let number = unread.next;
        unread.next += 1;
        unread.pieces.insert(number, bytes.len());
        unread.bytes += bytes.len();
        if !std::mem::replace(&mut unread.is_watched, true) {
            self.begun.notify_one();
        }
        ResponseChunk {
            bytes,
            number,
            answers: Arc::clone(self),
        }
    }

    fn free(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.unread.lock().bytes -= bytes;
        if let Some(admission) = &self.admission {
            admission.release(bytes);
        }
        self.moved.notify_waiters();
    }
}

impl ResponseBody {
    /// The next chunk of the available bytes.
    fn split(&mut self) -> ResponseChunk {
        let length = self.rest.len().min(limits::ANSWER_PIECE_BYTES);
        let bytes = self.rest.split_to(length);
        let piece = self.answers.piece(bytes);
        // From now on it is counted as a chunk.
        let charged = self.charged.min(length);
        self.charged -= charged;
        self.answers.free(charged);
        piece
    }
}

impl HttpBody for ResponseBody {
    type Data = ResponseChunk;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<ResponseChunk>, axum::Error>>> {
        while self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            };
            match frame.into_data() {
                Ok(bytes) => self.rest = bytes,
                Err(frame) => {
                    let Ok(trailers) = frame.into_trailers() else {
                        continue;
                    };
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
            }
        }
        let piece = self.split();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && HttpBody::is_end_stream(&self.inner)
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let inner = HttpBody::size_hint(&self.inner);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.answers.free(self.charged);
    }
}

impl Buf for ResponseChunk {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

impl Drop for ResponseChunk {
    fn drop(&mut self) {
        let length = self.answers.unread.lock().pieces.remove(&self.number);
        self.answers.free(length.unwrap_or_default());
    }
}
