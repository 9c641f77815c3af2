//! Broadcasts and queries over one hub's clients on all nodes.
//!
//! A hub in this process sends through the [`LocalGateway`] of its connections.
//!
//! When a function here returns, its message is queued in the lane of every peer
//! node, one message per node, so messages arrive in the order of the sender's calls.
//! The returned futures resolve with the peers' results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use steadfast_core::limits;
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::service::{
    ClientCompletion, ClientInvocation, CloseConnections, ExistenceCheck, GroupBroadcast, Message,
};

use crate::cluster::convert;
use crate::cluster::messages::{PeerRequest, PeerResponse};
use crate::dispatch::gateway::{ClientGateway, HubPayload, ProtocolSet, Recipients};
use crate::error::{Error, ErrorKind, Result};
use crate::hub_connections::{HubConnections, check_name};

/// Members of a group with their users, and the last of them if there are more.
type MemberPage = (Vec<(String, Option<String>)>, Option<String>);

/// A hub's clients on all nodes. Clones are cheap.
#[derive(Clone)]
pub struct ClusterConnections {
    hub: Arc<HubConnections>,
}

impl HubConnections {
    /// The clients of the same hub on all nodes.
    pub fn cluster(self: &Arc<Self>) -> ClusterConnections {
        ClusterConnections {
            hub: Arc::clone(self),
        }
    }
}

impl ClusterConnections {
    /// Waits until the lanes to the peer nodes have room.
    pub async fn room(&self) {
        self.hub.nodes().room().await;
    }

    /// Sends a message to its recipients.
    pub fn send(&self, to: &Recipients, payload: &HubPayload) {
        self.hub.send(to, payload);
        if self.is_alone() || self.is_here(to) {
            return;
        }
        self.tell(convert::send(to, payload));
    }

    /// Sends a message to a group, with its exceptions.
    pub(crate) fn send_group(&self, own: GroupBroadcast) {
        if !self.is_alone() {
            self.tell(Message::Group(own.clone()));
        }
        send_group_here(&self.hub, own);
    }

    /// Whether all recipients are connected to this node.
    fn is_here(&self, to: &Recipients) -> bool {
        match to {
            Recipients::Connections(ids) => ids.iter().all(|id| self.hub.client(id).is_some()),
            _ => false,
        }
    }

    /// Adds a connection to a group; every send after it resolves reaches the
    /// connection.
    pub fn join(&self, connection: &str, group: &str) -> BoxFuture<'static, Result<()>> {
        if self.is_alone() || self.hub.client(connection).is_some() {
            return ready(self.hub.join(connection, group)).boxed();
        }
        if let Err(error) = check_name("group", group) {
            return ready(Err(error)).boxed();
        }
        let asked = self.ask(Message::Join {
            connection: connection.to_owned(),
            group: group.to_owned(),
            ack: Some(0),
        });
        let connection = connection.to_owned();
        async move {
            match count(asked.await) {
                0 => Err(Error::new(ErrorKind::NoConnection(connection))),
                _ => Ok(()),
            }
        }
        .boxed()
    }

    /// Removes a connection from one group, or from all groups. Returns whether the
    /// connection exists.
    pub fn leave(&self, connection: &str, group: Option<&str>) -> BoxFuture<'static, bool> {
        let is_here = self.hub.client(connection).is_some();
        self.hub.leave_group(connection, group);
        if is_here || self.is_alone() {
            return ready(is_here).boxed();
        }
        let asked = self.ask(Message::Leave {
            connection: connection.to_owned(),
            group: group.map(str::to_owned),
            ack: Some(0),
        });
        asked.map(|said| count(said) > 0).boxed()
    }

    /// Adds a user to a group: all its present and future connections.
    pub fn join_user(&self, user: &str, group: &str, ttl: Option<Duration>) -> Result<()> {
        self.hub.join_user(user, group, ttl)?;
        if !self.is_alone() {
            self.tell(user_joins(user, group, ttl));
        }
        Ok(())
    }

    /// Removes a user from one group, or from all groups it was added to.
    pub fn leave_user(&self, user: &str, group: Option<&str>) {
        self.hub.leave_user(user, group);
        if !self.is_alone() {
            self.tell(Message::UserLeave {
                user: user.to_owned(),
                group: group.map(str::to_owned),
                ack: None,
            });
        }
    }

    /// Whether the connection, user or group exists.
    pub fn check(&self, of: ExistenceCheck) -> BoxFuture<'static, bool> {
        if check_here(&self.hub, &of) {
            return ready(true).boxed();
        }
        if self.is_alone() {
            return ready(false).boxed();
        }
        let asked = self.ask(Message::Check { of, ack: 0 });
        asked.map(|said| count(said) > 0).boxed()
    }

    /// Closes connections and returns their number.
    pub fn close(&self, own: CloseConnections) -> BoxFuture<'static, u64> {
        let here = close_here(&self.hub, &own);
        let is_done = own.connection.is_some() && here > 0;
        if is_done || self.is_alone() {
            return ready(here).boxed();
        }
        let asked = self.ask(Message::CloseMany(own));
        asked.map(move |said| here + count(said)).boxed()
    }

    /// Returns connections of a group with their users, ordered by id: at most `most`
    /// after `after`, and the last id if there are more.
    pub fn members(
        &self,
        group: &str,
        after: Option<&str>,
        most: usize,
    ) -> BoxFuture<'static, MemberPage> {
        let (here, more) = self.hub.members(group, after, most);
        if self.is_alone() {
            return ready((here, more)).boxed();
        }
        let asked = self.ask(Message::Members {
            group: group.to_owned(),
            ack: 0,
            most: i64::try_from(most).ok(),
            token: after.map(str::to_owned),
        });
        async move {
            let mut has_more = more.is_some();
            let mut all: BTreeMap<_, _> = here.into_iter().collect();
            for (_, reply) in asked.await {
                has_more |= reply.has_more;
                all.extend(reply.members);
            }
            has_more |= all.len() > most;
            let page: Vec<_> = all.into_iter().take(most).collect();
            let last = page.last().filter(|_| has_more);
            let last = last.map(|(id, _)| id.clone());
            (page, last)
        }
        .boxed()
    }

    /// Returns the number of clients on all nodes, and the names of the app servers
    /// that accept clients, in order.
    pub(crate) fn census(&self) -> BoxFuture<'static, (u64, Vec<String>)> {
        let here = self.hub.census();
        if self.is_alone() {
            return ready((here.count, here.servers)).boxed();
        }
        let hub = self.hub.name().to_owned();
        let asked = self.asked(&PeerRequest::Census { hub });
        async move {
            let (mut clients, mut servers) = (here.count, BTreeSet::from_iter(here.servers));
            for (_, reply) in asked.await {
                clients += reply.count;
                servers.extend(reply.servers);
            }
            (clients, servers.into_iter().collect())
        }
        .boxed()
    }

    /// Calls a client of a peer node; returns the node that has it, if any.
    pub(crate) fn question(&self, own: ClientInvocation) -> BoxFuture<'static, Option<String>> {
        let asked = self.ask(Message::Ask(own));
        let found = |said: Vec<(String, PeerResponse)>| {
            let mut found = said.into_iter().filter(|(_, reply)| reply.count > 0);
            found.next().map(|(node, _)| node)
        };
        asked.map(found).boxed()
    }

    /// Sends the calling node the result of a client.
    pub(crate) fn answer(&self, node: &str, own: ClientCompletion) {
        let hub = self.hub.name().to_owned();
        let message = Message::Answer(own);
        let word = PeerRequest::Execute { hub, message };
        self.hub.nodes().send(node, word.encode());
    }

    /// Sends a new peer node the groups of users.
    pub(crate) fn introduce(&self, node: &str) {
        for (user, group, ttl) in self.hub.user_groups() {
            let hub = self.hub.name().to_owned();
            let message = user_joins(&user, &group, ttl);
            let word = PeerRequest::Execute { hub, message };
            self.hub.nodes().send(node, word.encode());
        }
    }

    fn is_alone(&self) -> bool {
        self.hub.nodes().is_alone()
    }

    fn tell(&self, message: Message) {
        let hub = self.hub.name().to_owned();
        let word = PeerRequest::Execute { hub, message };
        self.hub.nodes().broadcast(&word.encode());
    }

    fn ask(&self, message: Message) -> BoxFuture<'static, Vec<(String, PeerResponse)>> {
        let hub = self.hub.name().to_owned();
        self.asked(&PeerRequest::Execute { hub, message })
    }

    fn asked(&self, word: &PeerRequest) -> BoxFuture<'static, Vec<(String, PeerResponse)>> {
        let asked = self.hub.nodes().request_all(&word.encode());
        let read = |said: Vec<(String, Bytes)>| {
            let said = said.into_iter();
            let said =
                said.filter_map(|(node, reply)| Some((node, PeerResponse::decode(reply).ok()?)));
            said.collect()
        };
        asked.map(read).boxed()
    }
}

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

/// Executes a peer node's message for the clients of this node.
pub(crate) fn execute(lobby: &HubConnections, message: Message) -> PeerResponse {
    match message {
        Message::Send { to, payloads } => {
            lobby.send(&convert::target(to), &convert::payload(payloads));
        }
        Message::Group(own) => send_group_here(lobby, own),
        Message::Join {
            connection, group, ..
        } => return PeerResponse::found(lobby.join(&connection, &group).is_ok()),
        Message::Leave {
            connection, group, ..
        } => {
            let is_there = lobby.client(&connection).is_some();
            lobby.leave_group(&connection, group.as_deref());
            return PeerResponse::found(is_there);
        }
        Message::UserJoin {
            user, group, ttl_s, ..
        } => {
            let ttl = ttl_s.map(|own| Duration::from_secs(own.max(0) as u64));
            return PeerResponse::found(lobby.join_user(&user, &group, ttl).is_ok());
        }
        Message::UserLeave { user, group, .. } => lobby.leave_user(&user, group.as_deref()),
        Message::Check { of, .. } => return PeerResponse::found(check_here(lobby, &of)),
        Message::CloseMany(own) => {
            return PeerResponse {
                count: close_here(lobby, &own),
                ..PeerResponse::default()
            };
        }
        Message::Members {
            group, most, token, ..
        } => {
            let most = most.and_then(|most| usize::try_from(most).ok());
            let most = most
                .unwrap_or(limits::GROUP_PAGE)
                .clamp(1, limits::GROUP_PAGE);
            let (members, more) = lobby.members(&group, token.as_deref(), most);
            return PeerResponse {
                members,
                has_more: more.is_some(),
                ..PeerResponse::default()
            };
        }
        _ => {}
    }
    PeerResponse::default()
}

fn send_group_here(lobby: &HubConnections, own: GroupBroadcast) {
    let mut except = own.except;
    for user in &own.except_users {
        except.extend(lobby.connections_of(user));
    }
    let to = Recipients::Group {
        name: own.group,
        except,
    };
    lobby.send(&to, &convert::payload(own.payloads));
}

fn check_here(lobby: &HubConnections, of: &ExistenceCheck) -> bool {
    match of {
        ExistenceCheck::UserInGroup { user, group } => lobby.is_user_in(user, group),
        ExistenceCheck::Group(group) => lobby.has_group(group),
        ExistenceCheck::Connection(id) => lobby.client(id).is_some(),
        ExistenceCheck::User(user) => lobby.has_user(user),
    }
}

fn close_here(lobby: &HubConnections, own: &CloseConnections) -> u64 {
    let except = own.except.clone();
    let to = match (&own.connection, &own.user, &own.group) {
        (Some(id), ..) => Recipients::Connections(vec![id.clone()]),
        (_, Some(user), _) => Recipients::Users(vec![user.clone()]),
        (_, _, Some(name)) => Recipients::Group {
            name: name.clone(),
            except,
        },
        _ => Recipients::All { except },
    };
    let reason = (!own.reason.is_empty()).then_some(own.reason.as_str());
    lobby.close(&to, &own.except, reason) as u64
}

fn user_joins(user: &str, group: &str, ttl: Option<Duration>) -> Message {
    Message::UserJoin {
        user: user.to_owned(),
        group: group.to_owned(),
        // Rounded up to a whole second, so that no membership ends too early.
        ttl_s: ttl.map(|ttl| ttl.as_secs_f64().ceil() as i64),
        ack: None,
    }
}

fn count(said: Vec<(String, PeerResponse)>) -> u64 {
    said.into_iter().map(|(_, reply)| reply.count).sum()
}
