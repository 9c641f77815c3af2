//! Splits received bytes of a client into messages.
//!
//! A reader belongs to one socket, or to the requests of one client, which use it one at
//! a time, so messages are handled in order.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::limits;
use steadfast_wire::signalr::frame::{self, Splitter};
use steadfast_wire::signalr::handshake::{self, HANDSHAKE_BYTES, HandshakeRequest};
use steadfast_wire::signalr::message::{Message, kind};
use steadfast_wire::signalr::{Protocol, read};

use crate::connection::client::ClientConnection;
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

    async fn handle(
        &mut self,
        protocol: Protocol,
        message: Bytes,
    ) -> Result<(), ClientClosedError> {
        let own = match read::look(protocol, &message) {
            Ok((own, _)) => own,
            Err(error) => return self.refuse(&error.to_string()),
        };
        if own == kind::CLOSE {
            self.client.end(None);
            return Err(ClientClosedError);
        }
        if self.client.is_stateful() && matches!(own, kind::ACK | kind::SEQUENCE) {
            return self.count(protocol, &message);
        }
        let counted = kind::is_counted(own).then_some(self.socket);
        if self.client.deliver(message, counted).await {
            count(&self.hub.meter.received, 1);
        }
        Ok(())
    }

    /// Checks the sequence of a client with stateful reconnect.
    fn count(&self, protocol: Protocol, message: &Bytes) -> Result<(), ClientClosedError> {
        match read::message(protocol, message) {
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
