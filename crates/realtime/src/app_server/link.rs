//! The link of one app server, at the service.
//!
//! A link is a backend: messages of clients go to the server in the service protocol,
//! and its messages return. The owner of the socket reads and writes the bytes. An
//! offline link keeps working, but gets no new clients.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use steadfast_core::limits;
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::frame::{self, FramedMessage, Splitter};
use steadfast_wire::signalr::service::{
    CloseConnection, ConnectionData, FlowControl, FlowControlKind, Message, OpenConnection,
    ServerHandshake, read, write,
};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backend::{HubBackend, NewClient};
use crate::connection::claims;
use crate::connection::client::ClientConnection;
use crate::connection::id;
use crate::hub_connections::HubConnections;
use crate::metrics::count;

/// A server connection.
pub struct AppServerLink {
    id: String,
    server: String,
    hub: Arc<HubConnections>,
    /// The server uses this library: it accepts clients of lost servers.
    is_ours: bool,
    greeting: OnceLock<ServerHandshake>,
    out: Mutex<LinkBuffer>,
    wake: Notify,
    room: Notify,
    clients: Mutex<HashMap<Arc<str>, LinkClient>>,
    is_offline: AtomicBool,
    /// Number of clients that were migrated from it.
    moved: AtomicU64,
    /// Number of clients that it had when its socket was lost.
    left: AtomicU64,
    times: Mutex<LinkTimes>,
    over: CancellationToken,
}

#[derive(Default)]
struct LinkBuffer {
    bytes: BytesMut,
    is_ending: bool,
}

struct LinkTimes {
    heard: Instant,
    spoke: Instant,
}

/// A client whose backend is this link.
struct LinkClient {
    client: Arc<ClientConnection>,
    /// The received parts of a message that the server sends in pieces.
    partial: BytesMut,
    paused: Option<oneshot::Sender<()>>,
}

/// The way a server shuts down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownKind {
    /// It closes its clients itself.
    Off,
    /// Its clients are migrated.
    Migrate,
    /// Its clients stay until they disconnect.
    Wait,
}

impl AppServerLink {
    pub(crate) fn new(server: String, lobby: Arc<HubConnections>, is_ours: bool) -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            id: id::random(),
            server,
            hub: lobby,
            is_ours,
            greeting: OnceLock::new(),
            out: Mutex::default(),
            wake: Notify::new(),
            room: Notify::new(),
            clients: Mutex::default(),
            is_offline: AtomicBool::new(false),
            moved: AtomicU64::new(0),
            left: AtomicU64::new(0),
            times: Mutex::new(LinkTimes {
                heard: now,
                spoke: now,
            }),
            over: CancellationToken::new(),
        })
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The server's handshake.
    pub(crate) fn greeting(&self) -> Option<&ServerHandshake> {
        self.greeting.get()
    }

    pub(crate) fn greet(&self, greeting: ServerHandshake) -> bool {
        self.greeting.set(greeting).is_ok()
    }

    /// Queues a message to the server.
    pub(crate) fn send(&self, message: &Message) {
        let written = write(message);
        let mut out = self.out.lock();
        if out.is_ending {
            return;
        }
        out.bytes.extend_from_slice(&written);
        let is_stuck = out.bytes.len() > limits::SERVER_OUT_BYTES;
        drop(out);
        if is_stuck {
            tracing::warn!(
                event = "realtime.slow_server",
                server = self.server,
                link = self.id
            );
            self.end();
        }
        self.wake.notify_one();
    }

    /// Ends the outgoing stream.
    pub fn end(&self) {
        self.out.lock().is_ending = true;
        self.wake.notify_one();
    }

    /// Takes it offline: it gets no new clients. False if it was offline before.
    pub(crate) fn go_offline(&self) -> bool {
        !self.is_offline.swap(true, Ordering::SeqCst)
    }

    /// Whether it is offline.
    pub(crate) fn is_offline(&self) -> bool {
        self.is_offline.load(Ordering::SeqCst)
    }

    /// Whether it carries clients at all.
    pub(crate) fn carries(&self) -> bool {
        self.greeting.get().is_some_and(|own| own.kind != 2)
    }

    /// Number of clients that were migrated from it.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Number of clients that it had when its socket was lost.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Its clients.
    pub(crate) fn clients(&self) -> Vec<Arc<ClientConnection>> {
        let tenants = self.clients.lock();
        tenants
            .values()
            .map(|own| Arc::clone(&own.client))
            .collect()
    }

    /// A client of this link.
    pub(crate) fn client(&self, connection: &str) -> Option<Arc<ClientConnection>> {
        let tenants = self.clients.lock();
        tenants.get(connection).map(|own| Arc::clone(&own.client))
    }

    /// Forgets a client that the server has closed; no close message follows.
    pub(crate) fn forget(&self, connection: &str) -> Option<Arc<ClientConnection>> {
        let tenant = self.clients.lock().remove(connection)?;
        Some(tenant.client)
    }

    /// Returns the server's message to a client once all its parts have arrived. A
    /// client whose message becomes too long is closed.
    pub(crate) fn gather(&self, data: ConnectionData) -> Option<(Arc<ClientConnection>, Bytes)> {
        let mut tenants = self.clients.lock();
        let all: usize = if data.is_partial {
            tenants.values().map(|own| own.partial.len()).sum()
        } else {
            0
        };
        let tenant = tenants.get_mut(&*data.connection)?;
        let whole = tenant.partial.len() + data.payload.len();
        let is_too_long = whole > limits::SERVER_PARTIAL_BYTES
            || all + data.payload.len() > limits::LINK_PARTIAL_BYTES;
        if is_too_long && (data.is_partial || !tenant.partial.is_empty()) {
            tenant.partial = BytesMut::new();
            let client = Arc::clone(&tenant.client);
            drop(tenants);
            let why = "a message in parts is too long";
            tracing::warn!(
                event = "realtime.refused_message",
                server = self.server,
                why
            );
            client.close(
                Some("Connection closed with an error. The message is too long."),
                false,
            );
            return None;
        }
        if data.is_partial || !tenant.partial.is_empty() {
            tenant.partial.extend_from_slice(&data.payload);
        }
        if data.is_partial {
            return None;
        }
        let payload = if tenant.partial.is_empty() {
            data.payload
        } else {
            tenant.partial.split().freeze()
        };
        Some((Arc::clone(&tenant.client), payload))
    }

    /// The server has confirmed that it sends nothing more to a client.
    pub(crate) fn paused(&self, connection: &str) {
        let mut tenants = self.clients.lock();
        let waiting = tenants
            .get_mut(connection)
            .and_then(|own| own.paused.take());
        if let Some(waiting) = waiting {
            // The waiter may have timed out.
            let _ = waiting.send(());
        }
    }

    /// The socket is lost: its clients reconnect elsewhere. Returns those that can be
    /// held until they have another backend.
    ///
    /// Waiters of the link are woken last: by then each client has another backend or
    /// is closed, and the link accepts and drops late messages.
    pub(crate) fn lost(&self) -> (usize, Vec<Arc<ClientConnection>>) {
        self.go_offline();
        self.end();
        let tenants: Vec<_> = self.clients.lock().drain().collect();
        let count = tenants.len();
        self.left.store(count as u64, Ordering::Relaxed);
        let mut held = Vec::new();
        for (id, tenant) in tenants {
            if self.is_ours && tenant.client.hold() {
                held.push(tenant.client);
                continue;
            }
            self.hub.leave_group(&id, None);
            tenant.client.close(Some("ServerOffline"), true);
        }
        self.out.lock().bytes = BytesMut::new();
        self.over.cancel();
        (count - held.len(), held)
    }

    /// Whether the outgoing stream has ended, because its socket is lost or closes.
    fn is_ending(&self) -> bool {
        self.out.lock().is_ending
    }

    /// Whether its socket is lost.
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Waits until its socket is lost.
    pub(crate) async fn gone(&self) {
        self.over.cancelled().await;
    }

    /// Notes activity of the server.
    pub(crate) fn heard(&self) {
        self.times.lock().heard = Instant::now();
    }

    /// The next bytes to send; `None` at the end. It pings while idle.
    pub async fn outgoing(&self) -> Option<Bytes> {
        loop {
            let woken = self.wake.notified();
            {
                let mut out = self.out.lock();
                if !out.bytes.is_empty() {
                    let bytes = out.bytes.split().freeze();
                    drop(out);
                    self.times.lock().spoke = Instant::now();
                    self.room.notify_waiters();
                    return Some(bytes);
                }
                if out.is_ending {
                    return None;
                }
            }
            let (ping, silence) = {
                let times = self.times.lock();
                let limit = match self.greeting.get() {
                    Some(_) => limits::SERVER_SILENCE,
                    None => limits::SERVER_HANDSHAKE,
                };
                (times.spoke + limits::SERVER_PING, times.heard + limit)
            };
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep_until(ping.min(silence)) => {
                    let now = Instant::now();
                    if now >= silence {
                        tracing::info!(event = "realtime.silent_server", server = self.server);
                        self.end();
                    } else if self.greeting.get().is_some() {
                        self.send(&Message::Ping(Vec::new()));
                    }
                    self.times.lock().spoke = now;
                }
            }
        }
    }
}

impl HubBackend for AppServerLink {
    fn server(&self) -> &str {
        &self.server
    }

    fn message_bytes(&self) -> usize {
        limits::CLIENT_MESSAGE_BYTES
    }

    fn open(&self, arrival: &NewClient) {
        let Some(client) = self.hub.client(&arrival.id) else {
            return;
        };
        let tenant = LinkClient {
            client,
            partial: BytesMut::new(),
            paused: None,
        };
        let count = {
            let mut tenants = self.clients.lock();
            tenants.insert(Arc::clone(&arrival.id), tenant);
            tenants.len()
        };
        // It may have been lost since it was chosen.
        if self.is_ending()
            && let Some(client) = self.forget(&arrival.id)
        {
            return client.close(Some("ServerOffline"), true);
        }
        let mut headers: Vec<_> = arrival
            .caller
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), vec![value.clone()]))
            .collect();
        headers.push((
            "Asrs-Instance-Id".to_owned(),
            vec![self.hub.instance().to_owned()],
        ));
        if arrival.caller.is_diagnostic() {
            let name = "Asrs-Is-Diagnostic-Client".to_owned();
            headers.push((name, vec!["true".to_owned()]));
        }
        if let Some(from) = &arrival.from {
            headers.push(("Asrs-Migrate-From".to_owned(), vec![from.clone()]));
        }
        self.send(&Message::Open(OpenConnection {
            connection: arrival.id.to_string(),
            claims: arrival
                .caller
                .claims
                .iter()
                .map(|(name, value)| (claims::long(name).to_owned(), value.clone()))
                .collect(),
            headers,
            query: arrival.caller.query.clone(),
            protocol: Some(arrival.protocol.name().to_owned()),
        }));
        self.send(&Message::Data(ConnectionData {
            connection: arrival.id.to_string(),
            payload: arrival.handshake.clone(),
            kind: self.labels(1),
            is_partial: false,
        }));
        if count.is_multiple_of(limits::LINK_CLIENTS) {
            self.ask_for_another(self.hub.instance());
        }
    }

    fn room<'a>(&'a self, _connection: &'a str) -> Option<BoxFuture<'a, ()>> {
        if !self.is_full() {
            return None;
        }
        Some(Box::pin(async move {
            loop {
                let made = self.room.notified();
                if !self.is_full() {
                    return;
                }
                tokio::select! {
                    () = made => {}
                    () = self.over.cancelled() => return,
                }
            }
        }))
    }

    fn data(&self, connection: &str, message: FramedMessage) {
        self.send(&Message::Data(ConnectionData {
            connection: connection.to_owned(),
            payload: message.bytes().clone(),
            kind: None,
            is_partial: false,
        }));
    }

    fn close(&self, connection: &str, error: Option<&str>, to: Option<&str>) {
        {
            let mut tenants = self.clients.lock();
            if tenants.remove(connection).is_none() {
                return;
            }
            // Removed first, so that a lower load is seen together with the migrated
            // client.
            if to.is_some() {
                self.moved.fetch_add(1, Ordering::Relaxed);
                count(&self.hub.meter.moved, 1);
            }
        }
        let headers = to.map(|to| ("Asrs-Migrate-To".to_owned(), vec![to.to_owned()]));
        self.send(&Message::Close(CloseConnection {
            connection: connection.to_owned(),
            error: error.unwrap_or_default().to_owned(),
            headers: headers.into_iter().collect(),
        }));
    }

    fn takes_clients(&self) -> bool {
        self.carries() && !self.is_offline()
    }

    fn load(&self) -> usize {
        self.clients.lock().len()
    }

    fn may_move(&self) -> bool {
        self.greeting.get().is_some_and(|own| own.migration >= 1)
    }

    fn needs_calls(&self) -> bool {
        self.is_ours || self.may_move()
    }

    fn counts_calls(&self) -> bool {
        true
    }

    fn pause<'a>(&'a self, connection: &'a str) -> BoxFuture<'a, ()> {
        let (said, waiting) = oneshot::channel();
        let is_there = match self.clients.lock().get_mut(connection) {
            Some(tenant) => {
                tenant.paused = Some(said);
                true
            }
            None => false,
        };
        // SDKs up to 1.25 ignore the flow control message.
        let knows_pauses = self.is_recent();
        if is_there {
            self.send(&if knows_pauses {
                Message::Flow(FlowControl {
                    id: connection.to_owned(),
                    is_server: false,
                    kind: FlowControlKind::Pause,
                })
            } else {
                // An older SDK echoes the ping after everything it has sent.
                Message::Ping(vec!["echo".to_owned(), connection.to_owned()])
            });
        }
        let patience = if knows_pauses {
            limits::MOVE_PAUSE
        } else {
            limits::MOVE_ECHO
        };
        Box::pin(async move {
            tokio::select! {
                _ = waiting => {}
                () = self.over.cancelled() => {}
                () = tokio::time::sleep(patience) => {}
            }
        })
    }

    fn resumed(&self, connection: &str) {
        if self.client(connection).is_some() {
            self.send(&Message::Reconnect {
                connection: connection.to_owned(),
            });
        }
    }
}

impl AppServerLink {
    /// Asks the server for one more link to this node, because this link has many
    /// clients or another node has none. Only a link that the server has opened
    /// itself asks. Returns whether it has asked.
    pub(crate) fn ask_for_another(&self, node: &str) -> bool {
        let is_usual = self.greeting.get().is_some_and(|own| own.kind == 0);
        let asks = is_usual && !self.is_offline();
        if asks {
            let words = ["target", node].map(str::to_owned);
            self.send(&Message::Ping(words.to_vec()));
        }
        asks
    }

    /// Tells the server to send by other links, and that the clients of this node
    /// will disconnect.
    pub(crate) fn announce_drain(&self) {
        self.send_elsewhere();
        let words = ["offline", self.hub.instance()].map(str::to_owned);
        self.send(&Message::Ping(words.to_vec()));
    }

    /// Tells the server to send by other links.
    pub(crate) fn send_elsewhere(&self) {
        self.send(&Message::Flow(FlowControl {
            id: self.id.clone(),
            is_server: true,
            kind: FlowControlKind::Offline,
        }));
    }

    /// A message type label for newer servers; older ones fail on it.
    fn labels(&self, kind: i64) -> Option<i64> {
        self.is_recent().then_some(kind)
    }

    /// Whether the SDK is newer than 1.25: its handshake has one element more.
    fn is_recent(&self) -> bool {
        self.greeting.get().is_some_and(|own| own.elements >= 7)
    }

    /// Whether clients of this server must wait. A link that has ended accepts and
    /// drops everything.
    fn is_full(&self) -> bool {
        !self.is_over() && self.out.lock().bytes.len() > limits::SERVER_ROOM_BYTES
    }
}

/// Splits received bytes of an app server into messages.
#[derive(Default)]
pub(crate) struct LinkReader {
    splitter: Splitter,
}

impl LinkReader {
    /// Adds received bytes; whole messages come out of `next`.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.splitter.push(bytes);
    }

    pub(crate) fn next(&mut self) -> Result<Option<Message>, String> {
        let wrong = |error: steadfast_wire::signalr::SignalRDecodeError| error.to_string();
        let protocol = Protocol::MessagePack;
        let next = self.splitter.next(protocol, limits::SERVER_MESSAGE_BYTES);
        let Some(message) = next.map_err(wrong)? else {
            return Ok(None);
        };
        let body = frame::body(protocol, &message).map_err(wrong)?;
        read(&body).map(Some).map_err(wrong)
    }
}
