//! An app server's end of its link to the service.
//!
//! The host is the same as in the service's own process; what differs is its reach:
//! everything is a message on the link. One link keeps the order of what one server
//! says.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use steadfast_core::limits;
use steadfast_wire::signalr::frame::{self, Splitter};
use steadfast_wire::signalr::message::{Message as HubMessage, Outcome};
use steadfast_wire::signalr::service::{
    Close, Completion, Data, Flow, FlowKind, GroupData, Handshake, Message, Open, Payloads,
    Question, Target, read as read_service, status, write,
};
use steadfast_wire::signalr::{Protocol, handshake, read};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::caller::Caller;
use crate::claims;
use crate::clients::Clients;
use crate::error::{Error, Kind, Result};
use crate::home::{Arrival, Home};
use crate::host::{Host, HubOptions};
use crate::hub::Hub;
use crate::payload::{Payload, Protocols};
use crate::reach::{Reach, To};

/// How a server leaves its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// It waits until they go.
    WaitForClientsClose,
    /// They are given to other servers, between two messages.
    MigrateClients,
}

/// One hub of an app server, and its link.
pub struct Office<H> {
    host: Arc<Host<H>>,
    wire: Arc<Wire>,
    splitter: Mutex<Splitter>,
}

/// What is said to the service.
struct Wire {
    server: String,
    out: Mutex<Out>,
    wake: Notify,
    room: Notify,
    acks: Mutex<HashMap<i64, oneshot::Sender<i64>>>,
    next_ack: AtomicI64,
    /// Clients of ours, and their protocols.
    tenants: Mutex<HashMap<String, Tenant>>,
    /// Questions of other servers to our clients, by their id.
    foreign: Mutex<HashMap<String, Question>>,
    welcome: Mutex<Option<oneshot::Sender<std::result::Result<(), String>>>>,
    finack: Notify,
    is_acknowledged: AtomicBool,
    emptied: Notify,
    heard: Mutex<Instant>,
}

struct Tenant {
    protocol: Protocol,
    /// The handshake has not come yet.
    is_new: bool,
}

#[derive(Default)]
struct Out {
    bytes: BytesMut,
    is_ending: bool,
}

/// How long the service may take to answer.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

impl<H: Hub> Office<H> {
    /// A hub that speaks for this server.
    pub fn new(server: &str, hub: H, options: HubOptions) -> Self {
        let wire = Arc::new(Wire {
            server: server.to_owned(),
            out: Mutex::default(),
            wake: Notify::new(),
            room: Notify::new(),
            acks: Mutex::default(),
            next_ack: AtomicI64::new(1),
            tenants: Mutex::default(),
            foreign: Mutex::default(),
            welcome: Mutex::new(None),
            finack: Notify::new(),
            is_acknowledged: AtomicBool::new(false),
            emptied: Notify::new(),
            heard: Mutex::new(Instant::now()),
        });
        let reach = Arc::new(Remote(Arc::clone(&wire)));
        let host = Host::new(hub, reach, server, options);
        Self {
            host,
            wire,
            splitter: Mutex::default(),
        }
    }

    /// The hub's clients, wherever they are connected.
    pub fn clients(&self) -> Clients {
        self.host.clients()
    }

    /// How many clients this server has.
    pub fn count(&self) -> usize {
        self.wire.tenants.lock().len()
    }

    /// Introduces the server on a new link, and waits until the service has
    /// welcomed it. Whoever has the socket must carry bytes meanwhile.
    pub async fn greet(&self, mode: ShutdownMode) -> Result<()> {
        let (said, welcome) = oneshot::channel();
        *self.wire.welcome.lock() = Some(said);
        self.wire.tell(&Message::Handshake(Handshake {
            version: 1,
            migration: i64::from(mode == ShutdownMode::MigrateClients),
            is_stateful: true,
            elements: 7,
            ..Handshake::default()
        }));
        let lost = |why: &str| Error::new(Kind::Lost(why.to_owned()));
        match tokio::time::timeout(PATIENCE, welcome).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(why))) => Err(lost(&why)),
            Ok(Err(_)) => Err(lost("the link has ended")),
            Err(_) => Err(lost("it does not answer")),
        }
    }

    /// Takes what has come from the service.
    pub fn take(&self, bytes: Bytes) -> Result<()> {
        *self.wire.heard.lock() = Instant::now();
        let mut splitter = self.splitter.lock();
        splitter.push(bytes);
        let wrong =
            |error: steadfast_wire::signalr::Malformed| Error::new(Kind::Lost(error.to_string()));
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

    fn handle(&self, message: Message) {
        let wire = &self.wire;
        match message {
            Message::Welcome { error, .. } => {
                if let Some(said) = wire.welcome.lock().take() {
                    let _ = said.send(if error.is_empty() { Ok(()) } else { Err(error) });
                }
            }
            Message::Ping(words) => self.ping(words),
            Message::Open(open) => self.open(open),
            Message::Data(data) => self.data(data),
            Message::Close(own) => {
                wire.tenants.lock().remove(&own.connection);
                let to = header(&own.headers, "Asrs-Migrate-To");
                let error = (!own.error.is_empty()).then_some(own.error.as_str());
                self.host.close(&own.connection, error, to);
                wire.emptied.notify_waiters();
            }
            Message::Ack(ack) => {
                if let Some(said) = wire.acks.lock().remove(&ack.id) {
                    let _ = said.send(ack.status);
                }
            }
            Message::Ask(question) => {
                wire.foreign.lock().insert(question.id.clone(), question);
            }
            Message::Answer(own) => self.answered(&own),
            Message::Flow(Flow {
                id,
                is_server: false,
                kind: FlowKind::Pause,
            }) => wire.tell(&Message::Flow(Flow {
                id,
                is_server: false,
                kind: FlowKind::Paused,
            })),
            _ => {}
        }
    }

    fn ping(&self, words: Vec<String>) {
        let texts: Vec<_> = words.iter().map(String::as_str).collect();
        match texts[..] {
            ["shutdown", "finack"] => {
                self.wire.is_acknowledged.store(true, Ordering::SeqCst);
                self.wire.finack.notify_waiters();
            }
            ["echo", _] => self.wire.tell(&Message::Ping(words)),
            [] => self.wire.tell(&Message::Ping(Vec::new())),
            _ => {}
        }
    }

    fn open(&self, open: Open) {
        let name = open.protocol.as_deref().unwrap_or("json");
        let Some(protocol) = Protocol::named(name) else {
            return;
        };
        let from = header(&open.headers, "Asrs-Migrate-From").map(str::to_owned);
        let tenant = Tenant {
            protocol,
            is_new: true,
        };
        let mut tenants = self.wire.tenants.lock();
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
        let caller = Caller {
            user,
            claims,
            headers: flat(&open.headers),
            query: open.query,
        };
        self.host.open(&Arrival {
            id: open.connection.into(),
            caller: Arc::new(caller),
            protocol,
            handshake: Bytes::from_static(handshake::ACCEPTED),
            from,
        });
    }

    fn data(&self, data: Data) {
        let connection = &data.connection;
        let protocol = {
            let mut tenants = self.wire.tenants.lock();
            let Some(tenant) = tenants.get_mut(connection) else {
                return;
            };
            // The first is the handshake, which was answered when the client came.
            if std::mem::take(&mut tenant.is_new) {
                return;
            }
            tenant.protocol
        };
        if let Ok(HubMessage::Completion { id, .. }) = read::message(protocol, &data.payload)
            && let Some(question) = self.wire.foreign.lock().remove(&id)
        {
            return self.wire.tell(&Message::Answer(Completion {
                id,
                connection: question.connection,
                caller: self.wire.server.clone(),
                outcome: Ok((protocol.name().to_owned(), data.payload)),
            }));
        }
        self.host.data(connection, data.payload);
    }

    fn answered(&self, own: &Completion) {
        let (protocol, outcome) = match &own.outcome {
            Ok((name, payload)) => {
                let protocol = Protocol::named(name).unwrap_or(Protocol::Json);
                match read::message(protocol, payload) {
                    Ok(HubMessage::Completion { outcome, .. }) => (protocol, outcome),
                    _ => (protocol, Outcome::Error("It cannot be read.".to_owned())),
                }
            }
            Err(why) => (Protocol::Json, Outcome::Error(why.clone())),
        };
        self.host
            .answered(&own.connection, &own.id, protocol, outcome);
    }

    /// Goes offline: when it returns, no client is given to this server any more.
    pub async fn go_offline(&self, mode: ShutdownMode) {
        let how = match mode {
            ShutdownMode::MigrateClients => "fin:1",
            ShutdownMode::WaitForClientsClose => "fin:2",
        };
        loop {
            let said = self.wire.finack.notified();
            if self.wire.is_acknowledged.load(Ordering::SeqCst) {
                return;
            }
            let words = ["shutdown", how].map(str::to_owned);
            self.wire.tell(&Message::Ping(words.to_vec()));
            let _ = tokio::time::timeout(limits::SERVER_PING, said).await;
        }
    }

    /// Waits until this server has no client.
    pub async fn emptied(&self) {
        loop {
            let emptied = self.wire.emptied.notified();
            if self.count() == 0 {
                return;
            }
            emptied.await;
        }
    }

    /// The link is lost, or ended: all clients have gone.
    pub fn lost(&self) {
        self.wire.end();
        let tenants: Vec<_> = self.wire.tenants.lock().drain().collect();
        for (id, _) in tenants {
            self.host
                .close(&id, Some("the link to the service was lost"), None);
        }
        self.wire.acks.lock().clear();
        self.wire.emptied.notify_waiters();
    }

    /// What is to be sent next; `None` at the end, or if the service is silent.
    pub async fn outgoing(&self) -> Option<Bytes> {
        self.wire.outgoing().await
    }

    /// Nothing more is said.
    pub fn end(&self) {
        self.wire.end();
    }

    /// The link begins anew.
    pub fn begin(&self) {
        *self.wire.out.lock() = Out::default();
        *self.splitter.lock() = Splitter::default();
        *self.wire.heard.lock() = Instant::now();
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

impl Wire {
    fn tell(&self, message: &Message) {
        let mut out = self.out.lock();
        if !out.is_ending {
            out.bytes.extend_from_slice(&write(message));
        }
        drop(out);
        self.wake.notify_one();
    }

    fn end(&self) {
        self.out.lock().is_ending = true;
        self.wake.notify_one();
        self.room.notify_waiters();
    }

    async fn outgoing(&self) -> Option<Bytes> {
        loop {
            let woken = self.wake.notified();
            {
                let mut out = self.out.lock();
                if !out.bytes.is_empty() {
                    let bytes = out.bytes.split().freeze();
                    drop(out);
                    self.room.notify_waiters();
                    return Some(bytes);
                }
                if out.is_ending {
                    return None;
                }
            }
            let silence = *self.heard.lock() + limits::SERVER_SILENCE;
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep_until(silence) => {
                    if Instant::now() >= *self.heard.lock() + limits::SERVER_SILENCE {
                        return None;
                    }
                }
            }
        }
    }

    fn is_full(&self) -> bool {
        let out = self.out.lock();
        out.bytes.len() > limits::SERVER_ROOM_BYTES && !out.is_ending
    }

    async fn wait(&self) {
        loop {
            let made = self.room.notified();
            if !self.is_full() {
                return;
            }
            made.await;
        }
    }

    /// Says something whose acknowledgement is waited for.
    async fn ask(&self, make: impl FnOnce(i64) -> Message) -> Result<i64> {
        let id = self.next_ack.fetch_add(1, Ordering::Relaxed);
        let (said, waiting) = oneshot::channel();
        self.acks.lock().insert(id, said);
        self.tell(&make(id));
        let answer = tokio::time::timeout(PATIENCE, waiting).await;
        self.acks.lock().remove(&id);
        let lost = || Error::new(Kind::Lost("it does not answer".to_owned()));
        answer.map_err(|_| lost())?.map_err(|_| lost())
    }
}

/// How a hub of an app server reaches clients.
struct Remote(Arc<Wire>);

fn payloads(payload: &Payload) -> Payloads {
    let forms = payload.forms().iter();
    let forms = forms.map(|(protocol, bytes)| (protocol.name().to_owned(), bytes.clone()));
    forms.collect()
}

impl Reach for Remote {
    fn protocols(&self) -> Protocols {
        Protocols::BOTH
    }

    fn send<'a>(&'a self, to: &'a To, payload: Payload) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.0.wait().await;
            let payloads = payloads(&payload);
            let to = match to.clone() {
                To::Group { name, except } => {
                    self.0.tell(&Message::Group(GroupData {
                        group: name,
                        except,
                        payloads,
                        ..GroupData::default()
                    }));
                    return Ok(());
                }
                To::All { except } => Target::All { except },
                To::Groups(groups) => Target::Groups(groups),
                To::Users(users) => Target::Users(users),
                To::Connections(ids) => Target::Connections(ids),
            };
            self.0.tell(&Message::Send { to, payloads });
            Ok(())
        })
    }

    fn join<'a>(&'a self, connection: &'a str, group: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let asked = self.0.ask(|ack| Message::Join {
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
            let asked = self.0.ask(|ack| Message::Leave {
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
            self.0.tell(&Message::Ask(Question {
                id: id.to_owned(),
                connection: connection.to_owned(),
                caller: self.0.server.clone(),
                payloads: payloads(&payload),
            }));
            Ok(())
        })
    }

    fn data(&self, connection: &str, message: Bytes) {
        self.0.tell(&Message::Data(Data {
            connection: connection.to_owned(),
            payload: message,
            ..Data::default()
        }));
    }

    fn room<'a>(&'a self, _connection: &'a str) -> Option<BoxFuture<'a, ()>> {
        match self.0.is_full() {
            true => Some(Box::pin(self.0.wait())),
            false => None,
        }
    }

    fn close(&self, connection: &str, error: Option<&str>) {
        self.0.tell(&Message::Close(Close {
            connection: connection.to_owned(),
            error: error.unwrap_or_default().to_owned(),
            headers: Vec::new(),
        }));
    }
}
