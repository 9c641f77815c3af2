//! Message routing and migration of clients.
//!
//! Whole messages go to the backend, one after another. While a client migrates they
//! are held: messages of open calls still go to the old backend, later ones to the
//! new one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use steadfast_core::limits;
use steadfast_wire::signalr::message::Outcome;
use steadfast_wire::signalr::{Protocol, handshake, write};
use tokio::time::Instant;

use crate::backend::{HubBackend, NewClient};
use crate::connection::client::ClientConnection;
use crate::connection::routing::Routing;

/// The route of a message of the client.
enum MessageRoute {
    Home(Arc<dyn HubBackend>),
    /// It is held while the client migrates.
    Held,
    /// It must wait: for room at this backend, or for the end of a migration.
    Wait(Option<Arc<dyn HubBackend>>),
    Nowhere,
}

impl ClientConnection {
    /// Sets its protocol and its backend.
    pub(crate) fn assign_backend(
        self: &Arc<Self>,
        protocol: Protocol,
        handshake: Bytes,
        home: &Arc<dyn HubBackend>,
    ) {
        // A client keeps its protocol for its lifetime.
        let _ = self.protocol.set(protocol);
        let mut routing = self.routing.lock();
        if routing.has_ended {
            return;
        }
        self.registry.enter(self);
        let arrival = self.arrival(protocol, handshake.clone(), None);
        routing.handshake = handshake;
        routing.backend = Some(Arc::clone(home));
        self.notes_calls
            .store(home.counts_calls(), Ordering::Release);
        home.open(&arrival);
    }

    /// Closes a client without a backend after its handshake; it may reconnect.
    pub(crate) fn turn_away(self: &Arc<Self>, protocol: Protocol, why: &str) {
        let _ = self.protocol.set(protocol);
        self.pass(Bytes::from_static(handshake::ACCEPTED));
        self.close(Some(why), true);
    }

    fn arrival(&self, protocol: Protocol, handshake: Bytes, from: Option<String>) -> NewClient {
        NewClient {
            id: Arc::clone(&self.id),
            caller: Arc::clone(&self.caller),
            protocol,
            handshake,
            from,
        }
    }

    /// Delivers a message to the backend, once it has room. A numbered message was
    /// received on the socket `counted`. It is counted only when it is delivered: if
    /// its socket is lost before, the client sends it again. False if it is dropped.
    pub(crate) async fn deliver(&self, message: Bytes, counted: Option<u64>) -> bool {
        loop {
            // A backend that is ready without having room must not block the worker.
            tokio::task::coop::consume_budget().await;
            let released = self.released.notified();
            let home = {
                let mut routing = self.routing.lock();
                if routing.has_ended || self.is_ending() {
                    return false;
                }
                let way = self.way(&routing, &message);
                routing.waiting = match way {
                    MessageRoute::Wait(_) => Some(message.clone()),
                    _ => None,
                };
                match way {
                    MessageRoute::Wait(home) => home,
                    _ if counted.is_some_and(|socket| !self.counts(socket)) => return false,
                    way => {
                        self.place(&mut routing, way, message);
                        return true;
                    }
                }
            };
            match home.as_ref().and_then(|home| home.room(&self.id)) {
                Some(room) => tokio::select! {
                    () = room => {}
                    () = released => {}
                    () = self.gone.cancelled() => return false,
                },
                None if home.is_some() => {}
                None => tokio::select! {
                    () = released => {}
                    () = self.gone.cancelled() => return false,
                },
            }
        }
    }

    /// Counts a message of a client with stateful reconnect. False if it was counted
    /// before, or its socket was replaced.
    fn counts(&self, socket: u64) -> bool {
        let Some(received) = &self.received else {
            return true;
        };
        let mut received = received.lock();
        // A client that has reconnected restarts its sequence, so numbers of the
        // former socket are void.
        if self.socket() != socket || !received.take(Instant::now()) {
            return false;
        }
        // Wakes the sender to schedule the acknowledgement.
        self.outbox.wake.notify_one();
        true
    }

    /// The current route of a message.
    fn way(&self, routing: &Routing, message: &Bytes) -> MessageRoute {
        let protocol = self.protocol().unwrap_or(Protocol::Json);
        let belongs_there = routing.held.is_some()
            && !routing.is_frozen
            && self.calls.lock().is_part(protocol, message);
        if routing.held.is_some() && !belongs_there {
            return if routing.held_bytes >= limits::CLIENT_CALL_BYTES {
                MessageRoute::Wait(None)
            } else {
                MessageRoute::Held
            };
        }
        match routing.backend.clone() {
            None => MessageRoute::Nowhere,
            Some(home) if home.room(&self.id).is_some() => MessageRoute::Wait(Some(home)),
            Some(home) => MessageRoute::Home(home),
        }
    }

    /// Delivers a message to the backend, or holds it while the client migrates.
    fn place(&self, routing: &mut Routing, way: MessageRoute, message: Bytes) {
        match way {
            MessageRoute::Home(home) => {
                let protocol = self.protocol().unwrap_or(Protocol::Json);
                let notes_calls = self.notes_calls.load(Ordering::Acquire);
                let with_streams = home.needs_calls();
                if notes_calls
                    && self
                        .calls
                        .lock()
                        .note_client(protocol, &message, with_streams)
                {
                    self.settled.notify_waiters();
                }
                home.data(&self.id, message);
            }
            MessageRoute::Held => {
                routing.held_bytes += message.len();
                routing.held.get_or_insert_default().push_back(message);
            }
            MessageRoute::Wait(_) | MessageRoute::Nowhere => {}
        }
    }

    /// Migrates it to another backend between two messages: open calls end at the old
    /// one, later messages go to the new one. False if it cannot be migrated now.
    pub(crate) async fn migrate(self: &Arc<Self>, to: &Arc<dyn HubBackend>) -> bool {
        let from = {
            let mut routing = self.routing.lock();
            let is_there = self.is_greeted.load(Ordering::Acquire) && !self.is_ending();
            let may_move = |home: &&Arc<dyn HubBackend>| home.may_move();
            let from = routing.backend.as_ref().filter(may_move).cloned();
            let (Some(from), None, true) = (from, &routing.held, is_there) else {
                return false;
            };
            routing.held = Some(VecDeque::new());
            from
        };
        self.quiesce().await;
        // A server that does not confirm in time is assumed to be silent.
        from.pause(&self.id).await;
        self.hand_over(&from, to)
    }

    /// Holds a client whose backend is lost until it has another one; its open calls
    /// fail. False if it cannot reconnect with its state.
    pub(crate) fn hold(self: &Arc<Self>) -> bool {
        {
            let mut routing = self.routing.lock();
            let is_there = self.is_greeted.load(Ordering::Acquire) && !self.is_ending();
            if !is_there || !self.is_stateful() || routing.has_ended {
                return false;
            }
            routing.held.get_or_insert_default();
            routing.is_frozen = true;
            routing.backend = None;
        }
        self.abandon("The app server was lost.");
        true
    }

    /// Assigns a backend after its former one, `from`, was lost.
    pub(crate) fn reassign_backend(self: &Arc<Self>, from: &str, home: &Arc<dyn HubBackend>) {
        let mut routing = self.routing.lock();
        if routing.has_ended {
            return;
        }
        let protocol = self.protocol().unwrap_or(Protocol::Json);
        let handshake = routing.handshake.clone();
        home.open(&self.arrival(protocol, handshake, Some(from.to_owned())));
        routing.backend = Some(Arc::clone(home));
        self.notes_calls
            .store(home.counts_calls(), Ordering::Release);
        self.release(&mut routing);
    }

    /// Releases the held messages, in order.
    fn release(&self, routing: &mut Routing) {
        let held = routing.held.take().unwrap_or_default();
        routing.held_bytes = 0;
        routing.is_frozen = false;
        if let Some(home) = routing.backend.clone() {
            let protocol = self.protocol().unwrap_or(Protocol::Json);
            for message in held {
                let with_streams = home.needs_calls();
                self.calls
                    .lock()
                    .note_client(protocol, &message, with_streams);
                home.data(&self.id, message);
            }
        }
        self.released.notify_waiters();
    }

    /// Fails open calls, which no backend completes any more.
    fn abandon(self: &Arc<Self>, why: &str) {
        let open = self.calls.lock().abandon();
        let protocol = self.protocol().unwrap_or(Protocol::Json);
        for id in open {
            let outcome = Outcome::Error(why.to_owned());
            self.put(write::completion(protocol, &id, &outcome), true);
        }
    }

    /// Waits until no call is open at the backend. Calls that take too long fail,
    /// because no backend would complete them.
    async fn quiesce(self: &Arc<Self>) {
        let settled = async {
            loop {
                let settled = self.settled.notified();
                let is_settled = {
                    let mut routing = self.routing.lock();
                    let is_settled = self.calls.lock().is_empty() || routing.has_ended;
                    routing.is_frozen |= is_settled;
                    is_settled
                };
                if is_settled {
                    return;
                }
                settled.await;
            }
        };
        if tokio::time::timeout(limits::MOVE_QUIET, settled)
            .await
            .is_ok()
        {
            return;
        }
        self.routing.lock().is_frozen = true;
        self.abandon("The connection was migrated.");
    }

    fn hand_over(self: &Arc<Self>, from: &Arc<dyn HubBackend>, to: &Arc<dyn HubBackend>) -> bool {
        let mut routing = self.routing.lock();
        // The loss of the old backend in the meantime is handled elsewhere.
        let is_home = routing
            .backend
            .as_ref()
            .is_some_and(|home| Arc::ptr_eq(home, from));
        if !is_home {
            return false;
        }
        let moves = !routing.has_ended && !self.is_ending() && to.takes_clients();
        if moves {
            self.note_former(from.server());
            let protocol = self.protocol().unwrap_or(Protocol::Json);
            let handshake = routing.handshake.clone();
            to.open(&self.arrival(protocol, handshake, Some(from.server().to_owned())));
            from.close(&self.id, None, Some(to.server()));
            routing.backend = Some(Arc::clone(to));
            self.notes_calls.store(to.counts_calls(), Ordering::Release);
        }
        self.release(&mut routing);
        moves
    }
}
