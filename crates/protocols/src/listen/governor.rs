//! What connections may hold before and after their proof.
//!
//! Every connection is admitted as unproven. Until it shows a key, a token or a
//! signature that counts, it may bring a small number of bytes, for a short time, and
//! it is one of a bounded number: when that is reached, the oldest unproven connection
//! is closed, first of the same address. So unproven connections never take the room
//! of proven ones.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use steadfast_core::limits;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::asked::Asked;

/// The bounds of all connections that share a governor.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// Connections without a proof at a time.
    pub unproven: usize,
    /// What one proven connection makes the server keep.
    pub connection_bytes: usize,
    /// What all proven connections together make the server keep.
    pub bytes: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            unproven: limits::UNPROVEN_CONNECTIONS,
            connection_bytes: limits::CONNECTION_BYTES,
            bytes: limits::CONNECTIONS_BYTES,
        }
    }
}

/// Counts the connections of all ports, and the bytes that they make the server keep.
pub struct Governor {
    caps: Caps,
    is_proxy: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    state: Mutex<State>,
    /// Bytes of unproven and of proven connections.
    unproven_bytes: AtomicUsize,
    kept_bytes: AtomicUsize,
    /// There is an unproven connection again.
    filled: Notify,
    /// The task of a connection that was closed has ended.
    left: Notify,
}

#[derive(Default)]
struct State {
    next: u64,
    /// In the order in which they came.
    unproven: BTreeMap<u64, Admission>,
    addresses: HashMap<IpAddr, BTreeSet<u64>>,
    proven: HashMap<u64, Admission>,
    /// Connections that were closed before their proof and whose tasks have yet to end.
    leaving: usize,
    /// Connections that were closed to make room, since the start.
    closed: u64,
}

impl Default for Governor {
    fn default() -> Self {
        Self::new(Caps::default(), |_| false)
    }
}

impl Governor {
    /// Many clients may come from an address that `is_proxy`: it has no bound of its own.
    pub fn new(caps: Caps, is_proxy: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self {
            caps,
            is_proxy: Box::new(is_proxy),
            state: Mutex::default(),
            unproven_bytes: AtomicUsize::new(0),
            kept_bytes: AtomicUsize::new(0),
            filled: Notify::new(),
            left: Notify::new(),
        }
    }

    /// The bounds.
    pub fn caps(&self) -> Caps {
        self.caps
    }

    /// Takes a connection in, unproven. If there are too many, the oldest one is closed.
    pub fn admit(self: &Arc<Self>, peer: IpAddr, port: u16) -> Admission {
        let address = network(peer);
        let most_of_one = match (self.is_proxy)(peer) {
            true => self.caps.unproven,
            false => (self.caps.unproven / limits::UNPROVEN_ADDRESSES).max(1),
        };
        let mut state = self.state.lock();
        let same = state.addresses.get(&address);
        let oldest = match same.filter(|same| same.len() >= most_of_one) {
            Some(same) => same.first().copied(),
            None if state.unproven.len() >= self.caps.unproven => state.oldest_of_largest(),
            None => None,
        };
        if let Some(oldest) = oldest {
            state.close(oldest, Cause::Displaced);
        }
        state.next += 1;
        let number = state.next;
        let admission = Admission::new(Arc::clone(self), number, address, port);
        state.unproven.insert(number, admission.clone());
        state.addresses.entry(address).or_default().insert(number);
        let is_first = state.unproven.len() == 1;
        drop(state);
        let _ = admission.hold(limits::CONNECTION_UNPROVEN_BYTES);
        if is_first {
            self.filled.notify_waiters();
        }
        admission
    }

    /// Closes the oldest unproven connection of a port that is full.
    pub(super) fn displace(&self, port: u16) {
        let mut state = self.state.lock();
        let mut all = state.unproven.iter();
        let oldest = all.find(|(_, own)| own.port() == port);
        if let Some(oldest) = oldest.map(|(number, _)| *number) {
            state.close(oldest, Cause::Displaced);
        }
    }

    /// Counts how many connections have shown no proof yet.
    pub fn unproven(&self) -> usize {
        self.state.lock().unproven.len()
    }

    /// Closes connections whose time for a proof is over; it never ends.
    pub async fn expire(&self) {
        loop {
            let filled = self.filled.notified();
            let oldest = {
                let state = self.state.lock();
                state.unproven.values().next().map(Admission::end)
            };
            match oldest {
                Some(end) => tokio::time::sleep_until(end).await,
                None => filled.await,
            }
            self.close_late(Instant::now());
        }
    }

    fn close_late(&self, now: Instant) {
        let mut state = self.state.lock();
        while let Some((number, oldest)) = state.unproven.first_key_value()
            && oldest.end() <= now
        {
            let number = *number;
            state.close(number, Cause::Late);
        }
    }

    fn proven(&self, admission: &Admission) {
        let mut state = self.state.lock();
        if let Some(own) = state.take(admission.number()) {
            state.proven.insert(admission.number(), own);
        }
    }

    /// Waits until the memory of few connections is on its way back. Under an attack new
    /// ones come faster than the tasks of closed ones end.
    pub(super) async fn emptied(&self) {
        loop {
            let left = self.left.notified();
            if self.state.lock().leaving < limits::LEAVING_CONNECTIONS {
                return;
            }
            left.await;
        }
    }

    /// The task of a connection has ended.
    fn end(&self, admission: &Admission) {
        let mut state = self.state.lock();
        if admission.0.is_leaving.swap(false, Ordering::SeqCst) {
            state.leaving -= 1;
            drop(state);
            self.left.notify_waiters();
        }
    }

    /// A connection is gone.
    fn leave(&self, admission: &Admission) {
        let mut state = self.state.lock();
        state.take(admission.number());
        state.proven.remove(&admission.number());
    }

    /// Closes the connection that holds most, of those that a ledger counts.
    fn close_largest(&self, ledger: Ledger) {
        let mut state = self.state.lock();
        let largest = match ledger {
            Ledger::Unproven => largest(state.unproven.values(), ledger),
            Ledger::Proven => largest(state.proven.values(), ledger),
        };
        if let Some(number) = largest {
            state.close(number, Cause::Memory);
        }
    }
}

impl State {
    /// Takes an unproven connection out of the count.
    fn take(&mut self, number: u64) -> Option<Admission> {
        let own = self.unproven.remove(&number)?;
        if let Some(same) = self.addresses.get_mut(&own.address()) {
            same.remove(&number);
            if same.is_empty() {
                self.addresses.remove(&own.address());
            }
        }
        Some(own)
    }

    /// The oldest unproven connection of the address that has most of them.
    fn oldest_of_largest(&self) -> Option<u64> {
        let largest = self.addresses.values().max_by_key(|same| same.len());
        largest.and_then(|same| same.first().copied())
    }

    fn close(&mut self, number: u64, cause: Cause) {
        let own = match self.take(number) {
            Some(own) => {
                self.leaving += 1;
                own.0.is_leaving.store(true, Ordering::SeqCst);
                Some(own)
            }
            None => self.proven.remove(&number),
        };
        let Some(own) = own else { return };
        own.close(cause);
        // Its memory is on its way back: it must not cost another one its place.
        own.settle();
        self.closed += 1;
        // An attack lasts, so not every connection is worth a line.
        if self.closed.is_power_of_two() {
            let (address, closed) = (own.address(), self.closed);
            tracing::warn!(event = "listen.closed", %address, ?cause, closed);
        }
    }
}

/// Unproven connections that differ by less are of one size; the oldest of them is closed.
const UNPROVEN_STEP: usize = 32 * 1024;

fn largest<'a>(all: impl Iterator<Item = &'a Admission>, ledger: Ledger) -> Option<u64> {
    // A newcomer is not closed for a few bytes more than others.
    let step = match ledger {
        Ledger::Unproven => UNPROVEN_STEP,
        Ledger::Proven => 1,
    };
    let all = all.filter(|own| own.bytes(ledger) > 0);
    let largest = all.max_by_key(|own| (own.bytes(ledger) / step, Reverse(own.number())));
    largest.map(Admission::number)
}

/// What counts as one address: of IPv6 the network that one subscriber has.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}

tokio::task_local! {
    /// The connection that the current task serves.
    static CURRENT: Admission;
}

/// The connection that the current task serves, if it has one.
pub fn current() -> Option<Admission> {
    CURRENT.try_with(Clone::clone).ok()
}

/// The connection that the current task serves has shown a proof that counts.
pub fn proven() {
    let _ = CURRENT.try_with(Admission::proven);
}

/// Why a governor closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Another one needed its place before it was proven.
    Displaced,
    /// It has shown no proof in time.
    Late,
    /// It held most when all together held too much.
    Memory,
    /// It cancelled too many requests before its proof.
    Cancelled,
}

/// A connection may not hold more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

/// Which connections are counted together.
#[derive(Clone, Copy, Debug)]
enum Ledger {
    Unproven,
    Proven,
}

/// One connection among those of a governor. Clones are the same connection.
#[derive(Clone)]
pub struct Admission(Arc<Inner>);

struct Inner {
    governor: Arc<Governor>,
    number: u64,
    address: IpAddr,
    port: u16,
    began: Instant,
    is_proven: AtomicBool,
    /// Whether what it brings counts.
    is_metered: AtomicBool,
    /// Bytes that it brought before its proof, and makes the server keep.
    brought: AtomicUsize,
    /// What it asked for over HTTP, if nothing else counts what it brings.
    asked: Mutex<Asked>,
    /// How often its task was polled.
    turns: AtomicUsize,
    /// Bytes that it makes the server keep after it.
    kept: AtomicUsize,
    is_gone: AtomicBool,
    cause: OnceLock<Cause>,
    closed: CancellationToken,
    shown: CancellationToken,
    /// Waits to read: for the proof, or for the end.
    reader: AtomicWaker,
    /// Whether its task has yet to end, although it was closed before its proof.
    is_leaving: AtomicBool,
}

impl Admission {
    fn new(governor: Arc<Governor>, number: u64, address: IpAddr, port: u16) -> Self {
        Self(Arc::new(Inner {
            governor,
            number,
            address,
            port,
            began: Instant::now(),
            is_proven: AtomicBool::new(false),
            is_metered: AtomicBool::new(true),
            brought: AtomicUsize::new(0),
            asked: Mutex::default(),
            turns: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
            is_gone: AtomicBool::new(false),
            cause: OnceLock::new(),
            closed: CancellationToken::new(),
            shown: CancellationToken::new(),
            reader: AtomicWaker::new(),
            is_leaving: AtomicBool::new(false),
        }))
    }

    fn number(&self) -> u64 {
        self.0.number
    }

    fn address(&self) -> IpAddr {
        self.0.address
    }

    fn port(&self) -> u16 {
        self.0.port
    }

    /// Bytes that count in a ledger at present.
    fn bytes(&self, ledger: Ledger) -> usize {
        let own = match ledger {
            Ledger::Unproven => &self.0.brought,
            Ledger::Proven => &self.0.kept,
        };
        own.load(Ordering::SeqCst)
    }

    /// Nothing counts any more.
    fn settle(&self) {
        let governor = &self.0.governor;
        let brought = self.0.brought.swap(0, Ordering::SeqCst);
        governor.unproven_bytes.fetch_sub(brought, Ordering::SeqCst);
        let kept = self.0.kept.swap(0, Ordering::SeqCst);
        governor.kept_bytes.fetch_sub(kept, Ordering::SeqCst);
    }

    /// When a proof is due. Until then a protocol may say why it ends a connection.
    pub fn due(&self) -> Instant {
        self.0.began + limits::PROOF_TIME
    }

    /// When it is closed without a proof.
    fn end(&self) -> Instant {
        self.due() + limits::PROOF_GRACE
    }

    /// It has shown a proof that counts.
    pub fn proven(&self) {
        if self.0.is_proven.swap(true, Ordering::SeqCst) {
            return;
        }
        let brought = self.0.brought.swap(0, Ordering::SeqCst);
        let all = &self.0.governor.unproven_bytes;
        all.fetch_sub(brought, Ordering::SeqCst);
        self.0.governor.proven(self);
        self.0.shown.cancel();
        self.0.reader.wake();
    }

    /// Waits for its proof.
    pub async fn shown(&self) {
        self.0.shown.cancelled().await;
    }

    /// Whether it has shown a proof.
    pub fn is_proven(&self) -> bool {
        self.0.is_proven.load(Ordering::SeqCst)
    }

    /// It has brought bytes. They count until its proof; those of HTTP until the requests
    /// are answered that they belong to.
    pub fn charge(&self, bytes: usize) -> Result<(), Exhausted> {
        if self.is_proven() {
            return Ok(());
        }
        if self.is_metered() {
            return self.hold(bytes);
        }
        let mut asked = self.0.asked.lock();
        let counted = asked.read(bytes);
        self.hold(counted)
    }

    /// A request of HTTP waits for its answer; it counts with its head until then.
    pub fn wait(&self, head: usize) -> WaitingRequest {
        let bytes = limits::REQUEST_UNPROVEN_BYTES + head;
        let mut asked = self.0.asked.lock();
        let head = asked.wait(bytes);
        let _ = self.hold(bytes);
        self.release(head);
        WaitingRequest {
            admission: self.clone(),
            bytes,
            is_answered: false,
        }
    }

    /// It makes the server keep bytes. They count until they are released, or until its
    /// proof.
    pub fn hold(&self, bytes: usize) -> Result<(), Exhausted> {
        let is_over = self.0.is_gone.load(Ordering::SeqCst) || self.closed_for().is_some();
        if self.is_proven() || is_over {
            return Ok(());
        }
        // The sum first: what is taken from it later was added to it.
        let all = &self.0.governor.unproven_bytes;
        let all_bytes = all.fetch_add(bytes, Ordering::SeqCst) + bytes;
        let own = self.0.brought.fetch_add(bytes, Ordering::SeqCst) + bytes;
        // The proof may have come between the two.
        if self.is_proven() {
            let late = self.0.brought.swap(0, Ordering::SeqCst);
            all.fetch_sub(late, Ordering::SeqCst);
            return Ok(());
        }
        if all_bytes > limits::UNPROVEN_ALL_BYTES {
            self.0.governor.close_largest(Ledger::Unproven);
        }
        match own > limits::UNPROVEN_BYTES {
            true => Err(Exhausted),
            false => Ok(()),
        }
    }

    /// The server keeps bytes no longer that it held.
    pub fn release(&self, bytes: usize) {
        if self.is_proven() {
            return;
        }
        let less = |own: usize| Some(own.saturating_sub(bytes));
        let before = self
            .0
            .brought
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        // What was settled in between counts no more.
        let released = before.unwrap_or_default().min(bytes);
        let all = &self.0.governor.unproven_bytes;
        all.fetch_sub(released, Ordering::SeqCst);
        self.0.reader.wake();
    }

    /// Says whether all that it brings before its proof counts. HTTP refuses a request
    /// before it reads the body, which is dropped.
    pub fn meter(&self, is_metered: bool) {
        self.0.is_metered.store(is_metered, Ordering::SeqCst);
    }

    fn is_metered(&self) -> bool {
        self.0.is_metered.load(Ordering::SeqCst)
    }

    /// How much of it may be read at once. Requests count when they were read.
    pub(super) fn most_read(&self) -> usize {
        match self.is_proven() || self.is_metered() {
            true => usize::MAX,
            false => limits::HTTP_UNPROVEN_READ_BYTES,
        }
    }

    /// Whether it has brought all that it may before its proof, or until its requests
    /// are answered. What answers take counts for the sum of all only: a client that
    /// reads a long one must be heard.
    pub fn is_exhausted(&self) -> bool {
        if self.is_proven() {
            return false;
        }
        let bytes = match self.is_metered() {
            true => self.bytes(Ledger::Unproven),
            false => self.0.asked.lock().bytes(),
        };
        bytes >= limits::UNPROVEN_BYTES
    }

    /// Its task is polled. Before its proof it is read once in each turn.
    pub(super) fn begin_turn(&self) {
        self.0.turns.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn turn(&self) -> usize {
        self.0.turns.load(Ordering::Relaxed)
    }

    /// So many bytes it makes the server keep now, after its proof. If all connections
    /// keep too much, the largest is closed.
    pub fn keep(&self, bytes: usize) -> Result<(), Exhausted> {
        let is_over = self.0.is_gone.load(Ordering::SeqCst) || self.closed_for().is_some();
        if !self.is_proven() || is_over {
            return Ok(());
        }
        let governor = &self.0.governor;
        // The sum first: what is taken from it was added to it.
        governor.kept_bytes.fetch_add(bytes, Ordering::SeqCst);
        let before = self.0.kept.swap(bytes, Ordering::SeqCst);
        let all = governor.kept_bytes.fetch_sub(before, Ordering::SeqCst) - before;
        let caps = governor.caps();
        if bytes > before && all > caps.bytes {
            governor.close_largest(Ledger::Proven);
        }
        match bytes > caps.connection_bytes {
            true => Err(Exhausted),
            false => Ok(()),
        }
    }

    /// Whether all connections together are near to what they may keep: those that wait
    /// for something of their own should not bring more.
    pub fn is_crowded(&self) -> bool {
        let governor = &self.0.governor;
        governor.kept_bytes.load(Ordering::SeqCst) > governor.caps.bytes / 4 * 3
    }

    fn close(&self, cause: Cause) {
        let _ = self.0.cause.set(cause);
        self.0.closed.cancel();
        self.0.reader.wake();
    }

    /// Why the governor closes it, if it does.
    pub fn closed_for(&self) -> Option<Cause> {
        self.0.cause.get().copied()
    }

    /// Waits until the governor closes it.
    pub async fn closed(&self) {
        self.0.closed.cancelled().await;
    }

    /// Whether nothing more is read: it was closed without a proof.
    pub(super) fn is_ended(&self) -> bool {
        self.closed_for().is_some() && !self.is_proven()
    }

    /// Waits until nothing more is done for it. After its proof a protocol has time to
    /// say why.
    pub(super) async fn over(&self) {
        self.closed().await;
        if self.is_proven() {
            tokio::time::sleep(limits::PROOF_GRACE).await;
        }
    }

    /// Wakes a reader at the proof, and when the governor closes the connection.
    pub(super) fn wake_reader(&self, waker: &Waker) {
        self.0.reader.register(waker);
    }

    /// Serves the connection: what verifies a proof in it proves the connection.
    pub async fn serve<F: Future>(self, work: F) -> F::Output {
        CURRENT.scope(self, work).await
    }

    /// Counts its task until the value is dropped.
    pub(super) fn task(&self) -> ConnectionTask {
        ConnectionTask(self.clone())
    }

    /// The connection is gone.
    pub(super) fn leave(&self) {
        self.0.is_gone.store(true, Ordering::SeqCst);
        self.0.governor.leave(self);
        self.settle();
    }
}

/// The task that serves a connection.
pub(super) struct ConnectionTask(Admission);

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.0.governor.end(&self.0);
    }
}

/// A request of HTTP that waits for its answer.
pub struct WaitingRequest {
    admission: Admission,
    bytes: usize,
    is_answered: bool,
}

impl WaitingRequest {
    /// It has its answer. One that is dropped without was cancelled.
    pub fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        let mut asked = self.admission.0.asked.lock();
        self.admission.release(asked.end(self.bytes));
        if self.is_answered || self.admission.is_proven() {
            return;
        }
        if asked.cancel() {
            let governor = &self.admission.0.governor;
            let mut state = governor.state.lock();
            state.close(self.admission.number(), Cause::Cancelled);
        }
    }
}

#[cfg(test)]
mod tests;
