//! Tickets of negotiated connections.
//!
//! A client shows its ticket when it opens the connection, and with every request of
//! a transport that has several. The ticket is removed with its client, or after a
//! time-out if no client uses it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
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

/// The transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    WebSockets,
    ServerSentEvents,
    LongPolling,
}

/// The reason why a ticket does not open a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The connection is open on another socket.
    Busy,
    /// The connection is open on another transport.
    Transport,
    /// It has ended.
    Gone,
}

/// A negotiated connection.
pub struct Ticket {
    /// The public id of the connection.
    pub id: Arc<str>,
    /// The token that the client shows.
    pub token: String,
    /// Its hub.
    pub lobby: Arc<Lobby>,
    caller: Arc<Caller>,
    wishes: Wishes,
    tickets: Weak<Tickets>,
    /// Its number among the unused tickets.
    number: u64,
    open: Mutex<Option<Arc<Open>>>,
}

/// An open connection of a ticket.
pub struct Open {
    pub transport: Transport,
    pub client: Arc<Client>,
    /// Requests of one client are handled one after another.
    pub inlet: tokio::sync::Mutex<Inlet>,
    /// The number of the newest poll; older ones end.
    pub poll: watch::Sender<u64>,
}

/// All tickets of a service.
#[derive(Default)]
pub(crate) struct Tickets {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    all: HashMap<String, Arc<Ticket>>,
    next: u64,
    unused: BTreeMap<u64, Unused>,
    users: HashMap<Option<String>, Share>,
    /// Bytes of the unused ones.
    bytes: usize,
}

/// A ticket that no client has used yet.
struct Unused {
    token: String,
    user: Option<String>,
    bytes: usize,
}

/// The unused tickets of one user.
#[derive(Default)]
struct Share {
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

    fn forget(&mut self, number: u64) -> Option<Arc<Ticket>> {
        let unused = self.used(number)?;
        self.all.remove(&unused.token)
    }

    /// Removes a ticket from the unused ones.
    fn used(&mut self, number: u64) -> Option<Unused> {
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

impl Tickets {
    /// Issues a ticket. Without `is_secret` the public id is the token.
    pub(crate) fn issue(
        self: &Arc<Self>,
        lobby: Arc<Lobby>,
        caller: Caller,
        wishes: Wishes,
        is_secret: bool,
    ) -> Result<Arc<Ticket>> {
        // Peer nodes find its owner by the mark at its end.
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

    /// Stores a ticket until a client uses it or it expires.
    pub(crate) fn keep(
        self: &Arc<Self>,
        lobby: Arc<Lobby>,
        token: String,
        (id, caller, wishes): (Arc<str>, Arc<Caller>, Wishes),
    ) -> Result<Arc<Ticket>> {
        let mut state = self.state.lock();
        if state.unused.len() >= limits::TICKETS {
            return Err(Error::new(Kind::Full("negotiated connections")));
        }
        let bytes = caller.bytes() + 2 * token.len() + size_of::<Ticket>();
        let user = caller.user.clone();
        state.make_room(&user, bytes);
        state.next += 1;
        let number = state.next;
        let ticket = Arc::new(Ticket {
            id,
            token: token.clone(),
            lobby,
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
        let unused = Unused {
            token: token.clone(),
            user,
            bytes,
        };
        state.unused.insert(number, unused);
        drop(state);
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
        self.state.lock().all.get(token).cloned()
    }

    /// Takes an unused ticket away.
    pub(crate) fn take(&self, token: &str) -> Option<Arc<Ticket>> {
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
        let tickets = self.tickets.upgrade();
        if !tickets.is_some_and(|all| all.claim(self.number)) {
            return Err(Refused::Gone);
        }
        let wishes = Wishes {
            // Only a WebSocket can be replaced.
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

    /// The options of its client.
    pub(crate) fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// The identity of its client.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }
}

/// The registry of a client that has a ticket.
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
            tickets.state.lock().all.remove(&self.token);
        }
    }
}
