//! Writes messages of an app server to its service link.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use steadfast_core::limits;
use steadfast_wire::signalr::service::{Message, write};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};

/// The app server's end of a link.
pub(crate) struct LinkWriter {
    out: Mutex<WriterBuffer>,
    wake: Notify,
    room: Notify,
    acks: Mutex<HashMap<i64, oneshot::Sender<i64>>>,
    next_ack: AtomicI64,
    welcome: Mutex<Option<oneshot::Sender<std::result::Result<(), String>>>>,
    finack: Notify,
    is_acknowledged: AtomicBool,
    /// The service prefers sends on other links.
    is_avoided: AtomicBool,
    heard: Mutex<Instant>,
}

#[derive(Default)]
struct WriterBuffer {
    bytes: BytesMut,
    is_ending: bool,
}

/// Response time-out of the service.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

impl LinkWriter {
    pub(crate) fn new() -> Self {
        Self {
            out: Mutex::default(),
            wake: Notify::new(),
            room: Notify::new(),
            acks: Mutex::default(),
            next_ack: AtomicI64::new(1),
            welcome: Mutex::new(None),
            finack: Notify::new(),
            is_acknowledged: AtomicBool::new(false),
            is_avoided: AtomicBool::new(false),
            heard: Mutex::new(Instant::now()),
        }
    }

    /// Notes activity of the service.
    pub(crate) fn heard(&self) {
        *self.heard.lock() = Instant::now();
    }

    /// Queues a message.
    pub(crate) fn tell(&self, message: &Message) {
        let mut out = self.out.lock();
        if !out.is_ending {
            out.bytes.extend_from_slice(&write(message));
        }
        drop(out);
        self.wake.notify_one();
    }

    /// Ends the outgoing stream.
    pub(crate) fn end(&self) {
        self.out.lock().is_ending = true;
        self.wake.notify_one();
        self.room.notify_waiters();
        self.acks.lock().clear();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.out.lock().is_ending
    }

    /// Marks the link to be avoided for sends, as the service has asked.
    pub(crate) fn avoid(&self) {
        self.is_avoided.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_avoided(&self) -> bool {
        self.is_avoided.load(Ordering::SeqCst)
    }

    /// The next bytes to send; `None` at the end, or if the service is silent.
    pub(crate) async fn outgoing(&self) -> Option<Bytes> {
        loop {
            let woken = self.wake.notified();
            {
                let mut out = self.out.lock();
                if !out.bytes.is_empty() {
                    let bytes = out.bytes.split().freeze();
                    drop(out);
                    self.room.notify_waiters();
                    return Some(bytes);
                }
                if out.is_ending {
                    return None;
                }
            }
            let silence = *self.heard.lock() + limits::SERVER_SILENCE;
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep_until(silence) => {
                    if Instant::now() >= *self.heard.lock() + limits::SERVER_SILENCE {
                        return None;
                    }
                }
            }
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        let out = self.out.lock();
        out.bytes.len() > limits::SERVER_ROOM_BYTES && !out.is_ending
    }

    /// Waits until the queue has room.
    pub(crate) async fn wait(&self) {
        loop {
            let made = self.room.notified();
            if !self.is_full() {
                return;
            }
            made.await;
        }
    }

    /// Sends a message and waits for its acknowledgement.
    pub(crate) async fn ask(&self, make: impl FnOnce(i64) -> Message) -> Result<i64> {
        let id = self.next_ack.fetch_add(1, Ordering::Relaxed);
        let (said, waiting) = oneshot::channel();
        self.acks.lock().insert(id, said);
        self.tell(&make(id));
        let answer = tokio::time::timeout(PATIENCE, waiting).await;
        self.acks.lock().remove(&id);
        let lost = || Error::new(ErrorKind::Lost("it does not answer".to_owned()));
        answer.map_err(|_| lost())?.map_err(|_| lost())
    }

    /// Handles an acknowledgement.
    pub(crate) fn acknowledged(&self, id: i64, status: i64) {
        if let Some(said) = self.acks.lock().remove(&id) {
            let _ = said.send(status);
        }
    }

    /// Sends the handshake and waits until the service has accepted it.
    pub(crate) async fn greet(&self, greeting: &Message) -> Result<()> {
        let (said, welcome) = oneshot::channel();
        *self.welcome.lock() = Some(said);
        self.tell(greeting);
        let lost = |why: &str| Error::new(ErrorKind::Lost(why.to_owned()));
        match tokio::time::timeout(PATIENCE, welcome).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(why))) => Err(lost(&why)),
            Ok(Err(_)) => Err(lost("the link has ended")),
            Err(_) => Err(lost("it does not answer")),
        }
    }

    /// The service has accepted or rejected the server.
    pub(crate) fn welcomed(&self, error: String) {
        if let Some(said) = self.welcome.lock().take() {
            let _ = said.send(if error.is_empty() { Ok(()) } else { Err(error) });
        }
    }

    /// Goes offline: when it returns, this link gets no new clients.
    pub(crate) async fn go_offline(&self, how: &str) {
        loop {
            let said = self.finack.notified();
            if self.is_acknowledged.load(Ordering::SeqCst) || self.is_over() {
                return;
            }
            let words = ["shutdown", how].map(str::to_owned);
            self.tell(&Message::Ping(words.to_vec()));
            let _ = tokio::time::timeout(limits::SERVER_PING, said).await;
        }
    }

    /// The service has acknowledged that the link is offline.
    pub(crate) fn is_offline_now(&self) {
        self.is_acknowledged.store(true, Ordering::SeqCst);
        self.finack.notify_waiters();
    }
}
