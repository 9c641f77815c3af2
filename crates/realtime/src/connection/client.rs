//! A client connection over any transport and backend.
//!
//! A transport passes received bytes to a client reader and sends what
//! [`ClientConnection::outgoing`] returns. A client leaves once: it is removed from its
//! registry, and its backend is notified.
//!
//! Pings are those of the hub protocol, never those of the socket, because one of the
//! clients crashes on them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_wire::signalr::message::kind;
use steadfast_wire::signalr::{Protocol, frame, handshake, write};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backend::HubBackend;
use crate::connection::identity::ClientIdentity;
use crate::connection::open_calls::OpenCalls;
use crate::connection::outbox::{ClientOutbox, PutOutcome, TakeOutcome};
use crate::connection::resume::ReceiveSequence;

/// The registry of the clients of one hub.
pub(crate) trait ClientRegistry: Send + Sync {
    /// The client has completed its handshake and can receive messages.
    fn enter(&self, client: &Arc<ClientConnection>);

    /// The client has disconnected for good.
    fn leave(&self, client: &Arc<ClientConnection>);

    /// A client is closed because it does not read.
    fn dropped(&self);
}

/// The backend of a client, and messages held for another one.
#[derive(Default)]
pub(crate) struct Routing {
    pub(crate) backend: Option<Arc<dyn HubBackend>>,
    pub(crate) handshake: Bytes,
    /// Messages held for another backend, while there are any.
    pub(crate) held: Option<VecDeque<Bytes>>,
    pub(crate) held_bytes: usize,
    /// A received message that is not delivered yet.
    pub(crate) waiting: Option<Bytes>,
    /// The old backend gets no more messages, not even of open calls.
    pub(crate) is_frozen: bool,
    /// It has disconnected for good.
    pub(crate) has_ended: bool,
}

/// Timestamps and time limits of one client.
pub(crate) struct ClientTimes {
    pub(crate) opened: Instant,
    pub(crate) heard: Instant,
    pub(crate) spoke: Instant,
    /// When the token expires, if the connection ends with it.
    pub(crate) expires: Option<Instant>,
    pub(crate) handshake: Duration,
}

/// The next step of a transport.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientOutput {
    /// Send these whole messages.
    Data(Bytes),
    /// Nothing follows: close.
    Over,
    /// Another socket has replaced this one: close it silently.
    Displaced,
}

/// The way a client is kept alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// By pings of both sides.
    Pings,
    /// By its requests.
    Requests,
}

/// A client's connection.
pub struct ClientConnection {
    pub(crate) id: Arc<str>,
    pub(crate) caller: Arc<ClientIdentity>,
    pub(crate) registry: Arc<dyn ClientRegistry>,
    pub(crate) protocol: OnceLock<Protocol>,
    /// Its backend has answered the handshake: from then on other senders may reach
    /// it.
    pub(crate) is_greeted: AtomicBool,
    pub(crate) outbox: ClientOutbox,
    pub(crate) routing: Mutex<Routing>,
    /// Open calls between client and backend, only kept if the backend needs them.
    /// The lock is taken after the one of the routing, and nothing is called while it
    /// is held.
    pub(crate) calls: Mutex<OpenCalls>,
    pub(crate) notes_calls: AtomicBool,
    /// Its backend needs the content of its messages.
    pub(crate) reads_messages: AtomicBool,
    /// App servers it was migrated from: their late messages about it are ignored.
    pub(crate) former: Mutex<Vec<String>>,
    /// Held messages were released, or the client has ended.
    pub(crate) released: Notify,
    /// No call is open any more.
    pub(crate) settled: Notify,
    pub(crate) clock: Mutex<ClientTimes>,
    /// For a client with stateful reconnect: what was received from it.
    pub(crate) received: Option<Mutex<ReceiveSequence>>,
    /// The number of the current socket; former sockets are closed.
    socket: AtomicU64,
    /// A new socket has replaced the current one.
    pub(crate) displaced: Notify,
    pub(crate) gone: CancellationToken,
}

/// Options of a new client.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientOptions {
    /// It may reconnect with its state after its socket is lost.
    pub is_stateful: bool,
    /// When it must be closed.
    pub expires: Option<Duration>,
    /// Time limit for the handshake.
    pub handshake: Option<Duration>,
}

impl ClientConnection {
    pub(crate) fn new(
        id: Arc<str>,
        caller: Arc<ClientIdentity>,
        place: Arc<dyn ClientRegistry>,
        wishes: &ClientOptions,
    ) -> Arc<Self> {
        let now = Instant::now();
        let client = Self {
            id,
            caller,
            registry: place,
            protocol: OnceLock::new(),
            is_greeted: AtomicBool::new(false),
            outbox: ClientOutbox::default(),
            routing: Mutex::default(),
            calls: Mutex::default(),
            notes_calls: AtomicBool::new(false),
            reads_messages: AtomicBool::new(false),
            former: Mutex::default(),
            released: Notify::new(),
            settled: Notify::new(),
            clock: Mutex::new(ClientTimes {
                opened: now,
                heard: now,
                spoke: now,
                expires: wishes.expires.and_then(|left| now.checked_add(left)),
                handshake: wishes.handshake.unwrap_or(limits::CLIENT_HANDSHAKE),
            }),
            received: wishes.is_stateful.then(Mutex::default),
            socket: AtomicU64::new(0),
            displaced: Notify::new(),
            gone: CancellationToken::new(),
        };
        if wishes.is_stateful {
            client.outbox.keep();
        }
        Arc::new(client)
    }

    /// Its public id.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Its identity.
    pub fn caller(&self) -> &Arc<ClientIdentity> {
        &self.caller
    }

    /// Its protocol, once the handshake is read.
    pub fn protocol(&self) -> Option<Protocol> {
        self.protocol.get().copied()
    }

    /// Whether it may reconnect with its state after its socket is lost.
    pub fn is_stateful(&self) -> bool {
        self.received.is_some()
    }

    /// Waits until it has disconnected for good.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Whether it has disconnected for good.
    pub fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    /// Bytes queued for sending.
    pub fn waiting_bytes(&self) -> usize {
        self.outbox.bytes()
    }

    /// Queues a message, unless the handshake is incomplete or the client has ended.
    /// A client that does not read is closed.
    pub fn send(self: &Arc<Self>, message: Bytes) {
        if self.is_greeted.load(Ordering::Acquire) {
            self.put(message, true);
        }
    }

    /// Queues bytes of its backend, which begin with the handshake response. SDKs send
    /// all that their pipe holds, so the bytes may hold several messages.
    pub(crate) fn pass(self: &Arc<Self>, mut said: Bytes) {
        while !said.is_empty() {
            // The handshake response is JSON in every protocol.
            let protocol = if self.is_greeted.load(Ordering::Acquire) {
                self.protocol().unwrap_or(Protocol::Json)
            } else {
                Protocol::Json
            };
            let message = frame::cut_first(protocol, &mut said);
            self.pass_one(message);
        }
    }

    fn pass_one(self: &Arc<Self>, message: Bytes) {
        let is_counted = match (self.is_stateful(), self.protocol()) {
            (true, Some(protocol)) => {
                frame::look(protocol, &message).is_ok_and(|(own, _)| kind::is_counted(own))
            }
            _ => true,
        };
        self.note_answer(&message);
        self.put(message, is_counted);
        self.is_greeted.store(true, Ordering::Release);
    }

    /// Notes a completion or a call of its backend.
    pub(crate) fn note_answer(&self, message: &Bytes) {
        let Some(protocol) = self.protocol() else {
            return;
        };
        let notes_calls = self.notes_calls.load(Ordering::Acquire);
        if notes_calls && self.calls.lock().note_home(protocol, message) {
            self.settled.notify_waiters();
        }
    }

    pub(crate) fn put(self: &Arc<Self>, message: Bytes, is_counted: bool) {
        if self.outbox.put(message, is_counted) == PutOutcome::Full {
            tracing::info!(event = "realtime.slow_client", connection = %self.id);
            if !self.is_ending() {
                self.registry.dropped();
            }
            self.close(Some("The client does not read what it is sent."), true);
        }
    }

    /// Waits until the outbox has room, or the client has ended.
    pub(crate) async fn room(&self) {
        loop {
            let made = self.outbox.room.notified();
            if self.outbox.has_room() {
                return;
            }
            tokio::select! {
                () = made => {}
                () = self.gone.cancelled() => return,
            }
        }
    }

    /// Closes it with a close message.
    pub fn close(self: &Arc<Self>, error: Option<&str>, allow_reconnect: bool) {
        let last = self.protocol().map(|own| match own {
            // Blazor reads MessagePack here.
            Protocol::Blazor => write::close(Protocol::MessagePack, error, allow_reconnect),
            own => write::close(own, error, allow_reconnect),
        });
        self.end(last);
    }

    /// Ends it with these bytes as the last ones.
    pub(crate) fn end(self: &Arc<Self>, last: Option<Bytes>) {
        self.outbox.end(last);
        self.released.notify_waiters();
        // A disconnected client cannot receive the close message and leaves at once,
        // in a task of its own because the caller may hold its routing lock.
        if self.is_away() {
            let client = Arc::clone(self);
            tokio::spawn(name_task(async move { client.leave(None) }));
        }
    }

    /// Whether the last message is queued, or was sent.
    pub fn is_ending(&self) -> bool {
        self.outbox.is_ending()
    }

    /// Notes activity of the client.
    pub fn note_activity(&self) {
        self.clock.lock().heard = Instant::now();
    }

    /// The number of the current socket.
    pub fn socket(&self) -> u64 {
        self.socket.load(Ordering::SeqCst)
    }

    pub(crate) fn is_away(&self) -> bool {
        self.received.as_ref().is_some_and(|own| own.lock().is_away)
    }

    /// Opens a new socket of a client that reconnects with its state. The former
    /// socket is closed even if it still seems alive.
    pub fn resume(self: &Arc<Self>) -> Option<u64> {
        let received = self.received.as_ref()?;
        if self.is_gone() || self.is_ending() || self.protocol().is_none() {
            return None;
        }
        received.lock().back();
        self.note_activity();
        let home = self.routing.lock().backend.clone();
        if let Some(home) = home {
            home.resumed(&self.id);
        }
        let number = self.socket.fetch_add(1, Ordering::SeqCst) + 1;
        self.displaced.notify_waiters();
        self.outbox.again();
        Some(number)
    }

    /// Waits until another socket replaces this one.
    async fn displacement(&self, number: u64) {
        loop {
            let displaced = self.displaced.notified();
            if self.socket() != number {
                return;
            }
            displaced.await;
        }
    }

    /// The socket of that number is lost. A client with stateful reconnect is kept
    /// for a while; any other leaves.
    pub fn socket_lost(self: &Arc<Self>, number: u64, error: Option<&str>) {
        if number != self.socket() {
            return;
        }
        let may_return = self.protocol().is_some() && !self.is_ending();
        let Some(received) = self.received.as_ref().filter(|_| may_return) else {
            return self.leave(error);
        };
        received.lock().is_away = true;
        let client = Arc::clone(self);
        let error = error.map(str::to_owned);
        tokio::spawn(name_task(async move {
            let back = client.displacement(number);
            let waited = tokio::select! {
                waited = tokio::time::timeout(limits::CLIENT_RESUME, back) => waited,
                () = client.gone.cancelled() => return,
            };
            if waited.is_err() {
                client.leave(error.as_deref());
            }
        }));
    }

    /// Removes it for good; its backend is notified once.
    pub fn leave(self: &Arc<Self>, error: Option<&str>) {
        let home = {
            let mut routing = self.routing.lock();
            if std::mem::replace(&mut routing.has_ended, true) {
                return;
            }
            routing.held = None;
            routing.backend.take()
        };
        self.outbox.end(None);
        self.registry.leave(self);
        if let Some(home) = home {
            home.close(&self.id, error, None);
        }
        self.gone.cancel();
        self.released.notify_waiters();
    }

    /// The next data of the transport of socket `number`. It waits for data, and
    /// keeps the client alive while it waits.
    pub async fn outgoing(self: &Arc<Self>, number: u64, pulse: KeepAlive) -> ClientOutput {
        loop {
            let displaced = self.displaced.notified();
            if self.socket() != number {
                return ClientOutput::Displaced;
            }
            let woken = self.outbox.wake.notified();
            match self.take() {
                TakeOutcome::Data(bytes) => {
                    self.clock.lock().spoke = Instant::now();
                    return ClientOutput::Data(bytes);
                }
                TakeOutcome::Over => return ClientOutput::Over,
                TakeOutcome::Nothing => {}
            }
            let next = self.next_time(pulse);
            tokio::select! {
                () = woken => {}
                () = displaced => {}
                () = tokio::time::sleep_until(next) => self.run_timers(pulse),
            }
        }
    }

    /// The data to send now, if any.
    pub(crate) fn take(&self) -> TakeOutcome {
        self.outbox.take(self.protocol().unwrap_or(Protocol::Json))
    }

    fn next_time(&self, pulse: KeepAlive) -> Instant {
        let clock = self.clock.lock();
        let pings = pulse == KeepAlive::Pings;
        let (ping, silence) = match self.protocol.get() {
            None => (None, Some(clock.opened + clock.handshake)),
            Some(_) => (
                pings.then_some(clock.spoke + limits::CLIENT_PING),
                pings.then_some(clock.heard + limits::CLIENT_SILENCE),
            ),
        };
        let ack = self.received.as_ref().and_then(|own| own.lock().ack_at);
        let times = [ping, silence, clock.expires, ack];
        let first = times.into_iter().flatten().min();
        first.unwrap_or(clock.heard + limits::DRAIN_TIME)
    }

    /// Runs the timers: pings, acknowledgements, time-outs.
    pub(crate) fn run_timers(self: &Arc<Self>, pulse: KeepAlive) {
        let now = Instant::now();
        let (opened, heard, spoke, expires, handshake) = {
            let clock = self.clock.lock();
            (
                clock.opened,
                clock.heard,
                clock.spoke,
                clock.expires,
                clock.handshake,
            )
        };
        let Some(protocol) = self.protocol() else {
            if now >= opened + handshake {
                let last = handshake::refused("Handshake was canceled.");
                self.end(Some(Bytes::from(last)));
            }
            return;
        };
        if expires.is_some_and(|end| now >= end) {
            self.close(Some("The access token has expired."), true);
        }
        if pulse == KeepAlive::Pings && now >= heard + limits::CLIENT_SILENCE {
            tracing::info!(event = "realtime.silent_client", connection = %self.id);
            self.close(Some("The client sent no messages in time."), false);
        }
        let due = self.received.as_ref().and_then(|own| own.lock().ack(now));
        if let Some(number) = due {
            self.put(write::ack(protocol, number), false);
        }
        if pulse == KeepAlive::Pings && now >= spoke + limits::CLIENT_PING {
            let ping = match protocol {
                Protocol::Blazor => write::ping(Protocol::MessagePack),
                own => write::ping(own),
            };
            self.put(ping, false);
            // A ping that cannot be sent stays queued: one is enough.
            self.clock.lock().spoke = now;
        }
    }

    /// Ends a client whose transport cannot detect a write time-out: if it is silent,
    /// or does not read the close message.
    pub async fn watch(self: Arc<Self>) {
        let mut was_ending = false;
        loop {
            tokio::select! {
                () = self.gone.cancelled() => return,
                () = tokio::time::sleep(limits::CLIENT_SILENCE) => {}
            }
            let heard = self.clock.lock().heard;
            let is_silent = Instant::now() >= heard + limits::CLIENT_SILENCE;
            if is_silent || was_ending {
                return self.leave(Some("the client does not read"));
            }
            was_ending = self.is_ending();
        }
    }
}
