//! Dispatches client messages to the methods of a hub.
//!
//! The dispatcher is a backend: it receives whole messages, calls the hub's methods,
//! and responds through its client gateway. It is the same in the service's process
//! and in an app server.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _};
use parking_lot::Mutex;
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_wire::signalr::frame::{self, FramedMessage};
use steadfast_wire::signalr::message::{Invocation, Message, Outcome};
use steadfast_wire::signalr::service::ClientCompletion;
use steadfast_wire::signalr::{Protocol, handshake, write};
use tokio_util::sync::CancellationToken;

use crate::backend::{HubBackend, NewClient};
use crate::cluster::pending_results::PendingResults;
use crate::dispatch::call_queue::{CallQueue, ClientJob, MethodCall, MethodResponse};
use crate::dispatch::clients::Clients;
use crate::dispatch::context::{ClientMigration, Context};
use crate::dispatch::gateway::ClientGateway;
use crate::dispatch::hub::{Hub, Method};
use crate::dispatch::upload::UntypedUpload;
use crate::error::{HubError, HubResult};

/// Options of a hosted hub.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// The largest message of a client.
    pub message_bytes: usize,
    /// Whether clients receive details of internal errors.
    pub shows_details: bool,
    /// Whether clients may connect without a token.
    pub is_open: bool,
    /// Whether clients may reconnect with their state, without losing messages.
    pub is_stateful: bool,
}

impl Default for HubOptions {
    fn default() -> Self {
        Self {
            message_bytes: limits::HUB_MESSAGE_BYTES,
            shows_details: false,
            is_open: false,
            is_stateful: true,
        }
    }
}

/// A hub with its clients.
pub struct HubDispatcher<H> {
    hub: Arc<H>,
    reach: Arc<dyn ClientGateway>,
    server: Arc<str>,
    call_queues: Mutex<HashMap<Arc<str>, Arc<CallQueue>>>,
    pending: Arc<PendingResults>,
    options: HubOptions,
}

impl<H: Hub> HubDispatcher<H> {
    pub(crate) fn new(
        hub: H,
        reach: Arc<dyn ClientGateway>,
        server: &str,
        options: HubOptions,
    ) -> Arc<Self> {
        Arc::new(Self {
            hub: Arc::new(hub),
            reach,
            server: server.into(),
            call_queues: Mutex::default(),
            pending: Arc::default(),
            options,
        })
    }

    /// The hub's clients.
    pub(crate) fn clients(&self) -> Clients {
        let (reach, asked) = (Arc::clone(&self.reach), Arc::clone(&self.pending));
        Clients::new(reach, asked, Arc::clone(&self.server))
    }

    fn call_queue(&self, connection: &str) -> Option<Arc<CallQueue>> {
        self.call_queues.lock().get(connection).cloned()
    }

    fn worker(&self) -> HubWorker<H> {
        HubWorker {
            hub: Arc::clone(&self.hub),
            reach: Arc::clone(&self.reach),
            server: Arc::clone(&self.server),
            shows_details: self.options.shows_details,
        }
    }

    fn add(&self, seat: &Arc<CallQueue>, job: ClientJob, bytes: usize) {
        if seat.add(job, bytes) {
            tokio::spawn(name_task(self.worker().work(Arc::clone(seat))));
        }
    }

    fn invoke(&self, seat: &Arc<CallQueue>, call: Invocation, bytes: usize) {
        if call.id.is_some() {
            seat.begin_call();
        }
        match seat.open_uploads(&call.streams) {
            Some(uploads) => self.add(seat, ClientJob::Call(call, uploads), bytes),
            None => self.worker().complete(
                seat,
                call.id.as_deref(),
                &Outcome::Error("There are too many streams.".to_owned()),
            ),
        }
    }
}

impl<H: Hub> HubBackend for HubDispatcher<H> {
    fn server(&self) -> &str {
        &self.server
    }

    fn message_bytes(&self) -> usize {
        self.options.message_bytes
    }

    fn open(&self, arrival: &NewClient) {
        let migration = arrival.from.clone().map(|from| ClientMigration {
            from,
            to: self.server.to_string(),
        });
        let is_new = migration.is_none();
        let (id, caller) = (Arc::clone(&arrival.id), Arc::clone(&arrival.caller));
        let clients = self.clients().within(&id);
        let context = Context::new(Arc::clone(&id), caller, clients, migration);
        let seat = Arc::new(CallQueue::new(Arc::clone(&id), arrival.protocol, context));
        self.call_queues
            .lock()
            .insert(Arc::clone(&id), Arc::clone(&seat));
        if is_new {
            self.reach
                .data(&id, Bytes::from_static(handshake::ACCEPTED));
        }
        self.add(&seat, ClientJob::Connected, 0);
    }

    fn room<'a>(&'a self, connection: &'a str) -> Option<BoxFuture<'a, ()>> {
        let seat = self.call_queue(connection)?;
        if seat.is_full() {
            Some(Box::pin(async move { seat.wait().await }))
        } else {
            None
        }
    }

    fn reads_messages(&self) -> bool {
        true
    }

    fn data(&self, connection: &str, message: FramedMessage) {
        let Some(seat) = self.call_queue(connection) else {
            return;
        };
        let (message, content) = message.content(seat.protocol);
        match content {
            Ok(Message::Invocation(call)) => self.invoke(&seat, call, message.len()),
            Ok(Message::Item { id, item }) => seat.feed(&id, item),
            Ok(Message::Completion { id, outcome }) => {
                let error = match &outcome {
                    Outcome::Error(why) => Some(why.clone()),
                    _ => None,
                };
                if seat.end_upload(&id, error) {
                    return;
                }
                let (asked, protocol) = (&self.pending, seat.protocol);
                if !asked.answer(connection, &id, protocol, outcome) {
                    self.reach.answered(connection, &id, protocol, message);
                }
            }
            Ok(Message::Cancel { id }) => seat.cancel(&id),
            Ok(_) => {}
            Err(error) => {
                let why = format!("Connection closed with an error. {error}");
                self.reach.close(connection, Some(&why));
            }
        }
    }

    fn close(&self, connection: &str, error: Option<&str>, to: Option<&str>) {
        let Some(seat) = self.call_queues.lock().remove(connection) else {
            return;
        };
        seat.end();
        self.pending.gone(connection);
        let job = ClientJob::Disconnected {
            error: error.map(str::to_owned),
            to: to.map(str::to_owned),
        };
        self.add(&seat, job, 0);
    }

    fn unanswered(&self, connection: &str) -> usize {
        let seat = self.call_queue(connection);
        seat.map_or(0, |seat| seat.unanswered())
    }

    fn answered(&self, own: &ClientCompletion) {
        let (protocol, outcome) = match &own.outcome {
            Ok((name, payload)) => {
                let protocol = Protocol::named(name).unwrap_or(Protocol::Json);
                match frame::read(protocol, payload) {
                    Ok(Message::Completion { outcome, .. }) => (protocol, outcome),
                    _ => (
                        protocol,
                        Outcome::Error("The result cannot be read.".to_owned()),
                    ),
                }
            }
            Err(why) => (Protocol::Json, Outcome::Error(why.clone())),
        };
        self.pending
            .answer(&own.connection, &own.id, protocol, outcome);
    }
}

/// Executes the queued jobs of clients.
struct HubWorker<H> {
    hub: Arc<H>,
    reach: Arc<dyn ClientGateway>,
    server: Arc<str>,
    shows_details: bool,
}

impl<H: Hub> HubWorker<H> {
    /// Executes a client's jobs until its queue is empty.
    async fn work(self, seat: Arc<CallQueue>) {
        let worker = Arc::new(self);
        while let Some(job) = seat.next() {
            match job {
                ClientJob::Connected => worker.connected(&seat).await,
                ClientJob::Call(call, uploads) => worker.call(&seat, call, uploads).await,
                ClientJob::Disconnected { error, to } => {
                    worker.disconnected(&seat, error, to).await
                }
            }
        }
    }

    async fn connected(&self, seat: &CallQueue) {
        let context = seat.context.clone();
        let done = guarded(Arc::clone(&self.hub).on_connected(context)).await;
        if let Err(error) = done {
            let why = error.told("on_connected", self.shows_details);
            tracing::info!(event = "realtime.connection_refused", connection = %seat.connection, %error);
            self.reach.close(&seat.connection, Some(&why));
        }
    }

    async fn disconnected(&self, seat: &CallQueue, error: Option<String>, to: Option<String>) {
        let migration = to.map(|to| ClientMigration {
            from: self.server.to_string(),
            to,
        });
        let context = seat.context.moving(migration);
        let done = guarded(Arc::clone(&self.hub).on_disconnected(context, error)).await;
        if let Err(error) = done {
            tracing::warn!(event = "realtime.hook_failed", connection = %seat.connection, %error);
        }
    }

    /// Runs a call, or starts one that runs concurrently with others.
    async fn call(
        self: &Arc<Self>,
        seat: &Arc<CallQueue>,
        call: Invocation,
        uploads: Vec<UntypedUpload>,
    ) {
        let id = call.id.clone();
        let (place, method) = match self.fit(&call) {
            Ok(found) => found,
            Err(why) => {
                seat.forget_uploads(&call.streams);
                return self.complete(seat, id.as_deref(), &Outcome::Error(why));
            }
        };
        // A stream without an id has no receiver, and cannot be cancelled.
        let token = match (method.is_stream, id.as_deref()) {
            (true, Some(id)) => match seat.open_stream(id) {
                Some(token) => Some(token),
                None => {
                    let why = "There are too many streams.".to_owned();
                    return self.complete(seat, Some(id), &Outcome::Error(why));
                }
            },
            _ => None,
        };
        let run = Arc::clone(self).run(Arc::clone(seat), place, call, uploads, token);
        if method.uploads > 0 {
            drop(tokio::spawn(name_task(run)))
        } else {
            run.await
        }
    }

    /// The method of a call, or why there is none.
    fn fit(&self, call: &Invocation) -> Result<(usize, &'static Method), String> {
        let target = &call.target;
        let failed = |why: &str| {
            Err(format!(
                "Failed to invoke '{target}' due to an error on the server. {why}"
            ))
        };
        let mut methods = H::METHODS.iter().enumerate();
        let Some((place, method)) = methods.find(|(_, method)| is_method(method.name, target))
        else {
            return failed("HubException: Method does not exist.");
        };
        if call.is_stream && !method.is_stream {
            let why = "is not a stream: call it with 'invoke' or 'send'.";
            return Err(format!("The method '{target}' {why}"));
        }
        if !call.is_stream && method.is_stream {
            let why = "returns a stream: call it with 'stream'.";
            return Err(format!("The method '{target}' {why}"));
        }
        if call.arguments.len() != method.arguments || call.streams.len() != method.uploads {
            let (given, streams) = (call.arguments.len(), call.streams.len());
            let Method {
                arguments, uploads, ..
            } = method;
            return failed(&format!(
                "Invocation provides {given} argument(s) and {streams} stream(s) but target \
                 expects {arguments} and {uploads}."
            ));
        }
        Ok((place, method))
    }

    async fn run(
        self: Arc<Self>,
        seat: Arc<CallQueue>,
        place: usize,
        call: Invocation,
        uploads: Vec<UntypedUpload>,
        token: Option<CancellationToken>,
    ) {
        let Invocation {
            id,
            target,
            arguments,
            streams,
            ..
        } = call;
        let asked = MethodCall {
            context: seat.context.moving(None),
            protocol: seat.protocol,
            arguments: arguments.into_iter(),
            uploads: uploads.into_iter(),
        };
        let hub = Arc::clone(&self.hub);
        let reply = AssertUnwindSafe(hub.call(place, asked))
            .catch_unwind()
            .await;
        let reply = reply.unwrap_or_else(|_| MethodResponse::Failed(panicked()));
        let outcome = match reply {
            MethodResponse::Void => Outcome::Void,
            MethodResponse::Value(value) => Outcome::Value(value),
            MethodResponse::Stream(items) => {
                let token = token.unwrap_or_else(|| seat.gone.child_token());
                tokio::spawn(name_task(
                    self.pump(seat, id, target, items, token, streams),
                ));
                return;
            }
            MethodResponse::Unfit(error) => Outcome::Error(format!(
                "Failed to invoke '{target}' due to an error on the server. {error}"
            )),
            MethodResponse::Failed(error) => self.failure(&seat, &target, &error),
        };
        if let (Some(id), Some(_)) = (&id, &token) {
            seat.close_stream(id);
        }
        seat.forget_uploads(&streams);
        self.complete(&seat, id.as_deref(), &outcome);
    }

    /// Sends the items of a stream, as fast as the client accepts them.
    async fn pump(
        self: Arc<Self>,
        seat: Arc<CallQueue>,
        id: Option<String>,
        target: String,
        mut items: BoxStream<'static, HubResult<Bytes>>,
        token: CancellationToken,
        uploads: Vec<String>,
    ) {
        let mut outcome = Outcome::Void;
        if let Some(id) = &id {
            loop {
                if let Some(room) = self.reach.room(&seat.connection) {
                    tokio::select! {
                        () = room => {}
                        () = token.cancelled() => break,
                    }
                }
                let next = AssertUnwindSafe(items.next()).catch_unwind();
                let next = tokio::select! {
                    biased;
                    () = token.cancelled() => break,
                    next = next => next.unwrap_or_else(|_| Some(Err(panicked()))),
                };
                match next {
                    Some(Ok(item)) => {
                        let message = write::item(seat.protocol, id, &item);
                        self.reach.data(&seat.connection, message);
                    }
                    Some(Err(error)) => {
                        outcome = self.failure(&seat, &target, &error);
                        break;
                    }
                    None => break,
                }
            }
            seat.close_stream(id);
        }
        seat.forget_uploads(&uploads);
        self.complete(&seat, id.as_deref(), &outcome);
    }

    fn failure(&self, seat: &CallQueue, target: &str, error: &HubError) -> Outcome {
        tracing::debug!(event = "realtime.call_failed", connection = %seat.connection, method = target, %error);
        Outcome::Error(error.told(target, self.shows_details))
    }

    /// Completes a call if the caller expects it.
    fn complete(&self, seat: &CallQueue, id: Option<&str>, outcome: &Outcome) {
        if let Some(id) = id {
            let message = write::completion(seat.protocol, id, outcome);
            self.reach.data(&seat.connection, message);
            seat.end_call();
        }
    }
}

/// Runs user code: a panic becomes an error.
async fn guarded(hook: BoxFuture<'static, HubResult<()>>) -> HubResult<()> {
    let done = AssertUnwindSafe(hook).catch_unwind().await;
    done.unwrap_or_else(|_| Err(panicked()))
}

fn panicked() -> HubError {
    std::io::Error::other("the method panicked").into()
}

/// Whether a client means the method of that name: case and underscores do not count.
fn is_method(own: &str, asked: &str) -> bool {
    fn letters(text: &str) -> impl Iterator<Item = u8> {
        let bytes = text.bytes().filter(|byte| *byte != b'_');
        bytes.map(|byte| byte.to_ascii_lowercase())
    }
    letters(own).eq(letters(asked))
}

#[cfg(test)]
mod tests {
    use super::is_method;

    #[test]
    fn names_are_compared_without_case_and_underscores() {
        for name in ["SendMessage", "sendMessage", "send_message"] {
            assert!(is_method("send_message", name), "{name}");
        }
        assert!(!is_method("send_message", "send") && !is_method("send_message", "SendMessages"));
    }
}
