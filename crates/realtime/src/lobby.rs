//! The clients of one hub: connections, users, groups.
//!
//! Whom a message goes to is decided under a lock; it is put into their queues
//! after that, so a slow client holds up nobody.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::RwLock;
use steadfast_core::limits;
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::handshake;

use crate::client::{Client, Place};
use crate::error::{Error, Kind, Result};
use crate::home::Home;
use crate::payload::{Payload, Protocols};
use crate::reach::{Reach, To};

/// What is known of one hub.
pub struct Lobby {
    name: String,
    state: RwLock<State>,
    /// Clients by protocol: so a message is written only in what somebody reads.
    speakers: [AtomicUsize; 3],
    /// The hub in this process, if it is hosted here.
    own: RwLock<Option<Arc<dyn Home>>>,
    me: Weak<Self>,
}

#[derive(Default)]
struct State {
    connections: HashMap<Arc<str>, Member>,
    users: HashMap<String, HashSet<Arc<str>>>,
    groups: HashMap<String, HashSet<Arc<str>>>,
}

struct Member {
    client: Arc<Client>,
    groups: BTreeSet<String>,
}

impl Lobby {
    pub(crate) fn new(name: &str) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            name: name.to_owned(),
            state: RwLock::default(),
            speakers: Default::default(),
            own: RwLock::new(None),
            me: me.clone(),
        })
    }

    /// The hub's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// From now on the hub is hosted here.
    pub(crate) fn host(&self, home: Arc<dyn Home>) {
        *self.own.write() = Some(home);
    }

    /// Lets go of the hub that is hosted here.
    pub(crate) fn unhost(&self) {
        self.own.write().take();
    }

    /// Whether somebody is there for clients.
    pub fn is_hosted(&self) -> bool {
        self.own.read().is_some()
    }

    /// The largest message of a client.
    pub(crate) fn message_bytes(&self) -> usize {
        let own = self.own.read();
        own.as_ref()
            .map_or(limits::CLIENT_MESSAGE_BYTES, |home| home.message_bytes())
    }

    /// Whether clients may speak this protocol: hubs of the library do not know what
    /// Blazor says.
    pub(crate) fn speaks(&self, protocol: Protocol) -> bool {
        protocol != Protocol::Blazor || !self.is_hosted()
    }

    /// Finds a home for a client that has said which protocol it speaks.
    pub(crate) async fn settle(&self, client: &Arc<Client>, protocol: Protocol, record: Bytes) {
        let own = self.own.read().clone();
        match own {
            Some(home) => client.settle(protocol, record, home),
            None => {
                client.pass(Bytes::from_static(handshake::ACCEPTED));
                let why = format!("Nobody hosts the hub '{}' now.", self.name);
                client.close(Some(&why), true);
            }
        }
    }

    /// The connection of that id.
    pub fn client(&self, id: &str) -> Option<Arc<Client>> {
        let state = self.state.read();
        let member = state.connections.get(id)?;
        Some(Arc::clone(&member.client))
    }

    /// All connections.
    pub fn clients(&self) -> Vec<Arc<Client>> {
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

    /// Whether somebody is in the group.
    pub fn has_group(&self, group: &str) -> bool {
        self.state.read().groups.contains_key(group)
    }

    /// Whether the user has a connection.
    pub fn has_user(&self, user: &str) -> bool {
        self.state.read().users.contains_key(user)
    }

    /// Protocols that somebody speaks.
    pub fn protocols(&self) -> Protocols {
        let all = [Protocol::Json, Protocol::MessagePack, Protocol::Blazor];
        let spoken = all.into_iter().zip(&self.speakers);
        let spoken = spoken.filter(|(_, count)| count.load(Ordering::SeqCst) > 0);
        spoken.fold(Protocols::default(), |set, (own, _)| set.with(own))
    }

    /// Puts a message into the queues of those it is for.
    pub fn send(&self, to: &To, payload: &Payload) {
        for client in self.targets(to) {
            let form = client.protocol().and_then(|own| payload.get(own));
            if let Some(message) = form {
                client.send(message.clone());
            }
        }
    }

    fn targets(&self, to: &To) -> Vec<Arc<Client>> {
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
            To::All { except } => {
                let members = state.connections.iter();
                let kept = members.filter(|(id, _)| !except.iter().any(|own| **own == ***id));
                kept.map(|(_, own)| Arc::clone(&own.client)).collect()
            }
            To::Group { name, except } => state
                .groups
                .get(name)
                .map_or_else(Vec::new, |ids| all(ids, except)),
            To::Groups(names) => {
                let sets = names.iter().filter_map(|name| state.groups.get(name));
                let ids: HashSet<_> = sets.flatten().map(Arc::clone).collect();
                all(&ids, &[])
            }
            To::Users(users) => {
                let sets = users.iter().filter_map(|user| state.users.get(user));
                let ids: HashSet<_> = sets.flatten().map(Arc::clone).collect();
                all(&ids, &[])
            }
            To::Connections(ids) => {
                let members = ids
                    .iter()
                    .filter_map(|id| state.connections.get(id.as_str()));
                members.map(|own| Arc::clone(&own.client)).collect()
            }
        }
    }

    /// Takes a connection into a group.
    pub fn join(&self, connection: &str, group: &str) -> Result<()> {
        check_name("group", group)?;
        let mut state = self.state.write();
        let State {
            connections,
            groups,
            ..
        } = &mut *state;
        let Some((id, member)) = connections.get_key_value(connection) else {
            return Err(Error::new(Kind::NoConnection(connection.to_owned())));
        };
        if member.groups.len() >= limits::CLIENT_GROUPS && !member.groups.contains(group) {
            return Err(Error::new(Kind::Full("groups of one connection")));
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

    /// Takes a connection out of a group, or out of all of them.
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

/// Takes a connection out of a set that ends with its last one.
fn remove(sets: &mut HashMap<String, HashSet<Arc<str>>>, name: &str, connection: &str) {
    if let Some(set) = sets.get_mut(name) {
        set.remove(connection);
        if set.is_empty() {
            sets.remove(name);
        }
    }
}

pub(crate) fn check_name(what: &'static str, name: &str) -> Result<()> {
    match name.trim().is_empty() || name.len() > limits::GROUP_NAME {
        true => Err(Error::new(Kind::Name(what))),
        false => Ok(()),
    }
}

impl Place for Lobby {
    fn enter(&self, client: &Arc<Client>) {
        if let Some(protocol) = client.protocol() {
            self.speakers[protocol as usize].fetch_add(1, Ordering::SeqCst);
        }
        let member = Member {
            client: Arc::clone(client),
            groups: BTreeSet::new(),
        };
        let mut state = self.state.write();
        state.connections.insert(Arc::clone(client.id()), member);
        if let Some(user) = &client.caller().user {
            let own = state.users.entry(user.clone()).or_default();
            own.insert(Arc::clone(client.id()));
        }
    }

    fn leave(&self, client: &Arc<Client>) {
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
    }
}

/// How a hub in this process reaches clients.
pub(crate) struct Direct(Weak<Lobby>);

impl Lobby {
    /// The way from a hub in this process to its clients.
    pub(crate) fn direct(&self) -> Arc<dyn Reach> {
        Arc::new(Direct(self.me.clone()))
    }
}

impl Direct {
    fn lobby(&self) -> Result<Arc<Lobby>> {
        let lost = || Error::new(Kind::Lost("it has ended".to_owned()));
        self.0.upgrade().ok_or_else(lost)
    }
}

impl Reach for Direct {
    fn protocols(&self) -> Protocols {
        self.0
            .upgrade()
            .map(|lobby| lobby.protocols())
            .unwrap_or_default()
    }

    fn send<'a>(&'a self, to: &'a To, payload: Payload) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.lobby()?.send(to, &payload);
            Ok(())
        })
    }

    fn join<'a>(&'a self, connection: &'a str, group: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.lobby()?.join(connection, group) })
    }

    fn leave<'a>(&'a self, connection: &'a str, group: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.lobby()?.leave_group(connection, Some(group));
            Ok(())
        })
    }

    fn ask<'a>(
        &'a self,
        _id: &'a str,
        connection: &'a str,
        payload: Payload,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let client = self.lobby()?.client(connection);
            let form = client.as_ref().and_then(|own| payload.get(own.protocol()?));
            let (Some(client), Some(message)) = (&client, form) else {
                return Err(Error::new(Kind::NoConnection(connection.to_owned())));
            };
            client.send(message.clone());
            Ok(())
        })
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
