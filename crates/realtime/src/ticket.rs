//! Connections that were negotiated.
//!
//! A ticket is what a client shows when it opens the connection, and with every
//! request of a transport that has several. It is forgotten with its client, or
//! after a while if nobody comes with it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use steadfast_core::limits;
use steadfast_core::task::named;
use tokio::sync::watch;

use crate::caller::Caller;
use crate::client::{Client, Place, Wishes};
use crate::error::{Error, Kind, Result};
use crate::id;
use crate::inlet::Inlet;
use crate::lobby::Lobby;

/// How bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    WebSockets,
    ServerSentEvents,
    LongPolling,
}

/// Why a ticket does not open a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The connection is open, and has its socket.
    Busy,
    /// The connection is open by another transport.
    Transport,
    /// It has ended.
    Gone,
}

/// A negotiated connection.
pub struct Ticket {
    /// The public id of the connection.
    pub id: Arc<str>,
    /// What the client shows.
    pub token: String,
    /// Its hub.
    pub lobby: Arc<Lobby>,
    caller: Arc<Caller>,
    wishes: Wishes,
    tickets: Weak<Tickets>,
    open: Mutex<Option<Arc<Open>>>,
}

/// An open connection of a ticket.
pub struct Open {
    pub transport: Transport,
    pub client: Arc<Client>,
    /// Requests of one client are handled one after another.
    pub inlet: tokio::sync::Mutex<Inlet>,
    /// The newest poll; older ones end.
    pub poll: watch::Sender<u64>,
}

/// All tickets of a service.
#[derive(Default)]
pub(crate) struct Tickets {
    all: Mutex<HashMap<String, Arc<Ticket>>>,
}

impl Tickets {
    /// Makes a ticket. Without `is_secret` the public id itself is shown.
    pub(crate) fn issue(
        self: &Arc<Self>,
        lobby: Arc<Lobby>,
        caller: Caller,
        wishes: Wishes,
        is_secret: bool,
    ) -> Result<Arc<Ticket>> {
        // Other nodes see by its end whose it is.
        let mark = lobby.nodes().mark();
        let random = || match &mark {
            Some(mark) => format!("{}.{mark}", id::random()),
            None => id::random(),
        };
        let id: Arc<str> = random().into();
        let token = match is_secret {
            true => random(),
            false => id.to_string(),
        };
        let known = (id, Arc::new(caller), wishes);
        self.keep(lobby, token, known)
    }

    /// Keeps a ticket for as long as somebody may come with it.
    pub(crate) fn keep(
        self: &Arc<Self>,
        lobby: Arc<Lobby>,
        token: String,
        (id, caller, wishes): (Arc<str>, Arc<Caller>, Wishes),
    ) -> Result<Arc<Ticket>> {
        let ticket = Arc::new(Ticket {
            id,
            token: token.clone(),
            lobby,
            caller,
            wishes,
            tickets: Arc::downgrade(self),
            open: Mutex::new(None),
        });
        let mut all = self.all.lock();
        if all.len() >= limits::TICKETS {
            return Err(Error::new(Kind::Full("negotiated connections")));
        }
        all.insert(token.clone(), Arc::clone(&ticket));
        drop(all);
        let tickets = Arc::downgrade(self);
        tokio::spawn(named(async move {
            tokio::time::sleep(limits::TICKET_TIME).await;
            if let Some(tickets) = tickets.upgrade() {
                tickets.expire(&token);
            }
        }));
        Ok(ticket)
    }

    pub(crate) fn find(&self, token: &str) -> Option<Arc<Ticket>> {
        self.all.lock().get(token).cloned()
    }

    /// Takes a ticket away with which nobody has come.
    pub(crate) fn take(&self, token: &str) -> Option<Arc<Ticket>> {
        let mut all = self.all.lock();
        let is_unused = |ticket: &Arc<Ticket>| ticket.open.lock().is_none();
        match all.get(token).is_some_and(is_unused) {
            true => all.remove(token),
            false => None,
        }
    }

    /// Forgets a ticket that nobody has come with.
    fn expire(&self, token: &str) {
        self.take(token);
    }
}

impl Ticket {
    /// Opens the connection, once.
    pub fn open(
        self: &Arc<Self>,
        transport: Transport,
        most_bytes: usize,
    ) -> std::result::Result<Arc<Open>, Refused> {
        let mut open = self.open.lock();
        if let Some(open) = &*open {
            return Err(match open.transport == transport {
                true => Refused::Busy,
                false => Refused::Transport,
            });
        }
        if self
            .tickets
            .upgrade()
            .is_none_or(|all| all.find(&self.token).is_none())
        {
            return Err(Refused::Gone);
        }
        let wishes = Wishes {
            // Only a socket can be taken over.
            is_stateful: self.wishes.is_stateful && transport == Transport::WebSockets,
            ..self.wishes
        };
        let place = Arc::new(Entry {
            lobby: Arc::clone(&self.lobby),
            tickets: self.tickets.clone(),
            token: self.token.clone(),
        });
        let (id, caller) = (Arc::clone(&self.id), Arc::clone(&self.caller));
        let client = Client::new(id, caller, place, &wishes);
        let inlet = Inlet::new(Arc::clone(&client), Arc::clone(&self.lobby), most_bytes);
        let opened = Arc::new(Open {
            transport,
            client,
            inlet: tokio::sync::Mutex::new(inlet),
            poll: watch::channel(0).0,
        });
        *open = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// The connection, if it is open.
    pub fn opened(&self) -> Option<Arc<Open>> {
        self.open.lock().clone()
    }

    /// What was wanted of it.
    pub(crate) fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// Who has negotiated it.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }
}

/// The place of a client that has a ticket.
struct Entry {
    lobby: Arc<Lobby>,
    tickets: Weak<Tickets>,
    token: String,
}

impl Place for Entry {
    fn enter(&self, client: &Arc<Client>) {
        self.lobby.enter(client);
    }

    fn dropped(&self) {
        self.lobby.dropped();
    }

    fn leave(&self, client: &Arc<Client>) {
        self.lobby.leave(client);
        if let Some(tickets) = self.tickets.upgrade() {
            tickets.all.lock().remove(&self.token);
        }
    }
}
