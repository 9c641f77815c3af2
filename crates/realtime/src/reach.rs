//! How a hub reaches clients.
//!
//! A hub in the process of the service reaches them directly, one in an app server
//! by messages to the service. Hubs do not know which.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use steadfast_wire::signalr::Protocol;

use crate::error::Result;
use crate::payload::{Payload, Protocols};

/// Whom to send to. Whoever is not there is left out silently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// Everybody, except these connections.
    All { except: Vec<String> },
    /// The connections of a group, except these.
    Group { name: String, except: Vec<String> },
    /// The connections of several groups; one in two of them gets one copy.
    Groups(Vec<String>),
    /// All connections of these users.
    Users(Vec<String>),
    /// These connections.
    Connections(Vec<String>),
}

/// What a hub asks of the service.
pub trait Reach: Send + Sync + 'static {
    /// The protocols that clients may speak.
    fn protocols(&self) -> Protocols;

    /// The same for sends that are part of a call of this connection, if that makes a
    /// difference: they arrive before what the call answers.
    fn within(&self, connection: &Arc<str>) -> Option<Arc<dyn Reach>> {
        let _ = connection;
        None
    }

    /// Sends a message. Messages of one sender arrive in the order of the calls.
    fn send<'a>(&'a self, to: &'a To, payload: Payload) -> BoxFuture<'a, Result<()>>;

    /// Takes a connection into a group: when it returns, every later send finds it.
    fn join<'a>(&'a self, connection: &'a str, group: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Takes a connection out of a group.
    fn leave<'a>(&'a self, connection: &'a str, group: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Sends a call whose answer is wanted.
    fn ask<'a>(
        &'a self,
        id: &'a str,
        connection: &'a str,
        payload: Payload,
    ) -> BoxFuture<'a, Result<()>>;

    /// A connection has answered what its home has not asked: another node may have.
    fn answered(&self, connection: &str, id: &str, protocol: Protocol, message: Bytes) {
        let _ = (connection, id, protocol, message);
    }

    /// Sends a framed message to a connection whose home is here.
    fn data(&self, connection: &str, message: Bytes);

    /// Waits until a connection of ours can take more; `None` if it can.
    fn room<'a>(&'a self, connection: &'a str) -> Option<BoxFuture<'a, ()>>;

    /// Ends a connection of ours; it may not come back by itself.
    fn close(&self, connection: &str, error: Option<&str>);
}
