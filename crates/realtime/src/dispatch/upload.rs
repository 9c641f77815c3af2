//! Streams that a client sends to a hub's method.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use futures_util::Stream;
use serde::de::DeserializeOwned;
use steadfast_core::limits;
use steadfast_wire::signalr::Protocol;
use tokio::sync::{Notify, mpsc};

use crate::dispatch::gateway::read_value;
use crate::error::{Error, ErrorKind, Result};

/// Items of a client's stream, in their order. An error is the last item.
pub struct Upload<T> {
    protocol: Protocol,
    items: mpsc::UnboundedReceiver<Result<Bytes>>,
    waiting: Arc<AtomicUsize>,
    room: Arc<Notify>,
    of: PhantomData<fn() -> T>,
}

/// The sending end of an upload. The sender enforces the bound: it checks
/// [`UploadSender::is_full`] before it reads more.
pub(crate) struct UploadSender {
    items: mpsc::UnboundedSender<Result<Bytes>>,
    waiting: Arc<AtomicUsize>,
}

/// The receiving end of an upload before its type is known.
pub(crate) struct UntypedUpload {
    items: mpsc::UnboundedReceiver<Result<Bytes>>,
    waiting: Arc<AtomicUsize>,
    room: Arc<Notify>,
}

/// Both ends of an upload; `room` is notified when an item was read.
pub(crate) fn upload(room: &Arc<Notify>) -> (UploadSender, UntypedUpload) {
    let (sender, items) = mpsc::unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let feed = UploadSender {
        items: sender,
        waiting: Arc::clone(&waiting),
    };
    let raw = UntypedUpload {
        items,
        waiting,
        room: Arc::clone(room),
    };
    (feed, raw)
}

impl UploadSender {
    /// Adds an item. False if the receiver was dropped.
    pub(crate) fn put(&self, item: Bytes) -> bool {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.items.send(Ok(item)).is_ok()
    }

    /// Ends it with an error.
    pub(crate) fn fail(&self, why: String) {
        // A dropped receiver needs no error.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _ = self.items.send(Err(Error::new(ErrorKind::Client(why))));
    }

    /// Whether reading from the connection must pause.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) >= limits::UPLOAD_ITEMS && !self.items.is_closed()
    }
}

impl UntypedUpload {
    pub(crate) fn typed<T>(self, protocol: Protocol) -> Upload<T> {
        Upload {
            protocol,
            items: self.items,
            waiting: self.waiting,
            room: self.room,
            of: PhantomData,
        }
    }
}

impl<T: DeserializeOwned> Upload<T> {
    /// The next item; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<T>> {
        let item = self.items.recv().await?;
        Some(self.taken(item))
    }

    fn taken(&self, item: Result<Bytes>) -> Result<T> {
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.room.notify_waiters();
        read_value(self.protocol, &item?)
    }
}

impl<T: DeserializeOwned> Stream for Upload<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Result<T>>> {
        let next = self.items.poll_recv(cx);
        next.map(|item| item.map(|item| self.taken(item)))
    }
}

impl<T> Drop for Upload<T> {
    fn drop(&mut self) {
        // The receiver was dropped: wake the senders that wait for room.
        self.items.close();
        self.room.notify_waiters();
    }
}
