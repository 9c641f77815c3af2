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
use steadfast_wire::signalr::service::{Close, Data, Message, Question, status};
use tokio::sync::Notify;

use crate::error::{Error, Kind, Result};
use crate::payload::{Payload, Protocols};
use crate::reach::{Reach, To};
use crate::said;
use crate::wire::Wire;

/// Links and clients of a hub.
pub(crate) struct Board {
    pub(crate) server: String,
    wires: RwLock<Vec<Arc<Wire>>>,
    /// Clients of this server.
    pub(crate) tenants: Mutex<HashMap<String, Tenant>>,
    /// Calls of other servers to our clients, by their id.
    pub(crate) foreign: Mutex<HashMap<String, Question>>,
    pub(crate) emptied: Notify,
}

/// A client of this server.
pub(crate) struct Tenant {
    pub(crate) protocol: Protocol,
    /// The handshake has not been received yet.
    pub(crate) is_new: bool,
    /// The service node that the client is connected to.
    pub(crate) instance: String,
    pub(crate) wire: Arc<Wire>,
}

impl Board {
    /// Drops pending calls of these connections.
    pub(crate) fn forget_questions(&self, is_gone: impl Fn(&str) -> bool) {
        let mut foreign = self.foreign.lock();
        foreign.retain(|_, question| !is_gone(&question.connection));
    }

    pub(crate) fn new(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            wires: RwLock::default(),
            tenants: Mutex::default(),
            foreign: Mutex::default(),
            emptied: Notify::new(),
        }
    }

    /// Adds a link that the service has accepted.
    pub(crate) fn add(&self, wire: &Arc<Wire>) {
        self.wires.write().push(Arc::clone(wire));
    }

    /// Removes a lost link.
    pub(crate) fn remove(&self, wire: &Arc<Wire>) {
        self.wires.write().retain(|own| !Arc::ptr_eq(own, wire));
    }

    pub(crate) fn wires(&self) -> Vec<Arc<Wire>> {
        self.wires.read().clone()
    }

    /// The link of a client, if the client belongs to this server.
    fn wire_of(&self, connection: &str) -> Option<Arc<Wire>> {
        let tenants = self.tenants.lock();
        tenants.get(connection).map(|own| Arc::clone(&own.wire))
    }

    /// The link for messages sent within a call of this client, or outside any call.
    fn wire_for(&self, flow: Option<&str>) -> Result<Arc<Wire>> {
        let own = flow.and_then(|connection| self.wire_of(connection));
        if let Some(wire) = own.filter(|wire| !wire.is_avoided()) {
            return Ok(wire);
        }
        let wires = self.wires.read();
        let usual = wires.iter().find(|wire| !wire.is_avoided());
        let found = usual.or(wires.first()).cloned();
        found.ok_or_else(|| Error::new(Kind::Lost("there is no link to it".to_owned())))
    }
}

/// Reaches clients through the service: all of them, or within a call.
pub(crate) struct Remote {
    pub(crate) board: Arc<Board>,
    /// The client whose call the messages belong to.
    pub(crate) flow: Option<Arc<str>>,
}

impl Remote {
    fn wire(&self) -> Result<Arc<Wire>> {
        self.board.wire_for(self.flow.as_deref())
    }
}

impl Reach for Remote {
    fn protocols(&self) -> Protocols {
        Protocols::BOTH
    }

    fn within(&self, connection: &Arc<str>) -> Option<Arc<dyn Reach>> {
        Some(Arc::new(Self {
            board: Arc::clone(&self.board),
            flow: Some(Arc::clone(connection)),
        }))
    }

    fn send<'a>(&'a self, to: &'a To, payload: Payload) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let wire = match to {
                // Messages to one client keep their order.
                To::Connections(ids) if ids.len() == 1 => self.board.wire_of(&ids[0]),
                _ => None,
            };
            let wire = wire.map_or_else(|| self.wire(), Ok)?;
            wire.wait().await;
            wire.tell(&said::send(to, &payload));
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
                _ => Err(Error::new(Kind::NoConnection(connection.to_owned()))),
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
        payload: Payload,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let wire = self.board.wire_of(connection);
            let wire = wire.map_or_else(|| self.wire(), Ok)?;
            wire.tell(&Message::Ask(Question {
                id: id.to_owned(),
                connection: connection.to_owned(),
                caller: self.board.server.clone(),
                payloads: said::payloads(&payload),
            }));
            Ok(())
        })
    }

    fn data(&self, connection: &str, message: Bytes) {
        if let Some(wire) = self.board.wire_of(connection) {
            wire.tell(&Message::Data(Data {
                connection: connection.to_owned(),
                payload: message,
                ..Data::default()
            }));
        }
    }

    fn room<'a>(&'a self, connection: &'a str) -> Option<BoxFuture<'a, ()>> {
        let wire = self.board.wire_of(connection)?;
        match wire.is_full() {
            true => Some(Box::pin(async move { wire.wait().await })),
            false => None,
        }
    }

    fn close(&self, connection: &str, error: Option<&str>) {
        if let Some(wire) = self.board.wire_of(connection) {
            wire.tell(&Message::Close(Close {
                connection: connection.to_owned(),
                error: error.unwrap_or_default().to_owned(),
                headers: Vec::new(),
            }));
        }
    }
}
