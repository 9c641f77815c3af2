//! Access from a hub in this process to clients on all nodes.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::service::{Completion, Question};

use crate::error::{Error, Kind, Result};
use crate::lobby::Lobby;
use crate::payload::{Payload, Protocols};
use crate::reach::{Reach, To};
use crate::said;

/// The gateway from a hub in this process to its clients.
pub(crate) struct Direct(Weak<Lobby>);

impl Direct {
    /// A gateway to these connections, and to those of the same hub on peer nodes.
    pub(crate) fn of(lobby: &Arc<Lobby>) -> Arc<dyn Reach> {
        Arc::new(Self(Arc::downgrade(lobby)))
    }

    fn lobby(&self) -> Result<Arc<Lobby>> {
        let lost = || Error::new(Kind::Lost("it has ended".to_owned()));
        self.0.upgrade().ok_or_else(lost)
    }
}

impl Reach for Direct {
    fn protocols(&self) -> Protocols {
        match self.0.upgrade() {
            Some(lobby) if lobby.nodes().is_alone() => lobby.protocols(),
            // The protocols of clients on peer nodes are unknown.
            Some(_) => Protocols::BOTH,
            None => Protocols::default(),
        }
    }

    fn send<'a>(&'a self, to: &'a To, payload: Payload) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let all = self.lobby()?.everywhere();
            all.room().await;
            all.send(to, &payload);
            Ok(())
        })
    }

    fn join<'a>(&'a self, connection: &'a str, group: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.lobby()?.everywhere().join(connection, group).await })
    }

    fn leave<'a>(&'a self, connection: &'a str, group: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let all = self.lobby()?.everywhere();
            all.leave(connection, Some(group)).await;
            Ok(())
        })
    }

    fn ask<'a>(
        &'a self,
        id: &'a str,
        connection: &'a str,
        payload: Payload,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let lobby = self.lobby()?;
            let absent = || Error::new(Kind::NoConnection(connection.to_owned()));
            if let Some(client) = lobby.client(connection) {
                let form = client.protocol().and_then(|own| payload.get(own));
                client.send(form.ok_or_else(absent)?.clone());
                return Ok(());
            }
            let asked = lobby.everywhere().question(Question {
                id: id.to_owned(),
                connection: connection.to_owned(),
                caller: lobby.instance().to_owned(),
                payloads: said::payloads(&payload),
            });
            asked.await.map(drop).ok_or_else(absent)
        })
    }

    fn answered(&self, connection: &str, id: &str, protocol: Protocol, message: Bytes) {
        let Some(lobby) = self.0.upgrade() else {
            return;
        };
        if let Some(node) = lobby.take_foreign(connection, id) {
            let caller = lobby.instance().to_owned();
            let own = Completion {
                id: id.to_owned(),
                connection: connection.to_owned(),
                caller,
                outcome: Ok((protocol.name().to_owned(), message)),
            };
            lobby.everywhere().answer(&node, own);
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
