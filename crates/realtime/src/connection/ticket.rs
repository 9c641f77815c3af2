//! Tickets of negotiated connections.
//!
//! A client shows its ticket when it opens the connection, and with every request of
//! a transport that has several. The ticket is removed with its client, or after a
//! time-out if no client uses it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use steadfast_core::limits;
use steadfast_core::task::name_task;
use tokio::sync::watch;

use crate::connection::client::{ClientConnection, ClientOptions, ClientRegistry};
use crate::connection::client_reader::ClientReader;
use crate::connection::id;
use crate::connection::identity::ClientIdentity;
use crate::error::{Error, ErrorKind, Result};
use crate::hub_connections::HubConnections;

/// The transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientTransport {
    WebSockets,
    ServerSentEvents,
    LongPolling,
}

/// The reason why a ticket opens no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketError {
    /// The connection is open on another socket.
    Busy,
    /// The connection is open on another transport.
    Transport,
    /// It has ended.
    Gone,
}

/// A negotiated connection.
pub struct ConnectionTicket {
    /// The public id of the connection.
    pub id: Arc<str>,
    /// The token that the client shows.
    pub token: String,
    /// Its hub.
    pub hub: Arc<HubConnections>,
    caller: Arc<ClientIdentity>,
    wishes: ClientOptions,
    tickets: Weak<TicketRegistry>,
    /// Its number among the unused tickets.
    number: u64,
    open: Mutex<Option<Arc<TicketConnection>>>,
}

/// An open connection of a ticket.
pub struct TicketConnection {
    pub transport: ClientTransport,
    pub client: Arc<ClientConnection>,
    /// Requests of one client are handled one after another.
    pub inlet: tokio::sync::Mutex<ClientReader>,
    /// The number of the newest poll; older ones end.
    pub poll: watch::Sender<u64>,
}

/// All tickets of a service.
#[derive(Default)]
pub(crate) struct TicketRegistry {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    all: HashMap<String, Arc<ConnectionTicket>>,
    next: u64,
    unused: BTreeMap<u64, UnusedTicket>,
    users: HashMap<Option<String>, UserTickets>,
    /// Bytes of the unused ones.
    bytes: usize,
}

/// A ticket that no client has used yet.
struct UnusedTicket {
    token: String,
    user: Option<String>,
    bytes: usize,
}

/// The unused tickets of one user.
#[derive(Default)]
struct UserTickets {
    numbers: BTreeSet<u64>,
    bytes: usize,
}

impl State {
    /// Removes the oldest unused tickets until there is room for one more: those of
    /// the same user, then those of the user that has most. Clients without a user
    /// name share one budget that has no bound of its own.
    fn make_room(&mut self, user: &Option<String>, bytes: usize) {
        while user.is_some()
            && let Some(share) = self.users.get(user)
            && (share.numbers.len() >= limits::USER_TICKETS
                || share.bytes + bytes > limits::USER_TICKET_BYTES)
            && let Some(oldest) = share.numbers.first().copied()
        {
            self.forget(oldest);
        }
        while self.bytes + bytes > limits::TICKET_BYTES {
            let most = self.users.values().max_by_key(|share| share.bytes);
            let Some(oldest) = most.and_then(|share| share.numbers.first().copied()) else {
                return;
            };
            self.forget(oldest);
        }
    }

    fn forget(&mut self, number: u64) -> Option<Arc<ConnectionTicket>> {
        let unused = self.used(number)?;
        self.all.remove(&unused.token)
    }

    /// Removes a ticket from the unused ones.
    fn used(&mut self, number: u64) -> Option<UnusedTicket> {
        let unused = self.unused.remove(&number)?;
        self.bytes -= unused.bytes;
        if let Some(share) = self.users.get_mut(&unused.user) {
            share.numbers.remove(&number);
            share.bytes -= unused.bytes;
            if share.numbers.is_empty() {
                self.users.remove(&unused.user);
            }
        }
        Some(unused)
    }
}

impl TicketRegistry {
    /// Issues a ticket. Without `is_secret` the public id is the token.
    pub(crate) fn issue(
        self: &Arc<Self>,
        lobby: Arc<HubConnections>,
        caller: ClientIdentity,
        wishes: ClientOptions,
        is_secret: bool,
    ) -> Result<Arc<ConnectionTicket>> {
        // Peer nodes find its owner by the mark at its end.
        let mark = lobby.nodes().mark();
        let random = || match &mark {
            Some(mark) => format!("{}.{mark}", id::random()),
            None => id::random(),
        };
        let id: Arc<str> = random().into();
        let token = if is_secret { random() } else { id.to_string() };
        let known = (id, Arc::new(caller), wishes);
        self.keep(lobby, token, known)
    }

    /// Stores a ticket until a client uses it or it expires.
    pub(crate) fn keep(
        self: &Arc<Self>,
        lobby: Arc<HubConnections>,
        token: String,
        (id, caller, wishes): (Arc<str>, Arc<ClientIdentity>, ClientOptions),
    ) -> Result<Arc<ConnectionTicket>> {
        let mut state = self.state.lock();
        if state.unused.len() >= limits::TICKETS {
            return Err(Error::new(ErrorKind::Full("negotiated connections")));
        }
        let bytes = caller.bytes() + 2 * token.len() + size_of::<ConnectionTicket>();
        let user = caller.user.clone();
        state.make_room(&user, bytes);
        state.next += 1;
        let number = state.next;
        let ticket = Arc::new(ConnectionTicket {
            id,
            token: token.clone(),
            hub: lobby,
            caller,
            wishes,
            tickets: Arc::downgrade(self),
            number,
            open: Mutex::new(None),
        });
        state.all.insert(token.clone(), Arc::clone(&ticket));
        let share = state.users.entry(user.clone()).or_default();
        share.numbers.insert(number);
        share.bytes += bytes;
        state.bytes += bytes;
        let unused = UnusedTicket {
            token: token.clone(),
            user,
            bytes,
        };
        state.unused.insert(number, unused);
        drop(state);
        let tickets = Arc::downgrade(self);
        tokio::spawn(name_task(async move {
            tokio::time::sleep(limits::TICKET_TIME).await;
            if let Some(tickets) = tickets.upgrade() {
                tickets.expire(&token);
            }
        }));
        Ok(ticket)
    }

    pub(crate) fn find(&self, token: &str) -> Option<Arc<ConnectionTicket>> {
        self.state.lock().all.get(token).cloned()
    }

    /// Takes an unused ticket away.
    pub(crate) fn take(&self, token: &str) -> Option<Arc<ConnectionTicket>> {
        let mut state = self.state.lock();
        let number = state.all.get(token)?.number;
        state.forget(number)
    }

    /// A client uses a ticket. False if it has expired.
    fn claim(&self, number: u64) -> bool {
        self.state.lock().used(number).is_some()
    }

    /// Removes a ticket that no client has used in time.
    fn expire(&self, token: &str) {
        self.take(token);
    }
}

impl ConnectionTicket {
    /// Opens the connection, once.
    pub fn open(
        self: &Arc<Self>,
        transport: ClientTransport,
        most_bytes: usize,
    ) -> std::result::Result<Arc<TicketConnection>, TicketError> {
        let mut open = self.open.lock();
        if let Some(open) = &*open {
            return Err(if open.transport == transport {
                TicketError::Busy
            } else {
                TicketError::Transport
            });
        }
        let tickets = self.tickets.upgrade();
        if !tickets.is_some_and(|all| all.claim(self.number)) {
            return Err(TicketError::Gone);
        }
        let wishes = ClientOptions {
            // Only a WebSocket can be replaced.
            is_stateful: self.wishes.is_stateful && transport == ClientTransport::WebSockets,
            ..self.wishes
        };
        let place = Arc::new(Entry {
            hub: Arc::clone(&self.hub),
            tickets: self.tickets.clone(),
            token: self.token.clone(),
        });
        let (id, caller) = (Arc::clone(&self.id), Arc::clone(&self.caller));
        let client = ClientConnection::new(id, caller, place, &wishes);
        let inlet = ClientReader::new(Arc::clone(&client), Arc::clone(&self.hub), most_bytes);
        let opened = Arc::new(TicketConnection {
            transport,
            client,
            inlet: tokio::sync::Mutex::new(inlet),
            poll: watch::channel(0).0,
        });
        *open = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// The connection, if it is open.
    pub fn opened(&self) -> Option<Arc<TicketConnection>> {
        self.open.lock().clone()
    }

    /// The options of its client.
    pub(crate) fn wishes(&self) -> &ClientOptions {
        &self.wishes
    }

    /// The identity of its client.
    pub fn caller(&self) -> &Arc<ClientIdentity> {
        &self.caller
    }
}

/// The registry of a client that has a ticket.
struct Entry {
    hub: Arc<HubConnections>,
    tickets: Weak<TicketRegistry>,
    token: String,
}

impl ClientRegistry for Entry {
    fn enter(&self, client: &Arc<ClientConnection>) {
        self.hub.enter(client);
    }

    fn dropped(&self) {
        self.hub.dropped();
    }

    fn leave(&self, client: &Arc<ClientConnection>) {
        self.hub.leave(client);
        if let Some(tickets) = self.tickets.upgrade() {
            tickets.state.lock().all.remove(&self.token);
        }
    }
}
