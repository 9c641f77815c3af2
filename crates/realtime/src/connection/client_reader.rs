//! Cuts a client's bytes into messages and delivers them.
//!
//! A reader belongs to one socket, or to the requests of one client, which use it one at
//! a time, so messages are handled in order. Whole messages go to the backend, one after
//! another; while they are held, the backend can be changed. What the backend needs of a
//! message is parsed here, once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use steadfast_core::limits;
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::frame::{self, FramedMessage, Splitter};
use steadfast_wire::signalr::handshake::{self, HANDSHAKE_BYTES, HandshakeRequest};
use steadfast_wire::signalr::message::{Message, kind};
use tokio::time::Instant;

use crate::backend::HubBackend;
use crate::connection::client::{ClientConnection, Routing};
use crate::hub_connections::HubConnections;
use crate::metrics::count;

/// Receives the bytes of one client.
pub struct ClientReader {
    client: Arc<ClientConnection>,
    hub: Arc<HubConnections>,
    splitter: Splitter,
    /// The message size limit of its backend.
    message_bytes: usize,
    /// The message size limit of the transport.
    most_bytes: usize,
    socket: u64,
}

/// The client has ended; nothing more is received from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientClosedError;

/// The route of a message of the client.
enum MessageRoute {
    Home(Arc<dyn HubBackend>),
    /// It is held while the client migrates.
    Held,
    /// It must wait: for room at this backend, or for the end of a migration.
    Wait(Option<Arc<dyn HubBackend>>),
    Nowhere,
}

impl ClientReader {
    /// A reader of a client whose transport accepts messages of that size.
    pub fn new(client: Arc<ClientConnection>, hub: Arc<HubConnections>, most_bytes: usize) -> Self {
        let message_bytes = hub.message_bytes();
        let socket = client.socket();
        Self {
            client,
            hub,
            splitter: Splitter::default(),
            message_bytes,
            most_bytes,
            socket,
        }
    }

    /// Takes received bytes. It returns when all messages have been accepted, which
    /// is the backpressure on a fast client.
    pub async fn take(&mut self, chunk: Bytes) -> Result<(), ClientClosedError> {
        self.client.note_activity();
        self.splitter.push(chunk);
        let protocol = match self.client.protocol() {
            Some(protocol) => protocol,
            // Boxed, because the future of the one handshake is larger than that of a message,
            // and an idle connection holds room for either.
            None => match Box::pin(self.greet()).await? {
                Some(protocol) => protocol,
                None => return Ok(()),
            },
        };
        let limit = self.message_bytes.min(self.most_bytes);
        loop {
            if self.client.is_ending() || self.client.socket() != self.socket {
                return Err(ClientClosedError);
            }
            match self.splitter.next(protocol, limit) {
                Ok(Some(message)) => self.handle(protocol, message).await?,
                Ok(None) => return Ok(()),
                Err(error) if error == frame::TOO_LONG => return self.refuse_too_long(),
                Err(error) => return self.refuse(&error.to_string()),
            }
        }
    }

    /// Reads the handshake and assigns a backend to the client.
    async fn greet(&mut self) -> Result<Option<Protocol>, ClientClosedError> {
        let record = match self.splitter.next_record(HANDSHAKE_BYTES) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(None),
            Err(_) => return self.turn_away("The handshake is too long."),
        };
        let Ok(wish) = HandshakeRequest::parse(&record) else {
            return self.turn_away("The handshake cannot be read.");
        };
        let name = &wish.protocol;
        let known = Protocol::named(name).filter(|own| self.hub.speaks(*own));
        let Some(protocol) = known else {
            return self.turn_away(&format!("The protocol '{name}' is not supported."));
        };
        if !(0..=2).contains(&wish.version) {
            let version = wish.version;
            return self.turn_away(&format!(
                "The server does not support version {version} of the '{name}' protocol."
            ));
        }
        // A copy: the client keeps it, and a part of the read buffer would keep all of that.
        let record = Bytes::copy_from_slice(&record);
        self.hub
            .assign_backend(&self.client, protocol, record)
            .await;
        Ok(Some(protocol))
    }

    fn turn_away(&self, why: &str) -> Result<Option<Protocol>, ClientClosedError> {
        self.client.end(Some(Bytes::from(handshake::refused(why))));
        Err(ClientClosedError)
    }

    /// The transport has met a message above its size limit.
    pub fn refuse_long(&self) {
        let _ = self.refuse_too_long();
    }

    fn refuse_too_long(&self) -> Result<(), ClientClosedError> {
        let limit = self.message_bytes.min(self.most_bytes);
        self.refuse(&format!(
            "The maximum message size of {limit}B was exceeded."
        ))
    }

    fn refuse(&self, why: &str) -> Result<(), ClientClosedError> {
        tracing::info!(event = "realtime.refused_client", connection = %self.client.id(), why);
        let error = format!("Connection closed with an error. {why}");
        self.client.close(Some(&error), false);
        Err(ClientClosedError)
    }

    async fn handle(&mut self, protocol: Protocol, bytes: Bytes) -> Result<(), ClientClosedError> {
        let read = if self.client.reads_messages.load(Ordering::Acquire) {
            FramedMessage::read(protocol, bytes)
        } else {
            FramedMessage::look(protocol, bytes)
        };
        // Boxed, because an idle connection holds room for it.
        let message = match read {
            Ok(message) => Box::new(message),
            Err(error) => return self.refuse(&error.to_string()),
        };
        let own = message.head().map_or(0, |(own, _)| own);
        if own == kind::CLOSE {
            self.client.end(None);
            return Err(ClientClosedError);
        }
        if self.client.is_stateful() && matches!(own, kind::ACK | kind::SEQUENCE) {
            return self.count(protocol, *message);
        }
        let counted = kind::is_counted(own).then_some(self.socket);
        if self.deliver(message, counted).await {
            count(&self.hub.meter.received, 1);
        }
        Ok(())
    }

    /// Checks the sequence of a client with stateful reconnect.
    fn count(&self, protocol: Protocol, message: FramedMessage) -> Result<(), ClientClosedError> {
        match message.content(protocol).1 {
            Ok(Message::Ack(number)) => self.client.outbox.acknowledged(number),
            Ok(Message::Sequence(number)) => {
                let received = self.client.received.as_ref();
                if !received.is_some_and(|own| own.lock().sequence(number)) {
                    return self.refuse("Sequence ID greater than amount of messages received.");
                }
            }
            _ => return self.refuse("a message without a number"),
        }
        Ok(())
    }

    /// Delivers a message to the backend, once it has room. A numbered message was
    /// received on the socket `counted`. It is counted only when it is delivered: if
    /// its socket is lost before, the client sends it again. False if it is dropped.
    async fn deliver(&self, message: Box<FramedMessage>, counted: Option<u64>) -> bool {
        let client = &self.client;
        loop {
            // A backend that is ready without having room must not block the worker.
            tokio::task::coop::consume_budget().await;
            let released = client.released.notified();
            let home = {
                let mut routing = client.routing.lock();
                if routing.has_ended || client.is_ending() {
                    return false;
                }
                let way = self.way(&routing, &message);
                routing.waiting = match way {
                    MessageRoute::Wait(_) => Some(message.bytes().clone()),
                    _ => None,
                };
                match way {
                    MessageRoute::Wait(home) => home,
                    _ if counted.is_some_and(|socket| !self.counts(socket)) => return false,
                    way => {
                        self.place(&mut routing, way, *message);
                        return true;
                    }
                }
            };
            match home.as_ref().and_then(|home| home.room(&client.id)) {
                Some(room) => tokio::select! {
                    () = room => {}
                    () = released => {}
                    () = client.gone.cancelled() => return false,
                },
                None if home.is_some() => {}
                None => tokio::select! {
                    () = released => {}
                    () = client.gone.cancelled() => return false,
                },
            }
        }
    }

    /// Counts a message of a client with stateful reconnect. False if it was counted
    /// before, or its socket was replaced.
    fn counts(&self, socket: u64) -> bool {
        let client = &self.client;
        let Some(received) = &client.received else {
            return true;
        };
        let mut received = received.lock();
        // A client that has reconnected restarts its sequence, so numbers of the
        // former socket are void.
        if client.socket() != socket || !received.take(Instant::now()) {
            return false;
        }
        // Wakes the sender to schedule the acknowledgement.
        client.outbox.wake.notify_one();
        true
    }

    /// The current route of a message.
    fn way(&self, routing: &Routing, message: &FramedMessage) -> MessageRoute {
        let belongs_there = routing.held.is_some()
            && !routing.is_frozen
            && self.client.calls.lock().is_part(message);
        if routing.held.is_some() && !belongs_there {
            return if routing.held_bytes >= limits::CLIENT_CALL_BYTES {
                MessageRoute::Wait(None)
            } else {
                MessageRoute::Held
            };
        }
        match routing.backend.clone() {
            None => MessageRoute::Nowhere,
            Some(home) if home.room(&self.client.id).is_some() => MessageRoute::Wait(Some(home)),
            Some(home) => MessageRoute::Home(home),
        }
    }

    /// Delivers a message to the backend, or holds it while the client migrates.
    fn place(&self, routing: &mut Routing, way: MessageRoute, message: FramedMessage) {
        let client = &self.client;
        match way {
            MessageRoute::Home(home) => {
                let protocol = client.protocol().unwrap_or(Protocol::Json);
                let notes_calls = client.notes_calls.load(Ordering::Acquire);
                let with_streams = home.needs_calls();
                if notes_calls
                    && client
                        .calls
                        .lock()
                        .note_client(protocol, &message, with_streams)
                {
                    client.settled.notify_waiters();
                }
                home.data(&client.id, message);
            }
            MessageRoute::Held => {
                // Only its bytes, which the limit counts.
                let message = message.bytes().clone();
                routing.held_bytes += message.len();
                routing.held.get_or_insert_default().push_back(message);
            }
            MessageRoute::Wait(_) | MessageRoute::Nowhere => {}
        }
    }

    /// The client.
    pub fn client(&self) -> &Arc<ClientConnection> {
        &self.client
    }

    /// The largest chunk that a transport should read at once.
    pub fn chunk_bytes(&self) -> usize {
        self.message_bytes
            .min(self.most_bytes)
            .max(limits::HUB_MESSAGE_BYTES)
    }
}
