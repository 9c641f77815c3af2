//! One client, whatever its transport and wherever its home.
//!
//! A transport brings bytes by an inlet and takes what is to be sent
//! ([`Client::outgoing`]). Whole messages go to the home, one after another; while
//! they are held, the home can be changed. A client leaves once: it is taken out of
//! its place, and its home is told.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::limits;
use steadfast_wire::signalr::message::{Outcome, kind};
use steadfast_wire::signalr::{Protocol, handshake, read, write};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::caller::Caller;
use crate::calls::Calls;
use crate::home::{Arrival, Home};
use crate::outbox::{Outbox, Put, Take};
use crate::resume::Received;

/// Where clients of one hub are known.
pub(crate) trait Place: Send + Sync {
    /// The client speaks a protocol now, and can be reached.
    fn enter(&self, client: &Arc<Client>);

    /// The client has gone for good.
    fn leave(&self, client: &Arc<Client>);
}

/// A client's connection.
pub struct Client {
    id: Arc<str>,
    caller: Arc<Caller>,
    place: Arc<dyn Place>,
    protocol: OnceLock<Protocol>,
    /// Its home has answered its handshake: from then on others may send to it.
    is_greeted: AtomicBool,
    pub(crate) outbox: Outbox,
    routing: Mutex<Routing>,
    /// What is open between client and home; only kept where somebody needs it. It is
    /// locked after the routing, and nothing is called while it is.
    calls: Mutex<Calls>,
    notes_calls: AtomicBool,
    /// Held messages were let go, or the client has ended.
    released: Notify,
    /// No call is open any more.
    settled: Notify,
    clock: Mutex<Times>,
    /// For a client that may come back: what has come from it.
    pub(crate) received: Option<Mutex<Received>>,
    /// Which of its sockets counts; the former ones are ended.
    socket: tokio::sync::watch::Sender<u64>,
    gone: CancellationToken,
}

/// Where messages of the client go.
#[derive(Default)]
struct Routing {
    home: Option<Arc<dyn Home>>,
    handshake: Bytes,
    /// Messages that wait for another home, if they do.
    held: Option<VecDeque<Bytes>>,
    held_bytes: usize,
    /// Not even what belongs to an open call goes to the old home any more.
    is_frozen: bool,
    /// It has gone for good.
    has_ended: bool,
}

struct Times {
    opened: Instant,
    heard: Instant,
    spoke: Instant,
    /// When the token ends, if the connection ends with it.
    expires: Option<Instant>,
    handshake: Duration,
}

/// What became of a message of the client.
enum Placed {
    Done,
    /// It must wait: for room at this home, or for the end of a move.
    Wait(Option<Arc<dyn Home>>),
}

/// What a transport does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// Send this: whole messages.
    Data(Bytes),
    /// Nothing follows: close.
    Over,
    /// Another socket has taken over: close this one without a word.
    Displaced,
}

/// How a client is kept alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulse {
    /// By pings, and it is expected to send some.
    Pings,
    /// By its requests.
    Requests,
}

/// What is wanted of a new client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
    /// It may come back after its socket is lost.
    pub is_stateful: bool,
    /// When it must be closed.
    pub expires: Option<Duration>,
    /// How long it may take to say which protocol it speaks.
    pub handshake: Option<Duration>,
}

impl Client {
    pub(crate) fn new(
        id: Arc<str>,
        caller: Arc<Caller>,
        place: Arc<dyn Place>,
        wishes: &Wishes,
    ) -> Arc<Self> {
        let now = Instant::now();
        let client = Self {
            id,
            caller,
            place,
            protocol: OnceLock::new(),
            is_greeted: AtomicBool::new(false),
            outbox: Outbox::default(),
            routing: Mutex::default(),
            calls: Mutex::default(),
            notes_calls: AtomicBool::new(false),
            released: Notify::new(),
            settled: Notify::new(),
            clock: Mutex::new(Times {
                opened: now,
                heard: now,
                spoke: now,
                expires: wishes.expires.map(|left| now + left),
                handshake: wishes.handshake.unwrap_or(limits::CLIENT_HANDSHAKE),
            }),
            received: wishes.is_stateful.then(Mutex::default),
            socket: tokio::sync::watch::channel(0).0,
            gone: CancellationToken::new(),
        };
        if wishes.is_stateful {
            client.outbox.keep();
        }
        Arc::new(client)
    }

    /// Its public id.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Who it is.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// The protocol that it speaks, once it has said so.
    pub fn protocol(&self) -> Option<Protocol> {
        self.protocol.get().copied()
    }

    /// Whether it may come back after its socket is lost.
    pub fn is_stateful(&self) -> bool {
        self.received.is_some()
    }

    /// The server that is its home.
    pub fn server(&self) -> Option<String> {
        let routing = self.routing.lock();
        routing.home.as_ref().map(|home| home.server().to_owned())
    }

    /// Ends when it has gone for good.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Whether it has gone for good.
    pub fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    /// Bytes that wait to be sent.
    pub fn waiting_bytes(&self) -> usize {
        self.outbox.bytes()
    }

    /// Sends a message, unless it has not begun or has ended. One who does not read
    /// is closed.
    pub fn send(self: &Arc<Self>, message: Bytes) {
        if self.is_greeted.load(Ordering::Acquire) {
            self.put(message, true);
        }
    }

    /// Sends what its home says, which begins with the answer to the handshake.
    pub(crate) fn pass(self: &Arc<Self>, message: Bytes) {
        let is_counted = match (self.is_stateful(), self.protocol()) {
            (true, Some(protocol)) => {
                read::look(protocol, &message).is_ok_and(|(own, _)| kind::is_counted(own))
            }
            _ => true,
        };
        self.note_answer(&message);
        self.put(message, is_counted);
        self.is_greeted.store(true, Ordering::Release);
    }

    /// Notes what its home has answered or asked.
    fn note_answer(&self, message: &Bytes) {
        let Some(protocol) = self.protocol() else {
            return;
        };
        let notes_calls = self.notes_calls.load(Ordering::Acquire);
        if notes_calls && self.calls.lock().note_home(protocol, message) {
            self.settled.notify_waiters();
        }
    }

    fn put(self: &Arc<Self>, message: Bytes, is_counted: bool) {
        if self.outbox.put(message, is_counted) == Put::Full {
            tracing::info!(event = "realtime.slow_client", connection = %self.id);
            self.close(Some("The client does not read what it is sent."), true);
        }
    }

    /// Waits until little waits to be sent; `None` if that is so.
    pub(crate) async fn room(&self) {
        loop {
            let made = self.outbox.room.notified();
            if self.outbox.has_room() {
                return;
            }
            tokio::select! {
                () = made => {}
                () = self.gone.cancelled() => return,
            }
        }
    }

    /// Ends it with a last word.
    pub fn close(self: &Arc<Self>, error: Option<&str>, allow_reconnect: bool) {
        let last = self.protocol().map(|own| match own {
            // What Blazor reads is MessagePack here.
            Protocol::Blazor => write::close(Protocol::MessagePack, error, allow_reconnect),
            own => write::close(own, error, allow_reconnect),
        });
        self.end(last);
    }

    /// Ends it with these bytes as the last ones.
    pub(crate) fn end(self: &Arc<Self>, last: Option<Bytes>) {
        self.outbox.end(last);
        self.released.notify_waiters();
        // Nobody would come for the last word of a client that is away. Whoever ends it
        // may hold its routing.
        if self.is_away() {
            let client = Arc::clone(self);
            tokio::spawn(async move { client.leave(None) });
        }
    }

    /// Whether the end has been said, or was reached.
    pub fn is_ending(&self) -> bool {
        self.outbox.is_ending()
    }

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
            .store(home.needs_calls(), Ordering::Release);
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

    /// Something has come from it.
    pub fn heard(&self) {
        self.clock.lock().heard = Instant::now();
    }

    /// Gives a message to the home, when that has room for it.
    pub(crate) async fn deliver(&self, message: Bytes) {
        loop {
            let released = self.released.notified();
            let home = {
                let mut routing = self.routing.lock();
                if routing.has_ended {
                    return;
                }
                match self.place(&mut routing, &message) {
                    Placed::Done => return,
                    Placed::Wait(home) => home,
                }
            };
            match home.as_ref().and_then(|home| home.room(&self.id)) {
                Some(room) => tokio::select! {
                    () = room => {}
                    () = released => {}
                    () = self.gone.cancelled() => return,
                },
                None if home.is_some() => {}
                None => tokio::select! {
                    () = released => {}
                    () = self.gone.cancelled() => return,
                },
            }
        }
    }

    /// Gives a message to the home, or holds it while the client moves.
    fn place(&self, routing: &mut Routing, message: &Bytes) -> Placed {
        let protocol = self.protocol().unwrap_or(Protocol::Json);
        let belongs_there = routing.held.is_some()
            && !routing.is_frozen
            && self.calls.lock().is_part(protocol, message);
        if let Some(held) = routing.held.as_mut().filter(|_| !belongs_there) {
            if routing.held_bytes >= limits::CLIENT_CALL_BYTES {
                return Placed::Wait(None);
            }
            routing.held_bytes += message.len();
            held.push_back(message.clone());
            return Placed::Done;
        }
        let Some(home) = routing.home.clone() else {
            return Placed::Done;
        };
        if home.room(&self.id).is_some() {
            return Placed::Wait(Some(home));
        }
        let notes_calls = self.notes_calls.load(Ordering::Acquire);
        if notes_calls && self.calls.lock().note_client(protocol, message) {
            self.settled.notify_waiters();
        }
        home.data(&self.id, message.clone());
        Placed::Done
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
        let pausing = tokio::time::timeout(limits::MOVE_PAUSE, from.pause(&self.id));
        // A server that does not know of pauses has said nothing for a while.
        let _ = pausing.await;
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
            .store(home.needs_calls(), Ordering::Release);
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
                self.calls.lock().note_client(protocol, &message);
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
        let moves = !routing.has_ended && to.takes_clients();
        if moves {
            let protocol = self.protocol().unwrap_or(Protocol::Json);
            let handshake = routing.handshake.clone();
            to.open(&self.arrival(protocol, handshake, Some(from.server().to_owned())));
            from.close(&self.id, None, Some(to.server()));
            routing.home = Some(Arc::clone(to));
            self.notes_calls.store(to.needs_calls(), Ordering::Release);
        }
        self.release(&mut routing);
        moves
    }

    /// What the transport of socket `number` sends next. It waits for it, and keeps
    /// the client alive meanwhile.
    pub async fn outgoing(self: &Arc<Self>, number: u64, pulse: Pulse) -> Outgoing {
        let mut socket = self.socket.subscribe();
        loop {
            if *socket.borrow_and_update() != number {
                return Outgoing::Displaced;
            }
            let woken = self.outbox.wake.notified();
            match self.take() {
                Take::Data(bytes) => {
                    self.clock.lock().spoke = Instant::now();
                    return Outgoing::Data(bytes);
                }
                Take::Over => return Outgoing::Over,
                Take::Nothing => {}
            }
            let next = self.next_time(pulse);
            tokio::select! {
                () = woken => {}
                _ = socket.changed() => {}
                () = tokio::time::sleep_until(next) => self.look_at_the_time(pulse),
            }
        }
    }

    /// What is to be sent now, if anything.
    pub(crate) fn take(&self) -> Take {
        self.outbox.take(self.protocol().unwrap_or(Protocol::Json))
    }

    fn next_time(&self, pulse: Pulse) -> Instant {
        let clock = self.clock.lock();
        let pings = pulse == Pulse::Pings;
        let (ping, silence) = match self.protocol.get() {
            None => (None, Some(clock.opened + clock.handshake)),
            Some(_) => (
                pings.then_some(clock.spoke + limits::CLIENT_PING),
                pings.then_some(clock.heard + limits::CLIENT_SILENCE),
            ),
        };
        let ack = self.received.as_ref().and_then(|own| own.lock().ack_at);
        let times = [ping, silence, clock.expires, ack];
        let first = times.into_iter().flatten().min();
        first.unwrap_or(clock.heard + limits::DRAIN_TIME)
    }

    /// Does what is due: pings, acknowledgements, ends.
    pub(crate) fn look_at_the_time(self: &Arc<Self>, pulse: Pulse) {
        let now = Instant::now();
        let (opened, heard, spoke, expires, handshake) = {
            let clock = self.clock.lock();
            (
                clock.opened,
                clock.heard,
                clock.spoke,
                clock.expires,
                clock.handshake,
            )
        };
        let Some(protocol) = self.protocol() else {
            if now >= opened + handshake {
                let last = handshake::refused("Handshake was canceled.");
                self.end(Some(Bytes::from(last)));
            }
            return;
        };
        if expires.is_some_and(|end| now >= end) {
            self.close(Some("The access token has expired."), true);
        }
        if pulse == Pulse::Pings && now >= heard + limits::CLIENT_SILENCE {
            tracing::info!(event = "realtime.silent_client", connection = %self.id);
            self.close(Some("Nothing was heard of the client."), false);
        }
        let due = self.received.as_ref().and_then(|own| own.lock().ack(now));
        if let Some(number) = due {
            self.put(write::ack(protocol, number), false);
        }
        if pulse == Pulse::Pings && now >= spoke + limits::CLIENT_PING {
            let ping = match protocol {
                Protocol::Blazor => write::ping(Protocol::MessagePack),
                own => write::ping(own),
            };
            self.put(ping, false);
            // It waits in the queue if it cannot be sent: one is enough.
            self.clock.lock().spoke = now;
        }
    }

    /// Ends a client whose transport cannot tell when a write takes too long: if it is
    /// silent, or does not take its last word.
    pub async fn watch(self: Arc<Self>) {
        let mut was_ending = false;
        loop {
            tokio::select! {
                () = self.gone.cancelled() => return,
                () = tokio::time::sleep(limits::CLIENT_SILENCE) => {}
            }
            let heard = self.clock.lock().heard;
            let is_silent = Instant::now() >= heard + limits::CLIENT_SILENCE;
            if is_silent || was_ending {
                return self.leave(Some("the client does not read"));
            }
            was_ending = self.is_ending();
        }
    }

    /// The socket that counts now.
    pub fn socket(&self) -> u64 {
        *self.socket.borrow()
    }

    fn is_away(&self) -> bool {
        self.received.as_ref().is_some_and(|own| own.lock().is_away)
    }

    /// A new socket of a client that may come back. The former one is ended, also if
    /// it is not known to be dead.
    pub fn resume(self: &Arc<Self>) -> Option<u64> {
        let received = self.received.as_ref()?;
        if self.is_gone() || self.is_ending() || self.protocol().is_none() {
            return None;
        }
        received.lock().back();
        self.heard();
        let home = self.routing.lock().home.clone();
        if let Some(home) = home {
            home.resumed(&self.id);
        }
        let number = self.socket() + 1;
        self.socket.send_replace(number);
        self.outbox.again();
        Some(number)
    }

    /// The socket of that number is lost. A client that may come back is waited for;
    /// another one has gone.
    pub fn lost(self: &Arc<Self>, number: u64, error: Option<&str>) {
        if number != self.socket() {
            return;
        }
        let may_return = self.protocol().is_some() && !self.is_ending();
        let Some(received) = self.received.as_ref().filter(|_| may_return) else {
            return self.leave(error);
        };
        received.lock().is_away = true;
        let client = Arc::clone(self);
        let error = error.map(str::to_owned);
        tokio::spawn(async move {
            let mut socket = client.socket.subscribe();
            let back = socket.wait_for(|own| *own != number);
            let waited = tokio::select! {
                waited = tokio::time::timeout(limits::CLIENT_RESUME, back) => waited.map(drop),
                () = client.gone.cancelled() => return,
            };
            if waited.is_err() {
                client.leave(error.as_deref());
            }
        });
    }

    /// It has gone for good; told once.
    pub fn leave(self: &Arc<Self>, error: Option<&str>) {
        let home = {
            let mut routing = self.routing.lock();
            if std::mem::replace(&mut routing.has_ended, true) {
                return;
            }
            routing.held = None;
            routing.home.take()
        };
        self.outbox.end(None);
        self.place.leave(self);
        if let Some(home) = home {
            home.close(&self.id, error, None);
        }
        self.gone.cancel();
        self.released.notify_waiters();
    }
}
