//! Where the messages of a client go.
//!
//! A home is a hub in this process, or an app server's link. The service does not
//! know which, so that a client can be given another home between two messages.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::service::Completion;

use crate::caller::Caller;

/// A client that moves in.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub id: Arc<str>,
    pub caller: Arc<Caller>,
    pub protocol: Protocol,
    /// The client's first record, as it came.
    pub handshake: Bytes,
    /// The server that it comes from, if it is not new.
    pub from: Option<String>,
}

/// Where the messages of clients go.
pub trait Home: Send + Sync + 'static {
    /// The name of the server.
    fn server(&self) -> &str;

    /// The largest message that it takes.
    fn message_bytes(&self) -> usize;

    /// A client moves in. The home answers its handshake, unless it comes from
    /// another server.
    fn open(&self, arrival: &Arrival);

    /// Waits until it can take more of this client; `None` if it can.
    fn room<'a>(&'a self, connection: &'a str) -> Option<BoxFuture<'a, ()>>;

    /// A whole message of the client, framed.
    fn data(&self, connection: &str, message: Bytes);

    /// The client has gone, or moved to another server.
    fn close(&self, connection: &str, error: Option<&str>, to: Option<&str>);

    /// Whether new clients may be given to it.
    fn takes_clients(&self) -> bool {
        true
    }

    /// How many clients it has.
    fn load(&self) -> usize {
        0
    }

    /// Whether clients may be moved away from it.
    fn may_move(&self) -> bool {
        false
    }

    /// Whether open calls are noted, because they must be answered without it.
    fn needs_calls(&self) -> bool {
        self.may_move()
    }

    /// Asks it to say nothing more to a client that moves away, and waits until it
    /// has said so, or for a while; what it said before has been delivered then.
    fn pause<'a>(&'a self, connection: &'a str) -> BoxFuture<'a, ()> {
        let _ = connection;
        Box::pin(std::future::ready(()))
    }

    /// Whether open calls are noted at least without their streams, because those that
    /// are not answered are counted.
    fn counts_calls(&self) -> bool {
        self.needs_calls()
    }

    /// Calls of a client that it has taken and not answered, where the client does not
    /// note them itself.
    fn unanswered(&self, connection: &str) -> usize {
        let _ = connection;
        0
    }

    /// What a client of another node has answered that the home has asked.
    fn answered(&self, own: &Completion) {
        let _ = own;
    }

    /// A client that may come back has come back: what was half received is void.
    fn resumed(&self, connection: &str) {
        let _ = connection;
    }
}
