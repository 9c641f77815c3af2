//! The backend that receives the messages of a client.
//!
//! A backend is a hub in this process, or the link of an app server. The service does
//! not know which, so a client can migrate between backends between two messages.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::frame::FramedMessage;
use steadfast_wire::signalr::service::ClientCompletion;

use crate::connection::identity::ClientIdentity;

/// A client that is new to a backend.
#[derive(Clone, Debug)]
pub struct NewClient {
    pub id: Arc<str>,
    pub caller: Arc<ClientIdentity>,
    pub protocol: Protocol,
    /// The client's handshake, as received.
    pub handshake: Bytes,
    /// The server it migrates from, if it is not new.
    pub from: Option<String>,
}

/// The backend of clients.
pub trait HubBackend: Send + Sync + 'static {
    /// The name of the server.
    fn server(&self) -> &str;

    /// The largest message that it accepts.
    fn message_bytes(&self) -> usize;

    /// Opens a client. The backend answers its handshake, unless the client migrates
    /// from another server.
    fn open(&self, arrival: &NewClient);

    /// Waits until it accepts more of this client; `None` if it does now.
    fn room<'a>(&'a self, connection: &'a str) -> Option<BoxFuture<'a, ()>>;

    /// Takes a whole message of the client.
    fn data(&self, connection: &str, message: FramedMessage);

    /// Whether it needs the content of messages, which is then parsed once, where they
    /// are received.
    fn reads_messages(&self) -> bool {
        self.needs_calls()
    }

    /// The client has disconnected, or has migrated to another server.
    fn close(&self, connection: &str, error: Option<&str>, to: Option<&str>);

    /// Whether it accepts new clients.
    fn takes_clients(&self) -> bool {
        true
    }

    /// Number of its clients.
    fn load(&self) -> usize {
        0
    }

    /// Whether its clients may be migrated.
    fn may_move(&self) -> bool {
        false
    }

    /// Whether open calls are tracked, because they must be completed without it.
    fn needs_calls(&self) -> bool {
        self.may_move()
    }

    /// Asks it to stop sending to a client that migrates, and waits for its
    /// confirmation or a time-out; messages it sent before have been delivered then.
    fn pause<'a>(&'a self, connection: &'a str) -> BoxFuture<'a, ()> {
        let _ = connection;
        Box::pin(std::future::ready(()))
    }

    /// Whether open calls are tracked at least without their streams, to count those
    /// without a completion.
    fn counts_calls(&self) -> bool {
        self.needs_calls()
    }

    /// Number of a client's calls it has accepted and not completed, where the client
    /// does not track them itself.
    fn unanswered(&self, connection: &str) -> usize {
        let _ = connection;
        0
    }

    /// A client of a peer node has returned a result to a call of this backend.
    fn answered(&self, own: &ClientCompletion) {
        let _ = own;
    }

    /// A client has reconnected with its state: drop its incomplete message.
    fn resumed(&self, connection: &str) {
        let _ = connection;
    }
}
