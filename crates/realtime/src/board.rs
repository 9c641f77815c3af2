//! All links of one hub of an app server, and its clients.
//!
//! What concerns one client goes by the link that brought it, so that everything
//! that is said to it keeps its order. Sends to others go by the link of the client
//! whose call they are part of, or by the first one.

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
    /// Clients of ours.
    pub(crate) tenants: Mutex<HashMap<String, Tenant>>,
    /// Questions of other servers to our clients, by their id.
    pub(crate) foreign: Mutex<HashMap<String, Question>>,
    pub(crate) emptied: Notify,
}

/// A client of this server.
pub(crate) struct Tenant {
    pub(crate) protocol: Protocol,
    /// The handshake has not come yet.
    pub(crate) is_new: bool,
    /// The node that keeps it.
    pub(crate) instance: String,
    pub(crate) wire: Arc<Wire>,
}

impl Board {
    /// Nobody answers questions to these connections any more.
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

    /// A link was welcomed.
    pub(crate) fn add(&self, wire: &Arc<Wire>) {
        self.wires.write().push(Arc::clone(wire));
    }

    /// A link has gone.
    pub(crate) fn remove(&self, wire: &Arc<Wire>) {
        self.wires.write().retain(|own| !Arc::ptr_eq(own, wire));
    }

    pub(crate) fn wires(&self) -> Vec<Arc<Wire>> {
        self.wires.read().clone()
    }

    /// The link of a client, if it is ours.
    fn wire_of(&self, connection: &str) -> Option<Arc<Wire>> {
        let tenants = self.tenants.lock();
        tenants.get(connection).map(|own| Arc::clone(&own.wire))
    }

    /// The link for sends that are part of a call of this client, or of none.
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

/// How a hub of an app server reaches clients: all of them, or as part of a call.
pub(crate) struct Remote {
    pub(crate) board: Arc<Board>,
    /// The client whose call it is part of.
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
                // What one client gets keeps its order.
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
