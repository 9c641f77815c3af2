//! A hub in an app server, and its links to the service.
//!
//! The dispatcher is the same as in the service's own process; only its client
//! gateway differs: everything is a message on a link. One link keeps the order of
//! its messages.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::limits;
use steadfast_wire::signalr::frame::{self, FramedMessage, Splitter};
use steadfast_wire::signalr::service::{
    ClientCompletion, ConnectionData, FlowControl, FlowControlKind, Message, OpenConnection,
    ServerHandshake, read as read_service,
};
use steadfast_wire::signalr::{Protocol, handshake};
use tokio::sync::Notify;

use crate::app_server::link_set::{LinkSet, RemoteClient, RemoteGateway};
use crate::app_server::link_writer::LinkWriter;
use crate::backend::{HubBackend, NewClient};
use crate::connection::claims;
use crate::connection::identity::ClientIdentity;
use crate::dispatch::clients::Clients;
use crate::dispatch::dispatcher::{HubDispatcher, HubOptions};
use crate::dispatch::hub::Hub;
use crate::error::{Error, ErrorKind, Result};

/// The way a server leaves its clients at shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// It waits until they disconnect.
    WaitForClientsClose,
    /// They are migrated to other servers, between two messages.
    MigrateClients,
}

impl ShutdownMode {
    /// The name in the service protocol.
    fn word(self) -> &'static str {
        match self {
            Self::MigrateClients => "fin:1",
            Self::WaitForClientsClose => "fin:2",
        }
    }
}

/// One hub of an app server.
pub struct AppServerHub<H> {
    host: Arc<HubDispatcher<H>>,
    board: Arc<LinkSet>,
    wanted: Mutex<Option<String>>,
    wish: Notify,
}

/// One link of a hub of an app server, for the owner of its socket.
pub struct AppServerHubLink<H: Hub> {
    office: Arc<AppServerHub<H>>,
    wire: Arc<LinkWriter>,
    splitter: Mutex<Splitter>,
}

impl<H: Hub> AppServerHub<H> {
    /// A hub hosted by this server.
    pub fn new(server: &str, hub: H, options: HubOptions) -> Arc<Self> {
        let board = Arc::new(LinkSet::new(server));
        let reach = Arc::new(RemoteGateway {
            board: Arc::clone(&board),
            flow: None,
        });
        let host = HubDispatcher::new(hub, reach, server, options);
        Arc::new(Self {
            host,
            board,
            wanted: Mutex::new(None),
            wish: Notify::new(),
        })
    }

    /// The hub's clients, on all nodes of the service.
    pub fn clients(&self) -> Clients {
        self.host.clients()
    }

    /// Number of clients of this server.
    pub fn count(&self) -> usize {
        self.board.clients.lock().len()
    }

    /// Number of connected links.
    pub fn links(&self) -> usize {
        self.board.wires().len()
    }

    /// A new link, before its handshake.
    pub fn link(self: &Arc<Self>) -> AppServerHubLink<H> {
        AppServerHubLink {
            office: Arc::clone(self),
            wire: Arc::new(LinkWriter::new()),
            splitter: Mutex::default(),
        }
    }

    /// Waits until the service asks for one more link, and returns its node.
    pub async fn wanted(&self) -> String {
        loop {
            let wish = self.wish.notified();
            if let Some(node) = self.wanted.lock().take() {
                return node;
            }
            wish.await;
        }
    }

    /// Goes offline: when it returns, this server gets no new clients.
    pub async fn go_offline(&self, mode: ShutdownMode) {
        let wires = self.board.wires();
        let going = wires.iter().map(|wire| wire.go_offline(mode.word()));
        futures_util::future::join_all(going).await;
    }

    /// Waits until this server has no client.
    pub async fn emptied(&self) {
        loop {
            let emptied = self.board.emptied.notified();
            if self.count() == 0 {
                return;
            }
            emptied.await;
        }
    }

    /// Ends all links.
    pub fn end(&self) {
        for wire in self.board.wires() {
            wire.end();
        }
    }

    /// Closes the matching clients, which are unreachable.
    fn lose(&self, fits: impl Fn(&RemoteClient) -> bool, why: &str) {
        let lost: Vec<_> = {
            let mut tenants = self.board.clients.lock();
            let lost = tenants.extract_if(|_, own| fits(own));
            lost.map(|(id, _)| id).collect()
        };
        let gone: HashSet<_> = lost.iter().map(String::as_str).collect();
        self.board
            .drop_calls(|connection| gone.contains(connection));
        for id in lost {
            self.host.close(&id, Some(why), None);
        }
        self.board.emptied.notify_waiters();
    }
}

impl<H: Hub> AppServerHubLink<H> {
    /// Sends the handshake and waits until the service has accepted it. The owner of
    /// the socket must carry bytes concurrently. `target` is the node that has asked
    /// for the link, if any.
    pub async fn greet(&self, mode: ShutdownMode, target: Option<&str>) -> Result<()> {
        let greeting = Message::Handshake(ServerHandshake {
            version: 1,
            kind: i64::from(target.is_some()),
            target: target.unwrap_or_default().to_owned(),
            migration: i64::from(mode == ShutdownMode::MigrateClients),
            is_stateful: true,
            elements: 7,
        });
        self.wire.greet(&greeting).await?;
        self.office.board.add(&self.wire);
        Ok(())
    }

    /// Handles received bytes of the service.
    pub fn take(&self, bytes: Bytes) -> Result<()> {
        self.wire.heard();
        let mut splitter = self.splitter.lock();
        splitter.push(bytes);
        let wrong = |error: steadfast_wire::signalr::SignalRDecodeError| {
            Error::new(ErrorKind::Lost(error.to_string()))
        };
        let protocol = Protocol::MessagePack;
        while let Some(whole) = splitter
            .next(protocol, limits::SERVER_MESSAGE_BYTES)
            .map_err(wrong)?
        {
            let body = frame::body(protocol, &whole).map_err(wrong)?;
            self.handle(read_service(&body).map_err(wrong)?);
        }
        Ok(())
    }

    /// The next bytes to send; `None` at the end, or if the service is silent.
    pub async fn outgoing(&self) -> Option<Bytes> {
        self.wire.outgoing().await
    }

    /// The link is lost or ended: its clients are closed.
    pub fn lost(&self) {
        self.wire.end();
        self.office.board.remove(&self.wire);
        let is_ours = |own: &RemoteClient| Arc::ptr_eq(&own.writer, &self.wire);
        self.office
            .lose(is_ours, "the link to the service was lost");
    }

    fn handle(&self, message: Message) {
        let (wire, board) = (&self.wire, &self.office.board);
        match message {
            Message::Welcome { error, .. } => wire.welcomed(error),
            Message::Ping(words) => self.ping(words),
            Message::Open(open) => self.open(open),
            Message::Data(data) => self.data(data),
            Message::Close(own) => {
                board.clients.lock().remove(&own.connection);
                board.drop_calls(|connection| connection == own.connection);
                let to = header(&own.headers, "Asrs-Migrate-To");
                let error = (!own.error.is_empty()).then_some(own.error.as_str());
                self.office.host.close(&own.connection, error, to);
                board.emptied.notify_waiters();
            }
            Message::Ack(ack) => wire.acknowledged(ack.id, ack.status),
            Message::Ask(question) => {
                board.foreign.lock().insert(question.id.clone(), question);
            }
            Message::Answer(own) => self.office.host.answered(&own),
            Message::Flow(FlowControl {
                id,
                is_server: false,
                kind: FlowControlKind::Pause,
            }) => wire.tell(&Message::Flow(FlowControl {
                id,
                is_server: false,
                kind: FlowControlKind::Paused,
            })),
            Message::Flow(FlowControl {
                is_server: true,
                kind: FlowControlKind::Offline,
                ..
            }) => wire.avoid(),
            _ => {}
        }
    }

    fn ping(&self, words: Vec<String>) {
        let texts: Vec<_> = words.iter().map(String::as_str).collect();
        match texts[..] {
            ["shutdown", "finack"] => self.wire.is_offline_now(),
            ["echo", _] => self.wire.tell(&Message::Ping(words)),
            ["target", node] => {
                *self.office.wanted.lock() = Some(node.to_owned());
                self.office.wish.notify_one();
            }
            ["offline", node] => {
                let is_there = |own: &RemoteClient| own.instance == node;
                self.office
                    .lose(is_there, "the service node has left the cluster");
            }
            [] => self.wire.tell(&Message::Ping(Vec::new())),
            _ => {}
        }
    }

    fn open(&self, open: OpenConnection) {
        let name = open.protocol.as_deref().unwrap_or("json");
        let Some(protocol) = Protocol::named(name) else {
            return;
        };
        let from = header(&open.headers, "Asrs-Migrate-From").map(str::to_owned);
        let instance = header(&open.headers, "Asrs-Instance-Id");
        let tenant = RemoteClient {
            protocol,
            is_new: true,
            instance: instance.unwrap_or_default().to_owned(),
            writer: Arc::clone(&self.wire),
        };
        let mut tenants = self.office.board.clients.lock();
        tenants.insert(open.connection.clone(), tenant);
        drop(tenants);
        let claims = open.claims.into_iter();
        let claims = claims.map(|(name, value)| (claims::short(&name).to_owned(), value));
        let claims: Vec<_> = claims.collect();
        let user = ["asrs.s.uid", "nameid", "sub"].iter();
        let mut user = user.filter_map(|name| {
            let found = claims.iter().find(|(own, _)| own == name);
            found.map(|(_, value)| value.clone())
        });
        let user = user.next();
        let caller = ClientIdentity {
            user,
            claims,
            headers: flat(&open.headers),
            query: open.query,
        };
        self.office.host.open(&NewClient {
            id: open.connection.into(),
            caller: Arc::new(caller),
            protocol,
            handshake: Bytes::from_static(handshake::ACCEPTED),
            from,
        });
    }

    fn data(&self, data: ConnectionData) {
        let connection = &data.connection;
        let board = &self.office.board;
        let protocol = {
            let mut tenants = board.clients.lock();
            let Some(tenant) = tenants.get_mut(connection) else {
                return;
            };
            // The first message is the handshake, which was answered when the client was
            // opened.
            if std::mem::take(&mut tenant.is_new) {
                return;
            }
            tenant.protocol
        };
        let is_asked = !board.foreign.lock().is_empty();
        let unread = FramedMessage::unread(data.payload.clone());
        let message = if is_asked {
            FramedMessage::read(protocol, data.payload.clone()).unwrap_or(unread)
        } else {
            unread
        };
        if let Some(id) = message.completed()
            && let Some(question) = board.foreign.lock().remove(id)
        {
            return self.wire.tell(&Message::Answer(ClientCompletion {
                id: id.to_owned(),
                connection: question.connection,
                caller: board.server.clone(),
                outcome: Ok((protocol.name().to_owned(), data.payload)),
            }));
        }
        self.office.host.data(connection, message);
    }
}

fn header<'a>(headers: &'a [(String, Vec<String>)], name: &str) -> Option<&'a str> {
    let mut headers = headers.iter();
    let (_, values) = headers.find(|(own, _)| own.eq_ignore_ascii_case(name))?;
    values.first().map(String::as_str)
}

fn flat(headers: &[(String, Vec<String>)]) -> Vec<(String, String)> {
    let pairs = headers.iter();
    let pairs = pairs.flat_map(|(name, values)| {
        values
            .iter()
            .map(move |value| (name.clone(), value.clone()))
    });
    pairs.collect()
}
