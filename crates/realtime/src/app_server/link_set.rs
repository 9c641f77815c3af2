//! All links of one hub of an app server, and its clients.
//!
//! Messages for one client use the link that opened it, which keeps their order.
//! Broadcasts use the link of the client whose call sends them, or the first link.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::service::{
    ClientInvocation, CloseConnection, ConnectionData, Message, status,
};
use tokio::sync::Notify;

use crate::app_server::link_writer::LinkWriter;
use crate::cluster::convert;
use crate::dispatch::gateway::{ClientGateway, HubPayload, ProtocolSet, Recipients};
use crate::error::{Error, ErrorKind, Result};

/// Links and clients of a hub.
pub(crate) struct LinkSet {
    pub(crate) server: String,
    writers: RwLock<Vec<Arc<LinkWriter>>>,
    /// Clients of this server.
    pub(crate) clients: Mutex<HashMap<String, RemoteClient>>,
    /// Calls of other servers to our clients, by their id.
    pub(crate) foreign: Mutex<HashMap<String, ClientInvocation>>,
    pub(crate) emptied: Notify,
}

/// A client of this server.
pub(crate) struct RemoteClient {
    pub(crate) protocol: Protocol,
    /// The handshake has not been received yet.
    pub(crate) is_new: bool,
    /// The service node that the client is connected to.
    pub(crate) instance: String,
    pub(crate) writer: Arc<LinkWriter>,
}

impl LinkSet {
    /// Drops pending calls of these connections.
    pub(crate) fn drop_calls(&self, is_gone: impl Fn(&str) -> bool) {
        let mut foreign = self.foreign.lock();
        foreign.retain(|_, question| !is_gone(&question.connection));
    }

    pub(crate) fn new(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            writers: RwLock::default(),
            clients: Mutex::default(),
            foreign: Mutex::default(),
            emptied: Notify::new(),
        }
    }

    /// Adds a link that the service has accepted.
    pub(crate) fn add(&self, wire: &Arc<LinkWriter>) {
        self.writers.write().push(Arc::clone(wire));
    }

    /// Removes a lost link.
    pub(crate) fn remove(&self, wire: &Arc<LinkWriter>) {
        self.writers.write().retain(|own| !Arc::ptr_eq(own, wire));
    }

    pub(crate) fn wires(&self) -> Vec<Arc<LinkWriter>> {
        self.writers.read().clone()
    }

    /// The link of a client, if the client belongs to this server.
    fn wire_of(&self, connection: &str) -> Option<Arc<LinkWriter>> {
        let tenants = self.clients.lock();
        tenants.get(connection).map(|own| Arc::clone(&own.writer))
    }

    /// The link for messages sent within a call of this client, or outside any call.
    fn wire_for(&self, flow: Option<&str>) -> Result<Arc<LinkWriter>> {
        let own = flow.and_then(|connection| self.wire_of(connection));
        if let Some(wire) = own.filter(|wire| !wire.is_avoided()) {
            return Ok(wire);
        }
        let wires = self.writers.read();
        let usual = wires.iter().find(|wire| !wire.is_avoided());
        let found = usual.or(wires.first()).cloned();
        found.ok_or_else(|| Error::new(ErrorKind::Lost("there is no link to it".to_owned())))
    }
}

/// Reaches clients through the service: all of them, or within a call.
pub(crate) struct RemoteGateway {
    pub(crate) board: Arc<LinkSet>,
    /// The client whose call the messages belong to.
    pub(crate) flow: Option<Arc<str>>,
}

impl RemoteGateway {
    fn wire(&self) -> Result<Arc<LinkWriter>> {
        self.board.wire_for(self.flow.as_deref())
    }
}

impl ClientGateway for RemoteGateway {
    fn protocols(&self) -> ProtocolSet {
        ProtocolSet::BOTH
    }

    fn within(&self, connection: &Arc<str>) -> Option<Arc<dyn ClientGateway>> {
        Some(Arc::new(Self {
            board: Arc::clone(&self.board),
            flow: Some(Arc::clone(connection)),
        }))
    }

    fn send<'a>(&'a self, to: &'a Recipients, payload: HubPayload) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let wire = match to {
                // Messages to one client keep their order.
                Recipients::Connections(ids) if ids.len() == 1 => self.board.wire_of(&ids[0]),
                _ => None,
            };
            let wire = wire.map_or_else(|| self.wire(), Ok)?;
            wire.wait().await;
            wire.tell(&convert::send(to, &payload));
            Ok(())
        })
    }

    fn join<'a>(&'a self, connection: &'a str, group: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let wire = self.wire()?;
            let asked = wire.ask(|ack| Message::Join {
                connection: connection.to_owned(),
                group: group.to_owned(),
                ack: Some(ack),
            });
            match asked.await? {
                status::OK => Ok(()),
                _ => Err(Error::new(ErrorKind::NoConnection(connection.to_owned()))),
            }
        })
    }

    fn leave<'a>(&'a self, connection: &'a str, group: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let wire = self.wire()?;
            let asked = wire.ask(|ack| Message::Leave {
                connection: connection.to_owned(),
                group: Some(group.to_owned()),
                ack: Some(ack),
            });
            asked.await.map(drop)
        })
    }

    fn ask<'a>(
        &'a self,
        id: &'a str,
        connection: &'a str,
        payload: HubPayload,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let wire = self.board.wire_of(connection);
            let wire = wire.map_or_else(|| self.wire(), Ok)?;
            wire.tell(&Message::Ask(ClientInvocation {
                id: id.to_owned(),
                connection: connection.to_owned(),
                caller: self.board.server.clone(),
                payloads: convert::payloads(&payload),
            }));
            Ok(())
        })
    }

    fn data(&self, connection: &str, message: Bytes) {
        if let Some(wire) = self.board.wire_of(connection) {
            wire.tell(&Message::Data(ConnectionData {
                connection: connection.to_owned(),
                payload: message,
                ..ConnectionData::default()
            }));
        }
    }

    fn room<'a>(&'a self, connection: &'a str) -> Option<BoxFuture<'a, ()>> {
        let wire = self.board.wire_of(connection)?;
        if wire.is_full() {
            Some(Box::pin(async move { wire.wait().await }))
        } else {
            None
        }
    }

    fn close(&self, connection: &str, error: Option<&str>) {
        if let Some(wire) = self.board.wire_of(connection) {
            wire.tell(&Message::Close(CloseConnection {
                connection: connection.to_owned(),
                error: error.unwrap_or_default().to_owned(),
                headers: Vec::new(),
            }));
        }
    }
}
