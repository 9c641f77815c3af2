//! The backend of clients without an app server.
//!
//! The service answers handshakes and pings itself. Calls go to an upstream if one is
//! configured for them, those of one client one after another; others fail. Streams
//! are not supported.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_wire::signalr::frame::{self, FramedMessage, Splitter};
use steadfast_wire::signalr::message::{Invocation, Message, Outcome};
use steadfast_wire::signalr::{Protocol, handshake, write};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::backend::{HubBackend, NewClient};
use crate::connection::identity::ClientIdentity;
use crate::dispatch::gateway::ClientGateway;
use crate::mode::{Upstream, UpstreamEvent, UpstreamResponse};

/// All clients of one hub that have no app server.
pub(crate) struct ServerlessBackend {
    work: Arc<UpstreamDispatcher>,
    instance: String,
    guests: Mutex<HashMap<Arc<str>, Arc<ServerlessClient>>>,
}

struct UpstreamDispatcher {
    hub: String,
    reach: Arc<dyn ClientGateway>,
    upstream: Arc<dyn Upstream>,
}

/// One client, and the queue of its upstream events.
struct ServerlessClient {
    id: Arc<str>,
    caller: Arc<ClientIdentity>,
    protocol: Protocol,
    queue: Mutex<UpstreamQueue>,
    /// Number of calls that expect a completion.
    open: AtomicUsize,
    room: Notify,
    gone: CancellationToken,
}

#[derive(Default)]
struct UpstreamQueue {
    tasks: VecDeque<UpstreamTask>,
    bytes: usize,
    is_running: bool,
}

enum UpstreamTask {
    Connected,
    Call {
        id: Option<String>,
        target: String,
        body: Bytes,
    },
    Disconnected(Option<String>),
}

impl UpstreamTask {
    fn bytes(&self) -> usize {
        match self {
            Self::Call { body, .. } => body.len(),
            _ => 0,
        }
    }
}

impl ServerlessBackend {
    pub(crate) fn new(
        hub: &str,
        instance: &str,
        reach: Arc<dyn ClientGateway>,
        upstream: Arc<dyn Upstream>,
    ) -> Arc<Self> {
        Arc::new(Self {
            work: Arc::new(UpstreamDispatcher {
                hub: hub.to_owned(),
                reach,
                upstream,
            }),
            instance: instance.to_owned(),
            guests: Mutex::default(),
        })
    }

    fn guest(&self, connection: &str) -> Option<Arc<ServerlessClient>> {
        self.guests.lock().get(connection).cloned()
    }

    fn wants(&self, category: &str, name: &str) -> bool {
        self.work.upstream.wants(&self.work.hub, category, name)
    }

    fn add(&self, guest: &Arc<ServerlessClient>, task: UpstreamTask) {
        if guest.add(task) {
            tokio::spawn(name_task(Arc::clone(&self.work).run(Arc::clone(guest))));
        }
    }

    fn call(&self, guest: &Arc<ServerlessClient>, call: Invocation, message: &Bytes) {
        let target = &call.target;
        let refused = if call.is_stream || !call.streams.is_empty() {
            Some("Streams need an app server, and none serves this client.".to_owned())
        } else if !self.wants("messages", target) {
            Some(format!(
                "No upstream is configured for the method '{target}'."
            ))
        } else {
            None
        };
        if let Some(why) = refused {
            return self.work.complete(guest, call.id.as_deref(), why);
        }
        // It was just parsed as a message, so it has a body.
        let Ok(body) = frame::body(guest.protocol, message) else {
            return;
        };
        if call.id.is_some() {
            guest.open.fetch_add(1, Ordering::Relaxed);
        }
        self.add(
            guest,
            UpstreamTask::Call {
                id: call.id,
                target: call.target,
                body,
            },
        );
    }
}

impl HubBackend for ServerlessBackend {
    fn server(&self) -> &str {
        &self.instance
    }

    fn message_bytes(&self) -> usize {
        limits::CLIENT_MESSAGE_BYTES
    }

    fn open(&self, arrival: &NewClient) {
        let guest = Arc::new(ServerlessClient {
            id: Arc::clone(&arrival.id),
            caller: Arc::clone(&arrival.caller),
            protocol: arrival.protocol,
            queue: Mutex::default(),
            open: AtomicUsize::new(0),
            room: Notify::new(),
            gone: CancellationToken::new(),
        });
        let mut guests = self.guests.lock();
        guests.insert(Arc::clone(&arrival.id), Arc::clone(&guest));
        drop(guests);
        if arrival.from.is_none() {
            let accepted = Bytes::from_static(handshake::ACCEPTED);
            self.work.reach.data(&arrival.id, accepted);
        }
        if self.wants("connections", "connected") {
            self.add(&guest, UpstreamTask::Connected);
        }
    }

    fn room<'a>(&'a self, connection: &'a str) -> Option<BoxFuture<'a, ()>> {
        let guest = self.guest(connection)?;
        if guest.is_full() {
            Some(Box::pin(async move { guest.wait().await }))
        } else {
            None
        }
    }

    fn reads_messages(&self) -> bool {
        true
    }

    fn data(&self, connection: &str, message: FramedMessage) {
        let Some(guest) = self.guest(connection) else {
            return;
        };
        let (message, content) = message.content(guest.protocol);
        match content {
            Ok(Message::Invocation(call)) => self.call(&guest, call, &message),
            Ok(_) => {}
            Err(error) => {
                let why = format!("Connection closed with an error. {error}");
                self.work.reach.close(connection, Some(&why));
            }
        }
    }

    fn unanswered(&self, connection: &str) -> usize {
        let guest = self.guest(connection);
        guest.map_or(0, |guest| guest.open.load(Ordering::Relaxed))
    }

    fn close(&self, connection: &str, error: Option<&str>, _to: Option<&str>) {
        let Some(guest) = self.guests.lock().remove(connection) else {
            return;
        };
        guest.gone.cancel();
        if self.wants("connections", "disconnected") {
            self.add(&guest, UpstreamTask::Disconnected(error.map(str::to_owned)));
        }
    }
}

impl ServerlessClient {
    /// Queues a task. True if the caller must start the worker.
    fn add(&self, task: UpstreamTask) -> bool {
        let mut queue = self.queue.lock();
        queue.bytes += task.bytes();
        queue.tasks.push_back(task);
        !std::mem::replace(&mut queue.is_running, true)
    }

    fn next(&self) -> Option<UpstreamTask> {
        let mut queue = self.queue.lock();
        let task = queue.tasks.pop_front();
        match &task {
            Some(task) => queue.bytes -= task.bytes(),
            None => *queue = UpstreamQueue::default(),
        }
        drop(queue);
        self.room.notify_waiters();
        task
    }

    fn is_full(&self) -> bool {
        self.queue.lock().bytes > limits::CLIENT_CALL_BYTES
    }

    async fn wait(&self) {
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
}

impl UpstreamDispatcher {
    /// Sends a client's events until its queue is empty.
    async fn run(self: Arc<Self>, guest: Arc<ServerlessClient>) {
        while let Some(task) = guest.next() {
            match task {
                UpstreamTask::Connected => {
                    let body = json!({"type": 10}).to_string();
                    self.note(&guest, "connected", body).await;
                }
                UpstreamTask::Disconnected(error) => {
                    let body = json!({"type": 11, "error": error}).to_string();
                    self.note(&guest, "disconnected", body).await;
                }
                UpstreamTask::Call { id, target, body } => {
                    self.call(&guest, id, &target, body).await
                }
            }
        }
    }

    async fn note(&self, guest: &ServerlessClient, name: &str, body: String) {
        let event = self.event(guest, "connections", name, Bytes::from(body), false);
        let why = match self.upstream.tell(event).await {
            Ok(answer) if (200..300).contains(&answer.status) => return,
            Ok(answer) => format!("status code {}", answer.status),
            Err(why) => why,
        };
        let (hub, connection) = (&self.hub, &*guest.id);
        tracing::warn!(
            event = "realtime.upstream_failed",
            hub,
            connection,
            name,
            why
        );
    }

    async fn call(&self, guest: &ServerlessClient, id: Option<String>, target: &str, body: Bytes) {
        let is_packed = guest.protocol != Protocol::Json;
        let event = self.event(guest, "messages", target, body, is_packed);
        let answer = self.upstream.tell(event).await;
        let Some(id) = id else { return };
        guest.open.fetch_sub(1, Ordering::Relaxed);
        match outcome(answer, guest.protocol) {
            Ok(None) => {
                let done = write::completion(guest.protocol, &id, &Outcome::Void);
                self.reach.data(&guest.id, done);
            }
            Ok(Some(written)) => self.reach.data(&guest.id, written),
            Err(why) => self.complete(guest, Some(&id), why),
        }
    }

    fn event(
        &self,
        guest: &ServerlessClient,
        category: &'static str,
        name: &str,
        body: Bytes,
        is_packed: bool,
    ) -> UpstreamEvent {
        UpstreamEvent {
            hub: self.hub.clone(),
            category,
            name: name.to_owned(),
            connection: guest.id.to_string(),
            user: guest.caller.user.clone(),
            claims: guest.caller.claims.clone(),
            query: guest.caller.query.clone(),
            is_packed,
            body,
        }
    }

    fn complete(&self, guest: &ServerlessClient, id: Option<&str>, why: String) {
        if let Some(id) = id {
            let failed = write::completion(guest.protocol, id, &Outcome::Error(why));
            self.reach.data(&guest.id, failed);
        }
    }
}

/// The outcome of a call: a completion that the upstream has written, a void result,
/// or an error.
fn outcome(
    answer: Result<UpstreamResponse, String>,
    protocol: Protocol,
) -> Result<Option<Bytes>, String> {
    let UpstreamResponse { status, body } =
        answer.map_err(|why| format!("Invocation failed, {why}"))?;
    match status {
        200 if body.len() > limits::CLIENT_MESSAGE_BYTES => {
            Err("Invocation failed, the answer is too long".to_owned())
        }
        200 if !body.is_empty() => {
            if is_completion(protocol, &body) {
                Ok(Some(body))
            } else {
                Err("Invocation failed, the answer is no completion".to_owned())
            }
        }
        200 | 204 => Ok(None),
        other => Err(format!("Invocation failed, status code {other}")),
    }
}

/// Whether these bytes are one whole completion: anything else would break the
/// client.
fn is_completion(protocol: Protocol, body: &Bytes) -> bool {
    let mut splitter = Splitter::default();
    splitter.push(body.clone());
    let first = splitter.next(protocol, limits::CLIENT_MESSAGE_BYTES);
    let Ok(Some(first)) = first else { return false };
    let is_alone = !splitter.is_partial();
    let is_end = matches!(
        frame::read(protocol, &first),
        Ok(Message::Completion { .. })
    );
    is_alone && is_end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, body: &str) -> Result<Option<Bytes>, String> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        outcome(Ok(UpstreamResponse { status, body }), Protocol::Json)
    }

    #[test]
    fn only_a_completion_is_passed_on() {
        let good = "{\"type\":3,\"invocationId\":\"1\",\"result\":4}\u{1e}";
        assert_eq!(answered(200, good).unwrap().unwrap(), good);
        assert_eq!(answered(200, ""), Ok(None));
        assert_eq!(answered(204, ""), Ok(None));
        let failed = answered(500, "").unwrap_err();
        assert_eq!(failed, "Invocation failed, status code 500");
        let twice = format!("{good}{good}");
        for bad in ["{}\u{1e}", "hello", &twice, &good[..good.len() - 1]] {
            let why = answered(200, bad).unwrap_err();
            assert_eq!(
                why, "Invocation failed, the answer is no completion",
                "{bad}"
            );
        }
    }
}
