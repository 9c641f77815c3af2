//! The backend of a client, and its migration to another.
//!
//! While a client migrates its messages are held: those of open calls still go to the
//! old backend, later ones to the new one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use steadfast_core::limits;
use steadfast_wire::signalr::frame::FramedMessage;
use steadfast_wire::signalr::message::Outcome;
use steadfast_wire::signalr::{Protocol, handshake, write};

use crate::backend::{HubBackend, NewClient};
use crate::connection::client::{ClientConnection, Routing};
use crate::connection::open_calls;

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
        self.note_backend(home);
        home.open(&arrival);
    }

    /// Closes a client without a backend after its handshake; it may reconnect.
    pub(crate) fn turn_away(self: &Arc<Self>, protocol: Protocol, why: &str) {
        let _ = self.protocol.set(protocol);
        self.pass(Bytes::from_static(handshake::ACCEPTED));
        self.close(Some(why), true);
    }

    /// Notes what the backend needs to know of messages.
    fn note_backend(&self, home: &Arc<dyn HubBackend>) {
        self.notes_calls
            .store(home.counts_calls(), Ordering::Release);
        self.reads_messages
            .store(home.reads_messages(), Ordering::Release);
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
        self.note_backend(home);
        self.release(&mut routing);
    }

    /// Releases the held messages, in order.
    fn release(&self, routing: &mut Routing) {
        let held = routing.held.take().unwrap_or_default();
        routing.held_bytes = 0;
        routing.is_frozen = false;
        if let Some(home) = routing.backend.clone() {
            let protocol = self.protocol().unwrap_or(Protocol::Json);
            for bytes in held {
                let unread = FramedMessage::unread(bytes.clone());
                let message = FramedMessage::look(protocol, bytes).unwrap_or(unread);
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
            self.note_backend(to);
        }
        self.release(&mut routing);
        moves
    }

    /// The server of its backend.
    pub fn server(&self) -> Option<String> {
        let routing = self.routing.lock();
        routing
            .backend
            .as_ref()
            .map(|home| home.server().to_owned())
    }

    /// Whether it was migrated away from this server, which may not know that yet.
    pub(crate) fn has_left(&self, server: &str) -> bool {
        let is_elsewhere = self.server().is_none_or(|own| own != server);
        is_elsewhere && self.former.lock().iter().any(|own| own == server)
    }

    /// Notes the server it migrates from; the last few are kept.
    pub(crate) fn note_former(&self, server: &str) {
        let mut former = self.former.lock();
        former.retain(|own| own != server);
        if former.len() >= limits::FORMER_SERVERS {
            former.remove(0);
        }
        former.push(server.to_owned());
    }

    /// Number of its received calls without a completion: at the backend and on the
    /// way.
    pub(crate) fn unanswered(&self) -> usize {
        let protocol = self.protocol().unwrap_or(Protocol::Json);
        let (home, waiting) = {
            let routing = self.routing.lock();
            let held = routing.held.iter().flatten().chain(&routing.waiting);
            let waiting = held.filter(|message| open_calls::is_call(protocol, message));
            (routing.backend.clone(), waiting.count())
        };
        let there = home.map_or(0, |home| home.unanswered(&self.id));
        there + waiting + self.calls.lock().made()
    }
}
