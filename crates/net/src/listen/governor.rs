//! Memory limits of connections before and after their proof.
//!
//! Every connection is admitted as unproven. Until it presents a valid key, token or
//! signature, it may send a small number of bytes, for a short time. The number of
//! unproven connections is bounded: at the limit the oldest one is closed, first of the
//! same address. So unproven connections never take the room of proven ones.

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

use super::pending_requests::PendingRequests;

/// The limits of all connections that share a governor.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// Maximum number of concurrent unproven connections.
    pub unproven: usize,
    /// Memory of one proven connection, in bytes.
    pub connection_bytes: usize,
    /// Memory of all proven connections together, in bytes.
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

/// Counts the connections of all ports, and the memory they hold.
pub struct Governor {
    caps: Caps,
    is_proxy: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    state: Mutex<State>,
    /// Bytes of unproven and of proven connections.
    unproven_bytes: AtomicUsize,
    kept_bytes: AtomicUsize,
    /// An unproven connection was admitted after there was none.
    filled: Notify,
    /// The task of a connection that was closed has ended.
    left: Notify,
}

#[derive(Default)]
struct State {
    next: u64,
    /// In order of arrival.
    unproven: BTreeMap<u64, Admission>,
    addresses: HashMap<IpAddr, BTreeSet<u64>>,
    proven: HashMap<u64, Admission>,
    /// Unproven connections that were closed and whose tasks still run.
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
    /// An address that `is_proxy` carries many clients, so it has no limit of its own.
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

    /// The limits.
    pub fn caps(&self) -> Caps {
        self.caps
    }

    /// Admits a connection as unproven. If there are too many, the oldest one is closed.
    pub fn admit(self: &Arc<Self>, peer: IpAddr, port: u16) -> Admission {
        let address = network(peer);
        let most_of_one = if (self.is_proxy)(peer) {
            self.caps.unproven
        } else {
            (self.caps.unproven / limits::UNPROVEN_ADDRESSES).max(1)
        };
        let mut state = self.state.lock();
        let same = state.addresses.get(&address);
        let oldest = match same.filter(|same| same.len() >= most_of_one) {
            Some(same) => same.first().copied(),
            None if state.unproven.len() >= self.caps.unproven => state.oldest_of_largest(),
            None => None,
        };
        if let Some(oldest) = oldest {
            state.close(oldest, CloseCause::Displaced);
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
            state.close(oldest, CloseCause::Displaced);
        }
    }

    /// Counts how many connections have shown no proof yet.
    pub fn unproven(&self) -> usize {
        self.state.lock().unproven.len()
    }

    /// Closes connections that miss the deadline of their proof; never returns.
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
            state.close(number, CloseCause::Late);
        }
    }

    fn mark_proven(&self, admission: &Admission) {
        let mut state = self.state.lock();
        if let Some(own) = state.take(admission.number()) {
            state.proven.insert(admission.number(), own);
        }
    }

    /// Waits until few closed connections still hold memory. Under an attack new ones arrive
    /// faster than the tasks of closed ones end.
    pub(super) async fn wait_for_capacity(&self) {
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

    /// A connection has closed.
    fn leave(&self, admission: &Admission) {
        let mut state = self.state.lock();
        state.take(admission.number());
        state.proven.remove(&admission.number());
    }

    /// Closes the connection of a class that holds the most memory.
    fn close_largest(&self, ledger: ConnectionClass) {
        let mut state = self.state.lock();
        let largest = match ledger {
            ConnectionClass::Unproven => largest(state.unproven.values(), ledger),
            ConnectionClass::Proven => largest(state.proven.values(), ledger),
        };
        if let Some(number) = largest {
            state.close(number, CloseCause::Memory);
        }
    }
}

impl State {
    /// Removes an unproven connection from the count.
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

    /// The oldest unproven connection of the address that has the most of them.
    fn oldest_of_largest(&self) -> Option<u64> {
        let largest = self.addresses.values().max_by_key(|same| same.len());
        largest.and_then(|same| same.first().copied())
    }

    fn close(&mut self, number: u64, cause: CloseCause) {
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
        // Its memory is about to be freed: it must not displace another connection.
        own.settle();
        self.closed += 1;
        // An attack lasts, so only some of the connections are logged.
        if self.closed.is_power_of_two() {
            let (address, closed) = (own.address(), self.closed);
            tracing::warn!(event = "listen.closed", %address, ?cause, closed);
        }
    }
}

/// Unproven connections that differ by less count as equal; the oldest of them is closed.
const UNPROVEN_STEP: usize = 32 * 1024;

fn largest<'a>(all: impl Iterator<Item = &'a Admission>, ledger: ConnectionClass) -> Option<u64> {
    // A new connection is not closed for a few bytes more than others.
    let step = match ledger {
        ConnectionClass::Unproven => UNPROVEN_STEP,
        ConnectionClass::Proven => 1,
    };
    let all = all.filter(|own| own.bytes(ledger) > 0);
    let largest = all.max_by_key(|own| (own.bytes(ledger) / step, Reverse(own.number())));
    largest.map(Admission::number)
}

/// The unit of counting: an IPv4 address, or the IPv6 network of one subscriber.
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

/// Marks the connection that the current task serves as proven.
pub fn proven() {
    let _ = CURRENT.try_with(Admission::mark_proven);
}

/// Why a governor closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseCause {
    /// Displaced by another connection before its proof.
    Displaced,
    /// No proof before the deadline.
    Late,
    /// It held the most memory when all connections together exceeded the limit.
    Memory,
    /// Too many cancelled requests before its proof.
    Cancelled,
}

/// The connection has reached its memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimitError;

/// Which connections are counted together.
#[derive(Clone, Copy, Debug)]
enum ConnectionClass {
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
    /// Whether the bytes it sends count.
    is_metered: AtomicBool,
    /// Bytes it sent before its proof, and memory it holds.
    brought: AtomicUsize,
    /// Its pending HTTP requests, if nothing else counts what it sends.
    pending: Mutex<PendingRequests>,
    /// How often its task was polled.
    turns: AtomicUsize,
    /// Memory it holds after its proof, in bytes.
    kept: AtomicUsize,
    is_gone: AtomicBool,
    cause: OnceLock<CloseCause>,
    closed: CancellationToken,
    shown: CancellationToken,
    /// Wakes the reader at the proof, or at the end.
    reader: AtomicWaker,
    /// Whether it was closed before its proof and its task still runs.
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
            pending: Mutex::default(),
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

    /// Bytes that count in a class at present.
    fn bytes(&self, ledger: ConnectionClass) -> usize {
        let own = match ledger {
            ConnectionClass::Unproven => &self.0.brought,
            ConnectionClass::Proven => &self.0.kept,
        };
        own.load(Ordering::SeqCst)
    }

    /// Removes all its bytes from the sums.
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

    /// Marks it as proven.
    pub fn mark_proven(&self) {
        if self.0.is_proven.swap(true, Ordering::SeqCst) {
            return;
        }
        let brought = self.0.brought.swap(0, Ordering::SeqCst);
        let all = &self.0.governor.unproven_bytes;
        all.fetch_sub(brought, Ordering::SeqCst);
        self.0.governor.mark_proven(self);
        self.0.shown.cancel();
        self.0.reader.wake();
    }

    /// Waits for its proof.
    pub async fn wait_for_proof(&self) {
        self.0.shown.cancelled().await;
    }

    /// Whether it has shown a proof.
    pub fn is_proven(&self) -> bool {
        self.0.is_proven.load(Ordering::SeqCst)
    }

    /// Charges bytes that it sent. They count until its proof; those of HTTP until their
    /// requests are answered.
    pub fn charge(&self, bytes: usize) -> Result<(), ConnectionLimitError> {
        if self.is_proven() {
            return Ok(());
        }
        if self.is_metered() {
            return self.hold(bytes);
        }
        let mut asked = self.0.pending.lock();
        let counted = asked.read(bytes);
        self.hold(counted)
    }

    /// Counts a pending HTTP request with its head until its response.
    pub fn wait(&self, head: usize) -> WaitingRequest {
        let bytes = limits::REQUEST_UNPROVEN_BYTES + head;
        let mut asked = self.0.pending.lock();
        let head = asked.wait(bytes);
        let _ = self.hold(bytes);
        self.release(head);
        WaitingRequest {
            admission: self.clone(),
            bytes,
            is_answered: false,
        }
    }

    /// Charges memory that it holds. It counts until it is released, or until its proof.
    pub fn hold(&self, bytes: usize) -> Result<(), ConnectionLimitError> {
        let is_over = self.0.is_gone.load(Ordering::SeqCst) || self.closed_for().is_some();
        if self.is_proven() || is_over {
            return Ok(());
        }
        // Add to the sum first, so that a later subtraction never underflows.
        let all = &self.0.governor.unproven_bytes;
        let all_bytes = all.fetch_add(bytes, Ordering::SeqCst) + bytes;
        let own = self.0.brought.fetch_add(bytes, Ordering::SeqCst) + bytes;
        // The proof may have arrived between the two.
        if self.is_proven() {
            let late = self.0.brought.swap(0, Ordering::SeqCst);
            all.fetch_sub(late, Ordering::SeqCst);
            return Ok(());
        }
        if all_bytes > limits::UNPROVEN_ALL_BYTES {
            self.0.governor.close_largest(ConnectionClass::Unproven);
        }
        if own > limits::UNPROVEN_BYTES {
            Err(ConnectionLimitError)
        } else {
            Ok(())
        }
    }

    /// Releases memory that it held.
    pub fn release(&self, bytes: usize) {
        if self.is_proven() {
            return;
        }
        let less = |own: usize| Some(own.saturating_sub(bytes));
        let before = self
            .0
            .brought
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        // Bytes that were settled in between count no more.
        let released = before.unwrap_or_default().min(bytes);
        let all = &self.0.governor.unproven_bytes;
        all.fetch_sub(released, Ordering::SeqCst);
        self.0.reader.wake();
    }

    /// Sets whether everything it sends before its proof counts. HTTP rejects a request
    /// before it reads the body, which is dropped.
    pub fn meter(&self, is_metered: bool) {
        self.0.is_metered.store(is_metered, Ordering::SeqCst);
    }

    fn is_metered(&self) -> bool {
        self.0.is_metered.load(Ordering::SeqCst)
    }

    /// How many bytes may be read at once. Requests count after they were read.
    pub(super) fn most_read(&self) -> usize {
        if self.is_proven() || self.is_metered() {
            usize::MAX
        } else {
            limits::HTTP_UNPROVEN_READ_BYTES
        }
    }

    /// Whether it has used its budget before its proof, or until its requests are answered.
    /// Responses count for the sum of all connections only: a client that reads a long one
    /// must still be read.
    pub fn is_exhausted(&self) -> bool {
        if self.is_proven() {
            return false;
        }
        let bytes = if self.is_metered() {
            self.bytes(ConnectionClass::Unproven)
        } else {
            self.0.pending.lock().bytes()
        };
        bytes >= limits::UNPROVEN_BYTES
    }

    /// Its task is polled. Before its proof it is read once per turn.
    pub(super) fn begin_turn(&self) {
        self.0.turns.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn turn(&self) -> usize {
        self.0.turns.load(Ordering::Relaxed)
    }

    /// Sets the memory it holds now, after its proof. If all connections together exceed
    /// the limit, the largest is closed.
    pub fn keep(&self, bytes: usize) -> Result<(), ConnectionLimitError> {
        let is_over = self.0.is_gone.load(Ordering::SeqCst) || self.closed_for().is_some();
        if !self.is_proven() || is_over {
            return Ok(());
        }
        let governor = &self.0.governor;
        // Add to the sum first, so that the subtraction never underflows.
        governor.kept_bytes.fetch_add(bytes, Ordering::SeqCst);
        let before = self.0.kept.swap(bytes, Ordering::SeqCst);
        let all = governor.kept_bytes.fetch_sub(before, Ordering::SeqCst) - before;
        let caps = governor.caps();
        if bytes > before && all > caps.bytes {
            governor.close_largest(ConnectionClass::Proven);
        }
        if bytes > caps.connection_bytes {
            Err(ConnectionLimitError)
        } else {
            Ok(())
        }
    }

    /// Whether all connections together are near their memory limit: backpressure for
    /// connections that wait for something of their own.
    pub fn is_crowded(&self) -> bool {
        let governor = &self.0.governor;
        governor.kept_bytes.load(Ordering::SeqCst) > governor.caps.bytes / 4 * 3
    }

    fn close(&self, cause: CloseCause) {
        let _ = self.0.cause.set(cause);
        self.0.closed.cancel();
        self.0.reader.wake();
    }

    /// Why the governor closed it, if it did.
    pub fn closed_for(&self) -> Option<CloseCause> {
        self.0.cause.get().copied()
    }

    /// Waits until the governor closes it.
    pub async fn closed(&self) {
        self.0.closed.cancelled().await;
    }

    /// Whether it was closed without a proof: nothing more is read.
    pub(super) fn is_ended(&self) -> bool {
        self.closed_for().is_some() && !self.is_proven()
    }

    /// Waits until it is cut off. After its proof the protocol has a grace period to report
    /// the reason.
    pub(super) async fn wait_until_over(&self) {
        self.closed().await;
        if self.is_proven() {
            tokio::time::sleep(limits::PROOF_GRACE).await;
        }
    }

    /// Wakes a reader at the proof, and when the governor closes the connection.
    pub(super) fn wake_reader(&self, waker: &Waker) {
        self.0.reader.register(waker);
    }

    /// Runs `work` for the connection: a proof that is verified in it proves the connection.
    pub async fn serve<F: Future>(self, work: F) -> F::Output {
        CURRENT.scope(self, work).await
    }

    /// Counts its task until the value is dropped.
    pub(super) fn task(&self) -> ConnectionTask {
        ConnectionTask(self.clone())
    }

    /// The connection has closed.
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

/// An HTTP request that waits for its response.
pub struct WaitingRequest {
    admission: Admission,
    bytes: usize,
    is_answered: bool,
}

impl WaitingRequest {
    /// It has its response. A request that is dropped before that counts as cancelled.
    pub fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        let mut asked = self.admission.0.pending.lock();
        self.admission.release(asked.end(self.bytes));
        if self.is_answered || self.admission.is_proven() {
            return;
        }
        if asked.cancel() {
            let governor = &self.admission.0.governor;
            let mut state = governor.state.lock();
            state.close(self.admission.number(), CloseCause::Cancelled);
        }
    }
}

#[cfg(test)]
mod tests;
