//! Requests of the app servers of one hub.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use futures_util::{FutureExt as _, StreamExt as _};
use parking_lot::Mutex;
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_wire::signalr::service::{
    Ack, CloseConnection, CloseConnections, ConnectionData, FlowControl, FlowControlKind, Message,
    ServerHandshake, members, status,
};

use crate::app_server::link::{AppServerLink, LinkReader, ShutdownKind};
use crate::app_server::ticks::Ticks;
use crate::backend::HubBackend;
use crate::cluster::convert;
use crate::connection::client::ClientConnection;
use crate::hub_connections::HubConnections;
use crate::metrics::count;

/// The kind of links that only send.
const WEAK: i64 = 2;

/// All links of one hub.
pub(crate) struct AppServerLinks {
    pub(crate) hub: Arc<HubConnections>,
    /// Whether app servers are accepted. Links that only send are accepted in any
    /// mode.
    takes_servers: bool,
    ticks: Arc<Ticks>,
    all: Mutex<Vec<Arc<AppServerLink>>>,
    /// Pending calls to clients, by the id of the call.
    pub(crate) questions: Mutex<HashMap<String, CallingLink>>,
}

/// A link with a pending call to a client.
pub(crate) struct CallingLink {
    pub(crate) link: String,
    pub(crate) server: String,
    pub(crate) connection: String,
    /// The node of the client, if it is a peer node.
    pub(crate) node: Option<String>,
}

/// An app server of a hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppServerStatus {
    pub name: String,
    /// Number of its links that carry clients.
    pub links: usize,
    pub clients: usize,
    /// It is offline and gets no new clients.
    pub is_offline: bool,
    /// Whether its clients may be migrated.
    pub may_move: bool,
    /// Number of clients that were migrated from it.
    pub moved: u64,
}

/// The link has ended, or has sent an invalid message.
pub struct LinkClosedError;

impl AppServerLinks {
    pub(crate) fn new(
        lobby: Arc<HubConnections>,
        takes_servers: bool,
        ticks: &Arc<Ticks>,
    ) -> Arc<Self> {
        let links = Arc::new(Self {
            hub: lobby,
            takes_servers,
            ticks: Arc::clone(ticks),
            all: Mutex::default(),
            questions: Mutex::default(),
        });
        let me = Arc::downgrade(&links);
        links.hub.watch(move |connection| {
            if let Some(links) = me.upgrade() {
                links.client_gone(connection);
            }
        });
        links
    }

    pub(crate) fn lobby(&self) -> &Arc<HubConnections> {
        &self.hub
    }

    /// All links.
    pub(crate) fn all(&self) -> Vec<Arc<AppServerLink>> {
        self.all.lock().clone()
    }

    /// Whether clients may reconnect with their state: if all servers allow it.
    pub(crate) fn allow_state(&self) -> bool {
        let all = self.all.lock();
        let mut greetings = all.iter().filter_map(|link| link.greeting()).peekable();
        let is_anybody = greetings.peek().is_some() || self.hub.has_fallback();
        is_anybody && greetings.all(|own| own.is_stateful)
    }

    /// Adds a new link of a server.
    pub(crate) fn add(&self, server: &str, is_ours: bool) -> Arc<AppServerLink> {
        let link = AppServerLink::new(server.to_owned(), Arc::clone(&self.hub), is_ours);
        self.all.lock().push(Arc::clone(&link));
        link
    }

    /// All servers that carry clients, in the order of their names.
    pub(crate) fn servers(&self) -> Vec<AppServerStatus> {
        let mut servers: BTreeMap<String, AppServerStatus> = BTreeMap::new();
        for link in self.all().iter().filter(|link| link.carries()) {
            let own = servers.entry(link.server().to_owned());
            let own = own.or_insert_with(|| AppServerStatus {
                name: link.server().to_owned(),
                is_offline: true,
                ..AppServerStatus::default()
            });
            own.links += 1;
            own.clients += link.load();
            own.is_offline &= link.is_offline();
            own.may_move |= link.may_move();
            own.moved += link.moved();
        }
        servers.into_values().collect()
    }

    /// Takes a server offline and migrates its clients. Returns their number, or
    /// `None` without such a server.
    pub(crate) fn drain(self: &Arc<Self>, server: &str) -> Option<usize> {
        let links = self.all();
        let own = links.iter().filter(|link| link.server() == server);
        let own: Vec<_> = own.filter(|link| link.carries()).collect();
        if own.is_empty() {
            return None;
        }
        // All links go offline first, so that none gets the clients of another one.
        let begun: Vec<_> = own.iter().map(|link| self.take_offline(link)).collect();
        let clients = own.iter().map(|link| link.load()).sum();
        for (link, is_first) in own.into_iter().zip(begun) {
            if is_first {
                link.send_elsewhere();
                if link.may_move() {
                    tokio::spawn(name_task(Arc::clone(self).empty(Arc::clone(link))));
                }
            }
        }
        Some(clients)
    }

    /// Takes a link offline; no client is opened on it afterwards. False if it was
    /// offline before.
    fn take_offline(&self, link: &Arc<AppServerLink>) -> bool {
        let is_first = link.go_offline();
        self.hub
            .remove_backend(&(Arc::clone(link) as Arc<dyn HubBackend>));
        is_first
    }

    /// The node drains: servers send by other nodes, and clients of this node will
    /// disconnect.
    pub(crate) fn announce_drain(&self) {
        for link in self.all() {
            if link.greeting().is_some() {
                link.announce_drain();
            }
        }
    }

    /// A link's socket is lost.
    pub(crate) fn remove(&self, link: &Arc<AppServerLink>) {
        self.all.lock().retain(|own| !Arc::ptr_eq(own, link));
        self.hub
            .remove_backend(&(Arc::clone(link) as Arc<dyn HubBackend>));
        let (clients, held) = link.lost();
        let (server, kept) = (link.server(), held.len());
        tracing::info!(
            event = "realtime.server_gone",
            server,
            link = link.id(),
            clients,
            kept
        );
        for client in held {
            let (lobby, from) = (Arc::clone(&self.hub), server.to_owned());
            tokio::spawn(name_task(
                async move { take_in(&lobby, &client, &from).await },
            ));
        }
        let mut questions = self.questions.lock();
        questions.retain(|_, asker| asker.link != link.id());
    }

    /// Handles received bytes of a server.
    pub(crate) fn take(
        self: &Arc<Self>,
        link: &Arc<AppServerLink>,
        inlet: &mut LinkReader,
        bytes: Bytes,
    ) -> Result<(), LinkClosedError> {
        link.heard();
        inlet.push(bytes);
        loop {
            match inlet.next() {
                Ok(Some(message)) => self.handle(link, message)?,
                Ok(None) => return Ok(()),
                Err(why) => {
                    tracing::warn!(
                        event = "realtime.server_refused",
                        server = link.server(),
                        why
                    );
                    link.send(&Message::Fault(why));
                    link.end();
                    return Err(LinkClosedError);
                }
            }
        }
    }

    fn handle(
        self: &Arc<Self>,
        link: &Arc<AppServerLink>,
        message: Message,
    ) -> Result<(), LinkClosedError> {
        if link.greeting().is_none() {
            return self.greet(link, message);
        }
        match message {
            Message::Ping(words) => self.ping(link, &words),
            Message::Data(data) => pass(link, data),
            Message::Close(CloseConnection {
                connection, error, ..
            }) => self.close_one(link, connection, error),
            Message::Send { to, payloads } => {
                let (to, payload) = (convert::target(to), convert::payload(payloads));
                self.hub.cluster().send(&to, &payload);
            }
            Message::Group(own) => self.hub.cluster().send_group(own),
            Message::Join { .. }
            | Message::Leave { .. }
            | Message::UserJoin { .. }
            | Message::UserLeave { .. } => self.membership(link, message),
            Message::Check { of, ack } => {
                later(link, Some(ack), self.hub.cluster().check(of));
            }
            Message::CloseMany(own) => self.close_many(link, own),
            Message::Ask(question) => self.ask(link, question),
            Message::Answer(own) => self.answered(link, own),
            Message::Flow(FlowControl {
                id,
                kind: FlowControlKind::Paused,
                is_server: false,
            }) => link.paused(&id),
            Message::KeyRequest { kid } => link.send(&Message::KeyResponse {
                kid,
                key: String::new(),
                error: "Unauthorized".to_owned(),
                text: "This service knows access keys only.".to_owned(),
            }),
            Message::Members {
                group,
                ack,
                most,
                token,
            } => {
                let most = most.and_then(|most| usize::try_from(most).ok());
                let most = most.unwrap_or(limits::GROUP_PAGE);
                self.members(link, &group, ack, most, token.as_deref());
            }
            _ => {}
        }
        Ok(())
    }

    fn members(
        &self,
        link: &Arc<AppServerLink>,
        group: &str,
        ack: i64,
        most: usize,
        token: Option<&str>,
    ) {
        let most = most.clamp(1, limits::GROUP_PAGE);
        let found = self.hub.cluster().members(group, token, most);
        let link = Arc::clone(link);
        soon(async move {
            let (found, next) = found.await;
            link.send(&Message::Ack(Ack {
                id: ack,
                status: status::OK,
                payload: Some(members(&found, next.as_deref())),
                ..Ack::default()
            }));
        });
    }

    /// Checks the handshake, the first message.
    fn greet(
        self: &Arc<Self>,
        link: &Arc<AppServerLink>,
        message: Message,
    ) -> Result<(), LinkClosedError> {
        let refuse = |why: &str| {
            link.send(&Message::Welcome {
                error: why.to_owned(),
                id: None,
            });
            link.end();
            Err(LinkClosedError)
        };
        let Message::Handshake(greeting) = message else {
            return refuse("The first message is a handshake.");
        };
        let ServerHandshake { version, kind, .. } = greeting;
        if version != 1 {
            return refuse(&format!(
                "Version {version} of the protocol is not supported."
            ));
        }
        if self.hub.is_own() {
            return refuse("The hub is hosted by the service itself.");
        }
        if !self.takes_servers && kind != WEAK {
            return refuse("The service is in the mode Serverless, which has no app servers.");
        }
        link.greet(greeting);
        link.send(&Message::Welcome {
            error: String::new(),
            id: Some(link.id().to_owned()),
        });
        let server = link.server();
        tracing::info!(
            event = "realtime.server_came",
            server,
            link = link.id(),
            kind
        );
        if link.takes_clients() {
            self.hub
                .add_backend(Arc::clone(link) as Arc<dyn HubBackend>);
        }
        Ok(())
    }

    fn ping(self: &Arc<Self>, link: &Arc<AppServerLink>, words: &[String]) {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let say = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned());
            link.send(&Message::Ping(words.collect()));
        };
        match words[..] {
            ["status", ..] => self.tell_census(link, |clients, servers| {
                let has_clients = if clients == 0 { "0" } else { "1" };
                let (clients, servers) = (clients.to_string(), servers.len().to_string());
                let words = [
                    "status",
                    has_clients,
                    "clientcount",
                    &clients,
                    "servercount",
                ];
                let words = words.iter().map(|word| (*word).to_owned());
                words.chain([servers]).collect()
            }),
            ["servers", ..] => {
                // Taken before the query: of two lists the one requested later wins.
                let ticks = self.ticks.next();
                self.tell_census(link, move |_, servers| {
                    let list = format!("{ticks}:{}", servers.join(";"));
                    vec!["servers".to_owned(), list]
                });
            }
            // The server has sent everything it had to send to this client.
            ["echo", connection] => link.paused(connection),
            ["shutdown", how] => {
                let fin = match how {
                    "fin:0" => ShutdownKind::Off,
                    "fin:1" => ShutdownKind::Migrate,
                    "fin:2" => ShutdownKind::Wait,
                    _ => return,
                };
                let is_first = self.take_offline(link);
                say(&["shutdown", "finack"]);
                if is_first && fin == ShutdownKind::Migrate {
                    tokio::spawn(name_task(Arc::clone(self).empty(Arc::clone(link))));
                }
            }
            _ => {}
        }
    }

    /// Sends a server the number of clients and the app servers of the hub, on all
    /// nodes.
    fn tell_census(
        &self,
        link: &Arc<AppServerLink>,
        words: impl FnOnce(u64, Vec<String>) -> Vec<String> + Send + 'static,
    ) {
        let census = self.hub.cluster().census();
        let link = Arc::clone(link);
        soon(async move {
            let (clients, servers) = census.await;
            link.send(&Message::Ping(words(clients, servers)));
        });
    }

    /// Migrates all clients of an offline link.
    async fn empty(self: Arc<Self>, link: Arc<AppServerLink>) {
        while link.load() > 0 && !link.is_over() {
            let arrived = self.hub.arrived();
            // Includes servers that connect while clients are migrated.
            let news = arrived.notified();
            let moves = stream::iter(link.clients()).map(|client| {
                let (lobby, server) = (Arc::clone(&self.hub), link.server().to_owned());
                async move { give_away(&lobby, &client, &server).await }
            });
            let mut moves = moves.buffer_unordered(limits::DRAIN_MOVES);
            let mut is_any_moved = false;
            while let Some(is_moved) = moves.next().await {
                is_any_moved |= is_moved;
            }
            if !is_any_moved {
                // A server may connect before this one leaves.
                self.hub.request_server();
                tokio::select! {
                    () = self.hub.wait_for_change(news) => {}
                    () = link.gone() => break,
                }
            }
        }
        let (server, moved, left) = (link.server(), link.moved(), link.left());
        count(&self.hub.meter.unmoved, left);
        tracing::info!(event = "realtime.server_emptied", server, moved, left);
    }

    fn membership(&self, link: &Arc<AppServerLink>, message: Message) {
        let all = self.hub.cluster();
        match message {
            Message::Join {
                connection,
                group,
                ack,
            } => {
                let joined = all.join(&connection, &group).map(|done| done.is_ok());
                later(link, ack, joined.boxed());
            }
            Message::Leave {
                connection,
                group,
                ack,
            } => {
                let left = all.leave(&connection, group.as_deref()).map(|_| true);
                later(link, ack, left.boxed());
            }
            Message::UserJoin {
                user,
                group,
                ttl_s,
                ack,
            } => {
                let ttl = ttl_s.map(|own| Duration::from_secs(own.max(0) as u64));
                let done = all.join_user(&user, &group, ttl).is_ok();
                answer(link, ack, if done { status::OK } else { status::NOT_FOUND });
            }
            Message::UserLeave { user, group, ack } => {
                all.leave_user(&user, group.as_deref());
                answer(link, ack, status::OK);
            }
            _ => {}
        }
    }

    /// Closes a client for a server: one of its own, or any client if the link only
    /// sends, as those of the management SDK do.
    fn close_one(&self, link: &Arc<AppServerLink>, connection: String, reason: String) {
        if let Some(client) = link.forget(&connection) {
            let error = (!reason.is_empty()).then_some(reason);
            return client.close(error.as_deref(), false);
        }
        let is_meant = match self.hub.client(&connection) {
            // The server may not know yet that the client was migrated.
            Some(client) => !client.has_left(link.server()),
            None => !link.carries(),
        };
        if !is_meant {
            return;
        }
        let closing = self.hub.cluster().close(CloseConnections {
            connection: Some(connection),
            reason,
            ..CloseConnections::default()
        });
        soon(closing.map(drop));
    }

    fn close_many(&self, link: &Arc<AppServerLink>, own: CloseConnections) {
        let (ack, is_one) = (own.ack, own.connection.is_some());
        let closed = self.hub.cluster().close(own);
        let closed = closed.map(move |count| !is_one || count > 0);
        later(link, Some(ack), closed.boxed());
    }

    /// Asks each server for one more link, for a node whose clients wait.
    pub(crate) fn request_links_for(&self, node: &str) {
        let mut asked = BTreeSet::new();
        for link in self.all() {
            if !asked.contains(link.server()) && link.ask_for_another(node) {
                asked.insert(link.server().to_owned());
            }
        }
    }
}

/// Assigns a backend to a client whose server was lost.
async fn take_in(lobby: &HubConnections, client: &Arc<ClientConnection>, from: &str) {
    let found = tokio::time::timeout(limits::CLIENT_RESUME, lobby.wait_for_backend(client));
    match found.await {
        Ok(home) => client.reassign_backend(from, &home),
        Err(_) => client.close(Some("ServerOffline"), true),
    }
}

/// Migrates one client to a server that is not `server`.
async fn give_away(lobby: &HubConnections, client: &Arc<ClientConnection>, server: &str) -> bool {
    if client.caller().claim("asrs.s.ssticky") == Some("Required") {
        return false;
    }
    match lobby.pick(client.caller(), Some(server)) {
        Some(home) => client.migrate(&home).await,
        None => false,
    }
}

/// Forwards a server's message to one of its clients.
fn pass(link: &AppServerLink, data: ConnectionData) {
    let is_last = data.kind == Some(4);
    if let Some((client, payload)) = link.gather(data) {
        if is_last {
            client.end(Some(payload))
        } else {
            client.pass(payload)
        }
    }
}

fn answer(link: &AppServerLink, ack: Option<i64>, status: i64) {
    if let Some(id) = ack {
        link.send(&Message::Ack(Ack {
            id,
            status,
            ..Ack::default()
        }));
    }
}

/// Acknowledges a server's request when its result is known.
fn later(link: &Arc<AppServerLink>, ack: Option<i64>, done: BoxFuture<'static, bool>) {
    let link = Arc::clone(link);
    soon(async move {
        let done = done.await;
        answer(
            &link,
            ack,
            if done { status::OK } else { status::NOT_FOUND },
        );
    });
}

/// Runs it in place if it is ready, else in a task.
fn soon(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = Box::pin(work);
    if work.as_mut().now_or_never().is_none() {
        tokio::spawn(name_task(work));
    }
}
