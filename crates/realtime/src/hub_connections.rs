//! The connections of one hub, with their users and groups.
//!
//! The recipients of a message are selected under a lock; the message is queued after
//! that, so a slow client delays no other.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_wire::signalr::Protocol;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backend::HubBackend;
use crate::cluster::messages::{PeerRequest, PeerResponse};
use crate::cluster::peers::PeerNodes;
use crate::connection::client::{ClientConnection, ClientRegistry};
use crate::connection::identity::ClientIdentity;
use crate::dispatch::gateway::{HubPayload, ProtocolSet, Recipients};
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::{HubCounts, HubMetrics, count};

/// The close message of a client without an app server.
const NO_SERVER: &str = "No app server is currently connected to serve the hub; the service is in \
                         the mode Default. Start one, or try again later.";

/// A callback for clients that have disconnected.
type DisconnectCallback = Box<dyn Fn(&str) + Send + Sync>;

/// The connections of one hub.
pub struct HubConnections {
    name: String,
    state: RwLock<State>,
    /// Number of clients per protocol: a message is written only in those in use.
    speakers: [AtomicUsize; 3],
    /// The hub in this process if it is hosted here, or the links of app servers.
    backends: RwLock<Vec<Arc<dyn HubBackend>>>,
    /// Whether it is hosted in this process.
    is_own: bool,
    /// The name of this node.
    instance: String,
    /// Notified when a backend is added.
    arrived: Arc<Notify>,
    /// The callback for clients that have disconnected.
    watcher: OnceLock<DisconnectCallback>,
    /// The backend of clients when there is no other.
    last_resort: OnceLock<Arc<dyn HubBackend>>,
    /// The peer nodes, which may have clients of this hub too.
    nodes: Arc<PeerNodes>,
    /// Calls of peer nodes to clients, by their id.
    foreign: Mutex<HashMap<String, PeerCall>>,
    /// When peer nodes were last asked for an app server.
    wanted: Mutex<Option<Instant>>,
    pub(crate) meter: HubMetrics,
    me: Weak<Self>,
}

/// A call of a peer node to a client.
struct PeerCall {
    node: String,
    connection: String,
}

#[derive(Default)]
struct State {
    connections: HashMap<Arc<str>, ConnectionEntry>,
    users: HashMap<String, HashSet<Arc<str>>>,
    groups: HashMap<String, HashSet<Arc<str>>>,
    /// Groups of users, connected or not, with their expiry.
    user_groups: HashMap<String, HashMap<String, Option<Instant>>>,
    /// Size of their names in bytes.
    user_group_bytes: usize,
}

struct ConnectionEntry {
    client: Arc<ClientConnection>,
    groups: BTreeSet<String>,
}

impl HubConnections {
    /// Connections of a hub of this process, or of app servers.
    pub(crate) fn new(
        name: &str,
        instance: &str,
        is_own: bool,
        nodes: &Arc<PeerNodes>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            name: name.to_owned(),
            state: RwLock::default(),
            speakers: Default::default(),
            backends: RwLock::default(),
            is_own,
            instance: instance.to_owned(),
            arrived: Arc::default(),
            watcher: OnceLock::new(),
            last_resort: OnceLock::new(),
            nodes: Arc::clone(nodes),
            foreign: Mutex::default(),
            wanted: Mutex::new(None),
            meter: HubMetrics::default(),
            me: me.clone(),
        })
    }

    /// The hub's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of this node.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// Whether it is hosted in this process.
    pub(crate) fn is_own(&self) -> bool {
        self.is_own
    }

    /// The peer nodes.
    pub(crate) fn nodes(&self) -> &Arc<PeerNodes> {
        &self.nodes
    }

    /// All backends.
    pub(crate) fn backends(&self) -> Vec<Arc<dyn HubBackend>> {
        self.backends.read().clone()
    }

    /// Asks peer nodes for an app server, because clients wait for one.
    pub(crate) fn request_server(&self) {
        if self.is_own || self.nodes.is_alone() {
            return;
        }
        let now = Instant::now();
        let mut wanted = self.wanted.lock();
        if wanted.is_some_and(|last| now < last + limits::SERVER_WANT) {
            return;
        }
        *wanted = Some(now);
        drop(wanted);
        let hub = self.name.clone();
        self.nodes
            .broadcast(&PeerRequest::RequestServer { hub }.encode());
    }

    /// Waits until another look for a backend may succeed.
    pub(crate) async fn wait_for_change(&self, arrived: impl Future<Output = ()>) {
        tokio::select! {
            () = arrived => {}
            () = tokio::time::sleep(limits::SERVER_WANT), if self.nodes.is_open() => {}
        }
    }

    /// Notes a call of a peer node to a client.
    pub(crate) fn put_peer_call(&self, node: &str, connection: &str, id: &str) {
        let foreign = PeerCall {
            node: node.to_owned(),
            connection: connection.to_owned(),
        };
        self.foreign.lock().insert(id.to_owned(), foreign);
    }

    /// Takes the node whose call a client has completed.
    pub(crate) fn take_peer_call(&self, connection: &str, id: &str) -> Option<String> {
        let mut foreign = self.foreign.lock();
        let is_asked = |own: &PeerCall| own.connection == connection;
        if foreign.get(id).is_some_and(is_asked) {
            foreign.remove(id).map(|own| own.node)
        } else {
            None
        }
    }

    /// Takes the pending calls of a disconnected client, with their nodes.
    pub(crate) fn take_client_calls(&self, connection: &str) -> Vec<(String, String)> {
        let mut foreign = self.foreign.lock();
        let dropped = foreign.extract_if(|_, own| own.connection == connection);
        dropped.map(|(id, own)| (id, own.node)).collect()
    }

    /// Drops the pending calls of a peer node that has left.
    pub(crate) fn drop_node_calls(&self, node: &str) {
        self.foreign.lock().retain(|_, own| own.node != node);
    }

    /// Groups of users, with the time left until they expire.
    pub(crate) fn user_groups(&self) -> Vec<(String, String, Option<Duration>)> {
        let state = self.state.read();
        let users = state.user_groups.iter();
        let all = users.flat_map(|(user, groups)| groups.iter().map(move |own| (user, own)));
        let now = Instant::now();
        let left = |until: &Option<Instant>| until.map(|end| end.saturating_duration_since(now));
        all.map(|(user, (group, until))| (user.clone(), group.clone(), left(until)))
            .collect()
    }

    /// Adds a backend that accepts clients.
    pub(crate) fn add_backend(&self, home: Arc<dyn HubBackend>) {
        self.backends.write().push(home);
        self.arrived.notify_waiters();
    }

    /// Sets the backend of clients for which there is no other.
    pub(crate) fn set_fallback(&self, home: Arc<dyn HubBackend>) {
        let _ = self.last_resort.set(home);
    }

    /// Whether clients can do without another backend.
    pub(crate) fn has_fallback(&self) -> bool {
        self.last_resort.get().is_some()
    }

    /// Gauges and counters of the hub.
    pub fn counts(&self) -> HubCounts {
        let clients = self.clients();
        let waiting = clients.iter().map(|client| client.waiting_bytes() as u64);
        HubCounts {
            hub: self.name.clone(),
            clients: clients.len() as u64,
            servers: self.backends.read().len() as u64,
            waiting_bytes: waiting.sum(),
            ..self.meter.read()
        }
    }

    /// Removes a backend.
    pub(crate) fn remove_backend(&self, home: &Arc<dyn HubBackend>) {
        self.backends.write().retain(|own| !Arc::ptr_eq(own, home));
    }

    /// Sets the callback for clients that have disconnected. Only the first one is
    /// kept.
    pub(crate) fn watch(&self, watcher: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.watcher.set(Box::new(watcher));
    }

    /// Notified when a backend is added.
    pub(crate) fn arrived(&self) -> Arc<Notify> {
        Arc::clone(&self.arrived)
    }

    /// Removes all backends.
    pub(crate) fn remove_backends(&self) {
        self.backends.write().clear();
    }

    /// Whether a backend accepts clients.
    pub fn is_hosted(&self) -> bool {
        self.has_fallback() || self.backends.read().iter().any(|home| home.takes_clients())
    }

    /// The largest message of a client.
    pub(crate) fn message_bytes(&self) -> usize {
        let homes = self.backends.read();
        let own = homes.first().filter(|_| self.is_own);
        own.map_or(limits::CLIENT_MESSAGE_BYTES, |home| home.message_bytes())
    }

    /// The names of all servers that accept clients, in order.
    pub fn servers(&self) -> Vec<String> {
        let homes = self.backends.read();
        let open = homes.iter().filter(|home| home.takes_clients());
        let names: BTreeSet<_> = open.map(|home| home.server().to_owned()).collect();
        names.into_iter().collect()
    }

    /// The number of clients of this node, and the servers that accept some.
    pub(crate) fn census(&self) -> PeerResponse {
        PeerResponse {
            count: self.count() as u64,
            servers: self.servers(),
            ..PeerResponse::default()
        }
    }

    /// Picks the backend for a client: the server that its token names, or the one
    /// with the fewest clients. Never the server `except`.
    pub(crate) fn pick(
        &self,
        caller: &ClientIdentity,
        except: Option<&str>,
    ) -> Option<Arc<dyn HubBackend>> {
        let homes = self.backends.read();
        let open = || {
            let open = homes.iter().filter(|home| home.takes_clients());
            open.filter(|home| except != Some(home.server()))
        };
        let wanted = caller.claim("asrs.s.sn");
        let sticky = caller.claim("asrs.s.ssticky").unwrap_or_default();
        let named = open().filter(|home| wanted == Some(home.server()));
        let named = named.min_by_key(|home| home.load());
        let chosen = match sticky {
            "Required" => named,
            "Preferred" if named.is_some() => named,
            _ => open().min_by_key(|home| home.load()),
        };
        let last_resort = || self.last_resort.get().filter(|_| except.is_none());
        chosen.or_else(last_resort).cloned()
    }

    /// Whether clients may use this protocol: hubs of the library do not read Blazor
    /// messages.
    pub(crate) fn speaks(&self, protocol: Protocol) -> bool {
        protocol != Protocol::Blazor || !self.is_own
    }

    /// Assigns a backend to a client after its handshake.
    pub(crate) async fn assign_backend(
        &self,
        client: &Arc<ClientConnection>,
        protocol: Protocol,
        record: Bytes,
    ) {
        let found = tokio::time::timeout(limits::SERVER_WAIT, self.wait_for_backend(client));
        match found.await {
            Ok(home) => client.assign_backend(protocol, record, &home),
            Err(_) => client.turn_away(protocol, NO_SERVER),
        }
    }

    /// Waits for a backend for a client.
    pub(crate) async fn wait_for_backend(&self, client: &ClientConnection) -> Arc<dyn HubBackend> {
        loop {
            let arrived = self.arrived.notified();
            if let Some(home) = self.pick(client.caller(), None) {
                return home;
            }
            self.request_server();
            self.wait_for_change(arrived).await;
        }
    }

    /// The connection of that id.
    pub fn client(&self, id: &str) -> Option<Arc<ClientConnection>> {
        let state = self.state.read();
        let member = state.connections.get(id)?;
        Some(Arc::clone(&member.client))
    }

    /// All connections.
    pub fn clients(&self) -> Vec<Arc<ClientConnection>> {
        let state = self.state.read();
        let members = state.connections.values();
        members.map(|member| Arc::clone(&member.client)).collect()
    }

    /// How many connections there are.
    pub fn count(&self) -> usize {
        self.state.read().connections.len()
    }

    /// The groups of a connection.
    pub fn groups_of(&self, id: &str) -> Vec<String> {
        let state = self.state.read();
        let member = state.connections.get(id);
        member.map_or_else(Vec::new, |member| member.groups.iter().cloned().collect())
    }

    /// Whether the group has a member.
    pub fn has_group(&self, group: &str) -> bool {
        self.state.read().groups.contains_key(group)
    }

    /// Whether the user has a connection.
    pub fn has_user(&self, user: &str) -> bool {
        self.state.read().users.contains_key(user)
    }

    /// The protocols in use.
    pub fn protocols(&self) -> ProtocolSet {
        let all = [Protocol::Json, Protocol::MessagePack, Protocol::Blazor];
        let spoken = all.into_iter().zip(&self.speakers);
        let spoken = spoken.filter(|(_, count)| count.load(Ordering::SeqCst) > 0);
        spoken.fold(ProtocolSet::default(), |set, (own, _)| set.with(own))
    }

    /// Queues a message for its recipients at this node.
    pub fn send(&self, to: &Recipients, payload: &HubPayload) {
        let targets = self.targets(to);
        count(&self.meter.delivered, targets.len() as u64);
        for client in targets {
            let form = client.protocol().and_then(|own| payload.get(own));
            if let Some(message) = form {
                client.send(message.clone());
            }
        }
    }

    fn targets(&self, to: &Recipients) -> Vec<Arc<ClientConnection>> {
        let state = self.state.read();
        let named = |id: &Arc<str>| state.connections.get(id);
        let all = |ids: &HashSet<Arc<str>>, except: &[String]| {
            let kept = ids
                .iter()
                .filter(|id| !except.iter().any(|own| **own == ***id));
            kept.filter_map(named)
                .map(|own| Arc::clone(&own.client))
                .collect::<Vec<_>>()
        };
        match to {
            Recipients::All { except } => {
                let members = state.connections.iter();
                let kept = members.filter(|(id, _)| !except.iter().any(|own| **own == ***id));
                kept.map(|(_, own)| Arc::clone(&own.client)).collect()
            }
            Recipients::Group { name, except } => state
                .groups
                .get(name)
                .map_or_else(Vec::new, |ids| all(ids, except)),
            // Once for each group of a client, as ASP.NET Core does.
            Recipients::Groups(names) => {
                let sets = names.iter().filter_map(|name| state.groups.get(name));
                sets.flat_map(|ids| all(ids, &[])).collect()
            }
            Recipients::Users(users) => {
                let sets = users.iter().filter_map(|user| state.users.get(user));
                let ids: HashSet<_> = sets.flatten().map(Arc::clone).collect();
                all(&ids, &[])
            }
            Recipients::Connections(ids) => {
                let members = ids
                    .iter()
                    .filter_map(|id| state.connections.get(id.as_str()));
                members.map(|own| Arc::clone(&own.client)).collect()
            }
        }
    }

    /// Closes connections, except some, and returns their number.
    pub fn close(&self, to: &Recipients, except: &[String], reason: Option<&str>) -> usize {
        let clients = self.targets(to);
        let is_kept =
            |client: &Arc<ClientConnection>| except.iter().any(|id| **id == **client.id());
        let clients: Vec<_> = clients.into_iter().filter(|own| !is_kept(own)).collect();
        for client in &clients {
            client.close(reason, false);
        }
        clients.len()
    }

    /// Adds a connection to a group.
    pub fn join(&self, connection: &str, group: &str) -> Result<()> {
        check_name("group", group)?;
        let mut state = self.state.write();
        let State {
            connections,
            groups,
            ..
        } = &mut *state;
        let Some((id, member)) = connections.get_key_value(connection) else {
            return Err(Error::new(ErrorKind::NoConnection(connection.to_owned())));
        };
        if member.groups.len() >= limits::CLIENT_GROUPS && !member.groups.contains(group) {
            return Err(Error::new(ErrorKind::Full("groups of one connection")));
        }
        let id = Arc::clone(id);
        groups
            .entry(group.to_owned())
            .or_default()
            .insert(Arc::clone(&id));
        if let Some(member) = connections.get_mut(&id) {
            member.groups.insert(group.to_owned());
        }
        Ok(())
    }

    /// The ids of a user's connections.
    pub(crate) fn connections_of(&self, user: &str) -> Vec<String> {
        let state = self.state.read();
        let ids = state.users.get(user);
        ids.map_or_else(Vec::new, |ids| {
            ids.iter().map(ToString::to_string).collect()
        })
    }

    /// Returns connections of a group with their users, ordered by id: at most `most`
    /// after `after`, and the last id if there are more.
    pub fn members(
        &self,
        group: &str,
        after: Option<&str>,
        most: usize,
    ) -> (Vec<(String, Option<String>)>, Option<String>) {
        let state = self.state.read();
        let ids = state.groups.get(group).into_iter().flatten();
        let mut ids: Vec<_> = ids
            .filter(|id| after.is_none_or(|own| ***id > *own))
            .collect();
        ids.sort_unstable();
        let has_more = ids.len() > most;
        ids.truncate(most);
        let last = ids.last().filter(|_| has_more).map(|id| id.to_string());
        let user = |id: &Arc<str>| {
            let member = state.connections.get(id)?;
            member.client.caller().user.clone()
        };
        let members = ids.into_iter().map(|id| (id.to_string(), user(id)));
        (members.collect(), last)
    }

    /// Adds a user to a group: all its present and future connections.
    pub fn join_user(&self, user: &str, group: &str, ttl: Option<Duration>) -> Result<()> {
        check_name("group", group)?;
        check_name("user", user)?;
        // An expiry out of range means none.
        let until = ttl.and_then(|ttl| Instant::now().checked_add(ttl));
        {
            let mut state = self.state.write();
            let own = state.user_groups.get(user);
            if own.is_none_or(|own| !own.contains_key(group)) {
                if own.is_some_and(|own| own.len() >= limits::CLIENT_GROUPS) {
                    return Err(Error::new(ErrorKind::Full("groups of one user")));
                }
                let bytes = state.user_group_bytes + membership_bytes(user, group);
                if bytes > limits::USER_GROUP_BYTES {
                    return Err(Error::new(ErrorKind::Full("groups of users")));
                }
                state.user_group_bytes = bytes;
            }
            let own = state.user_groups.entry(user.to_owned()).or_default();
            own.insert(group.to_owned(), until);
        }
        for id in self.connections_of(user) {
            // A connection that has just closed is in no group.
            let _ = self.join(&id, group);
        }
        if let Some(until) = until {
            let (me, user, group) = (self.me.clone(), user.to_owned(), group.to_owned());
            tokio::spawn(name_task(async move {
                tokio::time::sleep_until(until).await;
                if let Some(lobby) = me.upgrade() {
                    lobby.expire(&user, &group);
                }
            }));
        }
        Ok(())
    }

    /// Removes a user from one group, or from all groups it was added to.
    pub fn leave_user(&self, user: &str, group: Option<&str>) {
        let left: Vec<_> = {
            let mut state = self.state.write();
            let Some(own) = state.user_groups.get_mut(user) else {
                return;
            };
            let left: Vec<_> = match group {
                Some(group) => own
                    .remove_entry(group)
                    .into_iter()
                    .map(|(name, _)| name)
                    .collect(),
                None => own.drain().map(|(name, _)| name).collect(),
            };
            if own.is_empty() {
                state.user_groups.remove(user);
            }
            let bytes = left.iter().map(|group| membership_bytes(user, group));
            state.user_group_bytes -= bytes.sum::<usize>();
            left
        };
        for id in self.connections_of(user) {
            for group in &left {
                self.leave_group(&id, Some(group));
            }
        }
    }

    /// Whether a user was added to a group, or one of its connections is in it.
    pub fn is_user_in(&self, user: &str, group: &str) -> bool {
        let state = self.state.read();
        let is_put = state
            .user_groups
            .get(user)
            .is_some_and(|own| own.contains_key(group));
        let members = state.groups.get(group);
        let is_in = |ids: &HashSet<Arc<str>>| {
            let own = state.users.get(user);
            own.is_some_and(|own| own.iter().any(|id| ids.contains(id)))
        };
        is_put || members.is_some_and(is_in)
    }

    fn expire(&self, user: &str, group: &str) {
        let is_due = {
            let state = self.state.read();
            let until = state.user_groups.get(user).and_then(|own| own.get(group));
            until.is_some_and(|until| until.is_some_and(|until| until <= Instant::now()))
        };
        if is_due {
            self.leave_user(user, Some(group));
        }
    }

    /// Removes a connection from one group, or from all groups.
    pub fn leave_group(&self, connection: &str, group: Option<&str>) {
        let mut state = self.state.write();
        let Some(member) = state.connections.get_mut(connection) else {
            return;
        };
        let left = match group {
            Some(group) => member.groups.take(group).into_iter().collect(),
            None => std::mem::take(&mut member.groups),
        };
        for group in left {
            remove(&mut state.groups, &group, connection);
        }
    }
}

/// Estimated memory of a user's membership in a group, with its table entries.
fn membership_bytes(user: &str, group: &str) -> usize {
    user.len() + group.len() + 128
}

/// Removes a connection from a set, and the set with its last connection.
fn remove(sets: &mut HashMap<String, HashSet<Arc<str>>>, name: &str, connection: &str) {
    if let Some(set) = sets.get_mut(name) {
        set.remove(connection);
        if set.is_empty() {
            sets.remove(name);
        }
    }
}

/// Whether the name of a group or user is valid: not blank and not too long.
pub fn is_name(name: &str) -> bool {
    // A name of few bytes has few characters.
    let is_short = name.len() <= limits::GROUP_NAME || name.chars().count() <= limits::GROUP_NAME;
    is_short && !name.trim().is_empty()
}

pub(crate) fn check_name(what: &'static str, name: &str) -> Result<()> {
    if is_name(name) {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::Name(what)))
    }
}

impl ClientRegistry for HubConnections {
    fn enter(&self, client: &Arc<ClientConnection>) {
        if let Some(protocol) = client.protocol() {
            self.speakers[protocol as usize].fetch_add(1, Ordering::SeqCst);
        }
        count(&self.meter.connected, 1);
        let member = ConnectionEntry {
            client: Arc::clone(client),
            groups: BTreeSet::new(),
        };
        let mut state = self.state.write();
        state.connections.insert(Arc::clone(client.id()), member);
        let Some(user) = &client.caller().user else {
            return;
        };
        let own = state.users.entry(user.clone()).or_default();
        own.insert(Arc::clone(client.id()));
        let groups = state.user_groups.get(user);
        let groups: Vec<_> = groups
            .into_iter()
            .flat_map(|own| own.keys().cloned())
            .collect();
        drop(state);
        for group in groups {
            // The connection was just added.
            let _ = self.join(client.id(), &group);
        }
    }

    fn dropped(&self) {
        count(&self.meter.dropped, 1);
    }

    fn leave(&self, client: &Arc<ClientConnection>) {
        let mut state = self.state.write();
        let Some(member) = state.connections.remove(client.id()) else {
            return;
        };
        if let Some(protocol) = client.protocol() {
            self.speakers[protocol as usize].fetch_sub(1, Ordering::SeqCst);
        }
        for group in &member.groups {
            remove(&mut state.groups, group, client.id());
        }
        if let Some(user) = &client.caller().user {
            remove(&mut state.users, user, client.id());
        }
        drop(state);
        if let Some(watcher) = self.watcher.get() {
            watcher(client.id());
        }
    }
}
