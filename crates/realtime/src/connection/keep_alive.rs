//! Sending to a client, and keeping it alive.
//!
//! Pings are those of the hub protocol, never those of the socket, because one of the
//! clients crashes on them.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::limits;
use steadfast_wire::signalr::{Protocol, handshake, write};
use tokio::time::Instant;

use crate::connection::client::ClientConnection;
use crate::connection::outbox::TakeOutcome;

/// The next step of a transport.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientOutput {
    /// Send these whole messages.
    Data(Bytes),
    /// Nothing follows: close.
    Over,
    /// Another socket has replaced this one: close it silently.
    Displaced,
}

/// The way a client is kept alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// By pings of both sides.
    Pings,
    /// By its requests.
    Requests,
}

impl ClientConnection {
    /// The next data of the transport of socket `number`. It waits for data, and
    /// keeps the client alive while it waits.
    pub async fn outgoing(self: &Arc<Self>, number: u64, pulse: KeepAlive) -> ClientOutput {
        loop {
            let displaced = self.displaced.notified();
            if self.socket() != number {
                return ClientOutput::Displaced;
            }
            let woken = self.outbox.wake.notified();
            match self.take() {
                TakeOutcome::Data(bytes) => {
                    self.clock.lock().spoke = Instant::now();
                    return ClientOutput::Data(bytes);
                }
                TakeOutcome::Over => return ClientOutput::Over,
                TakeOutcome::Nothing => {}
            }
            let next = self.next_time(pulse);
            tokio::select! {
                () = woken => {}
                () = displaced => {}
                () = tokio::time::sleep_until(next) => self.run_timers(pulse),
            }
        }
    }

    /// The data to send now, if any.
    pub(crate) fn take(&self) -> TakeOutcome {
        self.outbox.take(self.protocol().unwrap_or(Protocol::Json))
    }

    fn next_time(&self, pulse: KeepAlive) -> Instant {
        let clock = self.clock.lock();
        let pings = pulse == KeepAlive::Pings;
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

    /// Runs the timers: pings, acknowledgements, time-outs.
    pub(crate) fn run_timers(self: &Arc<Self>, pulse: KeepAlive) {
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
        if pulse == KeepAlive::Pings && now >= heard + limits::CLIENT_SILENCE {
            tracing::info!(event = "realtime.silent_client", connection = %self.id);
            self.close(Some("The client sent no messages in time."), false);
        }
        let due = self.received.as_ref().and_then(|own| own.lock().ack(now));
        if let Some(number) = due {
            self.put(write::ack(protocol, number), false);
        }
        if pulse == KeepAlive::Pings && now >= spoke + limits::CLIENT_PING {
            let ping = match protocol {
                Protocol::Blazor => write::ping(Protocol::MessagePack),
                own => write::ping(own),
            };
            self.put(ping, false);
            // A ping that cannot be sent stays queued: one is enough.
            self.clock.lock().spoke = now;
        }
    }

    /// Ends a client whose transport cannot detect a write time-out: if it is silent,
    /// or does not read the close message.
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
}
