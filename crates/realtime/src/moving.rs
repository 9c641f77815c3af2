//! How a client's messages reach its home, and its moves.
//!
//! Whole messages go to the home, one after another. While a client moves they are
//! held: what was begun ends at the old home, and what follows goes to the new one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use steadfast_core::limits;
use steadfast_wire::signalr::message::Outcome;
use steadfast_wire::signalr::{Protocol, handshake, write};
use tokio::time::Instant;

use crate::client::Client;
use crate::home::{Arrival, Home};
use crate::route::Routing;

/// Where a message of the client goes.
enum Way {
    Home(Arc<dyn Home>),
    /// It is held while the client moves.
    Held,
    /// It must wait: for room at this home, or for the end of a move.
    Wait(Option<Arc<dyn Home>>),
    Nowhere,
}

impl Client {
    /// It has a protocol and a home.
    pub(crate) fn settle(
        self: &Arc<Self>,
        protocol: Protocol,
        handshake: Bytes,
        home: &Arc<dyn Home>,
    ) {
        // A client speaks one protocol for as long as it is there.
        let _ = self.protocol.set(protocol);
        let mut routing = self.routing.lock();
        if routing.has_ended {
            return;
        }
        self.place.enter(self);
        let arrival = self.arrival(protocol, handshake.clone(), None);
        routing.handshake = handshake;
        routing.home = Some(Arc::clone(home));
        self.notes_calls
            .store(home.counts_calls(), Ordering::Release);
        home.open(&arrival);
    }

    /// Nobody is there for it: it is greeted, told so, and may try again.
    pub(crate) fn turn_away(self: &Arc<Self>, protocol: Protocol, why: &str) {
        let _ = self.protocol.set(protocol);
        self.pass(Bytes::from_static(handshake::ACCEPTED));
        self.close(Some(why), true);
    }

    fn arrival(&self, protocol: Protocol, handshake: Bytes, from: Option<String>) -> Arrival {
        Arrival {
            id: Arc::clone(&self.id),
            caller: Arc::clone(&self.caller),
            protocol,
            handshake,
            from,
        }
    }

    /// Gives a message to the home, when that has room for it. One that has a number came
    /// by the socket `counted`. It counts only now that it has a place: if its socket is
    /// lost before, the client sends it again. False if it is not taken.
    pub(crate) async fn deliver(&self, message: Bytes, counted: Option<u64>) -> bool {
        loop {
            // A home that is ready without having room must not keep the worker.
            tokio::task::coop::consume_budget().await;
            let released = self.released.notified();
            let home = {
                let mut routing = self.routing.lock();
                if routing.has_ended || self.is_ending() {
                    return false;
                }
                let way = self.way(&routing, &message);
                routing.waiting = match way {
                    Way::Wait(_) => Some(message.clone()),
                    _ => None,
                };
                match way {
                    Way::Wait(home) => home,
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

    /// Counts a message of a client that may come back. False if it was counted before,
    /// or its socket does not count any more.
    fn counts(&self, socket: u64) -> bool {
        let Some(received) = &self.received else {
            return true;
        };
        let mut received = received.lock();
        // A client that has come back on another socket says where it goes on, and
        // numbers are not those of this socket.
        if self.socket() != socket || !received.take(Instant::now()) {
            return false;
        }
        // Whoever sends must look when to acknowledge.
        self.outbox.wake.notify_one();
        true
    }

    /// Where a message goes now.
    fn way(&self, routing: &Routing, message: &Bytes) -> Way {
        let protocol = self.protocol().unwrap_or(Protocol::Json);
        let belongs_there = routing.held.is_some()
            && !routing.is_frozen
            && self.calls.lock().is_part(protocol, message);
        if routing.held.is_some() && !belongs_there {
            return match routing.held_bytes >= limits::CLIENT_CALL_BYTES {
                true => Way::Wait(None),
                false => Way::Held,
            };
        }
        match routing.home.clone() {
            None => Way::Nowhere,
            Some(home) if home.room(&self.id).is_some() => Way::Wait(Some(home)),
            Some(home) => Way::Home(home),
        }
    }

    /// Gives a message to the home, or holds it while the client moves.
    fn place(&self, routing: &mut Routing, way: Way, message: Bytes) {
        match way {
            Way::Home(home) => {
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
            Way::Held => {
                routing.held_bytes += message.len();
                routing.held.get_or_insert_default().push_back(message);
            }
            Way::Wait(_) | Way::Nowhere => {}
        }
    }

    /// Moves it to another home between two messages: what was begun ends at the old
    /// one, what follows goes to the new one. False if it cannot be moved now.
    pub(crate) async fn migrate(self: &Arc<Self>, to: &Arc<dyn Home>) -> bool {
        let from = {
            let mut routing = self.routing.lock();
            let is_there = self.is_greeted.load(Ordering::Acquire) && !self.is_ending();
            let may_move = |home: &&Arc<dyn Home>| home.may_move();
            let from = routing.home.as_ref().filter(may_move).cloned();
            let (Some(from), None, true) = (from, &routing.held, is_there) else {
                return false;
            };
            routing.held = Some(VecDeque::new());
            from
        };
        self.quiesce().await;
        // A server that does not answer has said nothing for a while.
        from.pause(&self.id).await;
        self.hand_over(&from, to)
    }

    /// Its home is lost. A client that may come back is held until it is given
    /// another one; its open calls get an error. False if it cannot be held.
    pub(crate) fn hold(self: &Arc<Self>) -> bool {
        {
            let mut routing = self.routing.lock();
            let is_there = self.is_greeted.load(Ordering::Acquire) && !self.is_ending();
            if !is_there || !self.is_stateful() || routing.has_ended {
                return false;
            }
            routing.held.get_or_insert_default();
            routing.is_frozen = true;
            routing.home = None;
        }
        self.abandon("The app server was lost.");
        true
    }

    /// Gives it a home after its former one, `from`, was lost.
    pub(crate) fn settle_again(self: &Arc<Self>, from: &str, home: &Arc<dyn Home>) {
        let mut routing = self.routing.lock();
        if routing.has_ended {
            return;
        }
        let protocol = self.protocol().unwrap_or(Protocol::Json);
        let handshake = routing.handshake.clone();
        home.open(&self.arrival(protocol, handshake, Some(from.to_owned())));
        routing.home = Some(Arc::clone(home));
        self.notes_calls
            .store(home.counts_calls(), Ordering::Release);
        self.release(&mut routing);
    }

    /// Lets go of what was held, in order.
    fn release(&self, routing: &mut Routing) {
        let held = routing.held.take().unwrap_or_default();
        routing.held_bytes = 0;
        routing.is_frozen = false;
        if let Some(home) = routing.home.clone() {
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

    /// Answers open calls with an error, because nobody else will.
    fn abandon(self: &Arc<Self>, why: &str) {
        let open = self.calls.lock().abandon();
        let protocol = self.protocol().unwrap_or(Protocol::Json);
        for id in open {
            let outcome = Outcome::Error(why.to_owned());
            self.put(write::completion(protocol, &id, &outcome), true);
        }
    }

    /// Waits until no call is open at the home. Those that take too long get an
    /// error, because nobody would answer them.
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

    fn hand_over(self: &Arc<Self>, from: &Arc<dyn Home>, to: &Arc<dyn Home>) -> bool {
        let mut routing = self.routing.lock();
        // The old home may have been lost meanwhile: then others look after it.
        let is_home = routing
            .home
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
            routing.home = Some(Arc::clone(to));
            self.notes_calls.store(to.counts_calls(), Ordering::Release);
        }
        self.release(&mut routing);
        moves
    }
}
