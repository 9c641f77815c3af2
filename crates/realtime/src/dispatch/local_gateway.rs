//! Access from a hub in this process to clients on all nodes.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::service::{ClientCompletion, ClientInvocation};

use crate::cluster::convert;
use crate::dispatch::gateway::{ClientGateway, Recipients};
use crate::dispatch::payload::{HubPayload, ProtocolSet};
use crate::error::{Error, ErrorKind, Result};
use crate::hub_connections::HubConnections;

/// The gateway from a hub in this process to its clients.
pub(crate) struct LocalGateway(Weak<HubConnections>);

impl LocalGateway {
    /// A gateway to these connections, and to those of the same hub on peer nodes.
    pub(crate) fn of(lobby: &Arc<HubConnections>) -> Arc<dyn ClientGateway> {
        Arc::new(Self(Arc::downgrade(lobby)))
    }

    fn lobby(&self) -> Result<Arc<HubConnections>> {
        let lost = || Error::new(ErrorKind::Lost("it has ended".to_owned()));
        self.0.upgrade().ok_or_else(lost)
    }
}

impl ClientGateway for LocalGateway {
    fn protocols(&self) -> ProtocolSet {
        match self.0.upgrade() {
            Some(lobby) if lobby.nodes().is_alone() => lobby.protocols(),
            // The protocols of clients on peer nodes are unknown.
            Some(_) => ProtocolSet::BOTH,
            None => ProtocolSet::default(),
        }
    }

    fn send<'a>(&'a self, to: &'a Recipients, payload: HubPayload) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let all = self.lobby()?.cluster();
            all.room().await;
            all.send(to, &payload);
            Ok(())
        })
    }

    fn join<'a>(&'a self, connection: &'a str, group: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.lobby()?.cluster().join(connection, group).await })
    }

    fn leave<'a>(&'a self, connection: &'a str, group: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let all = self.lobby()?.cluster();
            all.leave(connection, Some(group)).await;
            Ok(())
        })
    }

    fn ask<'a>(
        &'a self,
        id: &'a str,
        connection: &'a str,
        payload: HubPayload,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let lobby = self.lobby()?;
            let absent = || Error::new(ErrorKind::NoConnection(connection.to_owned()));
            if let Some(client) = lobby.client(connection) {
                let form = client.protocol().and_then(|own| payload.get(own));
                client.send(form.ok_or_else(absent)?.clone());
                return Ok(());
            }
            let asked = lobby.cluster().question(ClientInvocation {
                id: id.to_owned(),
                connection: connection.to_owned(),
                caller: lobby.instance().to_owned(),
                payloads: convert::payloads(&payload),
            });
            asked.await.map(drop).ok_or_else(absent)
        })
    }

    fn answered(&self, connection: &str, id: &str, protocol: Protocol, message: Bytes) {
        let Some(lobby) = self.0.upgrade() else {
            return;
        };
        if let Some(node) = lobby.take_peer_call(connection, id) {
            let caller = lobby.instance().to_owned();
            let own = ClientCompletion {
                id: id.to_owned(),
                connection: connection.to_owned(),
                caller,
                outcome: Ok((protocol.name().to_owned(), message)),
            };
            lobby.cluster().answer(&node, own);
        }
    }

    fn data(&self, connection: &str, message: Bytes) {
        let lobby = self.0.upgrade();
        if let Some(client) = lobby.and_then(|lobby| lobby.client(connection)) {
            client.pass(message);
        }
    }

    fn room<'a>(&'a self, connection: &'a str) -> Option<BoxFuture<'a, ()>> {
        let client = self.0.upgrade()?.client(connection)?;
        if client.outbox.has_room() {
            return None;
        }
        Some(Box::pin(async move { client.room().await }))
    }

    fn close(&self, connection: &str, error: Option<&str>) {
        let lobby = self.0.upgrade();
        if let Some(client) = lobby.and_then(|lobby| lobby.client(connection)) {
            client.close(error, false);
        }
    }
}
