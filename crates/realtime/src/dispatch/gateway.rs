//! Access of a hub to its clients.
//!
//! A hub in the process of the service reaches clients directly, a hub in an app server
//! by messages to the service. A hub does not know which.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use steadfast_wire::signalr::Protocol;

use crate::dispatch::payload::{HubPayload, ProtocolSet};
use crate::error::Result;

/// The recipients of a message. Those that are not connected are skipped silently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// All clients, except these connections.
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

/// Requests of a hub to the service.
pub trait ClientGateway: Send + Sync + 'static {
    /// The protocols that clients may use.
    fn protocols(&self) -> ProtocolSet;

    /// A gateway for messages sent within a call of this connection, if that makes a
    /// difference: they arrive before the call's completion.
    fn within(&self, connection: &Arc<str>) -> Option<Arc<dyn ClientGateway>> {
        let _ = connection;
        None
    }

    /// Sends a message. Messages of one sender arrive in the order of the calls.
    fn send<'a>(&'a self, to: &'a Recipients, payload: HubPayload) -> BoxFuture<'a, Result<()>>;

    /// Adds a connection to a group; every send after it returns reaches the
    /// connection.
    fn join<'a>(&'a self, connection: &'a str, group: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Removes a connection from a group.
    fn leave<'a>(&'a self, connection: &'a str, group: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Sends a call that expects a result.
    fn ask<'a>(
        &'a self,
        id: &'a str,
        connection: &'a str,
        payload: HubPayload,
    ) -> BoxFuture<'a, Result<()>>;

    /// A connection has returned a result without a pending call here: the caller may
    /// be a peer node.
    fn answered(&self, connection: &str, id: &str, protocol: Protocol, message: Bytes) {
        let _ = (connection, id, protocol, message);
    }

    /// Sends a framed message to a connection of this backend.
    fn data(&self, connection: &str, message: Bytes);

    /// Waits until a connection of this backend accepts more; `None` if it does now.
    fn room<'a>(&'a self, connection: &'a str) -> Option<BoxFuture<'a, ()>>;

    /// Closes a connection of this backend; it may not reconnect automatically.
    fn close(&self, connection: &str, error: Option<&str>);
}
