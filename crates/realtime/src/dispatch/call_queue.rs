//! The calls of one client at its dispatcher.
//!
//! Calls run one at a time and in order; those that stream, either way, run
//! concurrently. Pings, cancellations and results never wait for a call. A method takes
//! its arguments from a [`MethodCall`] when it runs.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use steadfast_core::limits;
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::message::Invocation;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::dispatch::context::Context;
use crate::dispatch::gateway::{read_value, write_value};
use crate::dispatch::upload::{UntypedUpload, Upload, UploadSender, upload};
use crate::error::{Error, HubError, HubResult};

/// A client of a dispatcher.
pub(crate) struct CallQueue {
    pub(crate) connection: Arc<str>,
    pub(crate) protocol: Protocol,
    pub(crate) context: Context,
    queue: Mutex<QueuedJobs>,
    streams: Mutex<OpenStreams>,
    /// Number of running or queued calls that expect a completion.
    open: AtomicUsize,
    /// A call has started, or an item of an upload was read.
    pub(crate) room: Arc<Notify>,
    /// The client has disconnected: streams end.
    pub(crate) gone: CancellationToken,
}

#[derive(Default)]
struct QueuedJobs {
    jobs: VecDeque<(ClientJob, usize)>,
    bytes: usize,
    is_running: bool,
}

#[derive(Default)]
struct OpenStreams {
    /// Uploads of the client, by the id that it has chosen.
    uploads: HashMap<String, UploadSender>,
    /// Streams that the client may cancel, by the id of their call.
    open: HashMap<String, CancellationToken>,
}

/// Jobs of a client, run in order.
pub(crate) enum ClientJob {
    Connected,
    Call(Invocation, Vec<UntypedUpload>),
    Disconnected {
        error: Option<String>,
        to: Option<String>,
    },
}

impl CallQueue {
    pub(crate) fn new(connection: Arc<str>, protocol: Protocol, context: Context) -> Self {
        Self {
            connection,
            protocol,
            queue: Mutex::default(),
            streams: Mutex::default(),
            open: AtomicUsize::new(0),
            room: Arc::new(Notify::new()),
            // One token serves both: the hub observes it, and it ends streams.
            gone: context.aborted().clone(),
            context,
        }
    }

    /// Queues a job. True if the caller must start the worker.
    pub(crate) fn add(&self, job: ClientJob, bytes: usize) -> bool {
        let mut queue = self.queue.lock();
        queue.jobs.push_back((job, bytes));
        queue.bytes += bytes;
        !std::mem::replace(&mut queue.is_running, true)
    }

    /// A call that expects a completion has arrived.
    pub(crate) fn begin_call(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// A call was completed.
    pub(crate) fn end_call(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Number of calls that expect a completion.
    pub(crate) fn unanswered(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// The next job; `None` ends the worker.
    pub(crate) fn next(&self) -> Option<ClientJob> {
        let mut queue = self.queue.lock();
        match queue.jobs.pop_front() {
            Some((job, bytes)) => {
                queue.bytes -= bytes;
                drop(queue);
                self.room.notify_waiters();
                Some(job)
            }
            None => {
                queue.is_running = false;
                queue.jobs = VecDeque::new();
                None
            }
        }
    }

    /// Whether reading from the client must pause.
    pub(crate) fn is_full(&self) -> bool {
        if self.queue.lock().bytes > limits::CLIENT_CALL_BYTES {
            return true;
        }
        self.streams
            .lock()
            .uploads
            .values()
            .any(UploadSender::is_full)
    }

    /// Waits until reading may continue.
    pub(crate) async fn wait(&self) {
        loop {
            let made = self.room.notified();
            if !self.is_full() {
                return;
            }
            tokio::select! {
                () = made => {}
                () = self.gone.cancelled() => return,
            }
        }
    }

    /// Opens the uploads of a call. `None` if there are too many, or an id is in use.
    pub(crate) fn open_uploads(&self, ids: &[String]) -> Option<Vec<UntypedUpload>> {
        let mut streams = self.streams.lock();
        let is_new = |id: &String| !streams.uploads.contains_key(id);
        let room = limits::CLIENT_STREAMS.saturating_sub(streams.uploads.len());
        if ids.len() > room || !ids.iter().all(is_new) {
            return None;
        }
        let mut raws = Vec::new();
        for id in ids {
            let (feed, raw) = upload(&self.room);
            streams.uploads.insert(id.clone(), feed);
            raws.push(raw);
        }
        Some(raws)
    }

    /// Adds an item to an upload; an item of an ended upload is ignored.
    pub(crate) fn feed(&self, id: &str, item: Bytes) {
        let mut streams = self.streams.lock();
        let is_read = streams.uploads.get(id).is_none_or(|feed| feed.put(item));
        if !is_read {
            streams.uploads.remove(id);
        }
    }

    /// Ends an upload. False if there is none of that id.
    pub(crate) fn end_upload(&self, id: &str, error: Option<String>) -> bool {
        let Some(feed) = self.streams.lock().uploads.remove(id) else {
            return false;
        };
        if let Some(why) = error {
            feed.fail(why);
        }
        true
    }

    /// Forgets uploads of a call that has ended.
    pub(crate) fn forget_uploads(&self, ids: &[String]) {
        let mut streams = self.streams.lock();
        for id in ids {
            streams.uploads.remove(id);
        }
        drop(streams);
        self.room.notify_waiters();
    }

    /// Opens a stream that the client may cancel. `None` if there are too many, or
    /// the id is in use.
    pub(crate) fn open_stream(&self, id: &str) -> Option<CancellationToken> {
        let mut streams = self.streams.lock();
        if streams.open.len() >= limits::CLIENT_STREAMS || streams.open.contains_key(id) {
            return None;
        }
        let token = self.gone.child_token();
        streams.open.insert(id.to_owned(), token.clone());
        Some(token)
    }

    /// The client cancels a stream.
    pub(crate) fn cancel(&self, id: &str) {
        if let Some(token) = self.streams.lock().open.get(id) {
            token.cancel();
        }
    }

    /// A stream has ended.
    pub(crate) fn close_stream(&self, id: &str) {
        self.streams.lock().open.remove(id);
    }

    /// The client has disconnected.
    pub(crate) fn end(&self) {
        self.gone.cancel();
        self.streams.lock().uploads.clear();
        self.room.notify_waiters();
    }
}

/// One call of a method: its context and arguments.
pub struct MethodCall {
    pub(crate) context: Context,
    pub(crate) protocol: Protocol,
    pub(crate) arguments: std::vec::IntoIter<Bytes>,
    pub(crate) uploads: std::vec::IntoIter<UntypedUpload>,
}

impl MethodCall {
    /// The context of the call.
    pub fn context(&self) -> Context {
        self.context.clone()
    }

    /// The next argument.
    pub fn argument<T: DeserializeOwned>(&mut self) -> Result<T, MethodResponse> {
        let raw = self.arguments.next().unwrap_or_default();
        read_value(self.protocol, &raw).map_err(MethodResponse::Unfit)
    }

    /// The next stream of the client.
    pub fn upload<T: DeserializeOwned>(&mut self) -> Result<Upload<T>, MethodResponse> {
        let missing = || MethodResponse::Failed(HubError::new("a stream is missing"));
        let raw = self.uploads.next().ok_or_else(missing)?;
        Ok(raw.typed(self.protocol))
    }

    /// The protocol of the response.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }
}

/// The response of a method.
pub enum MethodResponse {
    /// A serialized value.
    Value(Bytes),
    /// Nothing.
    Void,
    /// A stream of items.
    Stream(BoxStream<'static, HubResult<Bytes>>),
    /// An argument does not have the type of its parameter.
    Unfit(Error),
    /// The method has failed.
    Failed(HubError),
}

impl MethodResponse {
    /// A response with a value.
    pub fn value<T: Serialize>(protocol: Protocol, value: &T) -> Self {
        match write_value(protocol, value) {
            Ok(raw) => Self::Value(raw),
            Err(error) => Self::Failed(error.into()),
        }
    }

    /// A response with a value or an error.
    pub fn result<T: Serialize, E: Into<HubError>>(
        protocol: Protocol,
        result: Result<T, E>,
    ) -> Self {
        match result {
            Ok(value) => Self::value(protocol, &value),
            Err(error) => Self::Failed(error.into()),
        }
    }

    /// A response with a stream of items.
    pub fn stream<S>(protocol: Protocol, items: S) -> Self
    where
        S: Stream + Send + 'static,
        S::Item: Serialize + Send,
    {
        let items = items.map(move |item| Ok(write_value(protocol, &item)?));
        Self::Stream(items.boxed())
    }

    /// A response with a stream of items that may fail.
    pub fn try_stream<S, T, E>(protocol: Protocol, items: S) -> Self
    where
        S: Stream<Item = Result<T, E>> + Send + 'static,
        T: Serialize + Send,
        E: Into<HubError> + Send,
    {
        let items = items.map(move |item| match item {
            Ok(item) => Ok(write_value(protocol, &item)?),
            Err(error) => Err(error.into()),
        });
        Self::Stream(items.boxed())
    }
}
