//! The queue of messages to one client.
//!
//! The queue is bounded: a client that reads too slowly is closed, and no other
//! client waits for it. For a client with stateful reconnect, sent messages are kept
//! until they are acknowledged; while too many bytes are unacknowledged, sending
//! pauses.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use steadfast_core::limits;
use steadfast_wire::signalr::{Protocol, write};
use tokio::sync::Notify;

/// A queue of whole messages.
#[derive(Debug, Default)]
pub(crate) struct ClientOutbox {
    state: Mutex<State>,
    /// Notified when a message is queued, or the end is reached.
    pub(crate) wake: Notify,
    /// Notified when messages were taken.
    pub(crate) room: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Entry>,
    /// Bytes of all of them.
    bytes: usize,
    /// Bytes of the large ones among them.
    large_bytes: usize,
    /// The last message is queued.
    is_ending: bool,
    kept: Option<UnackedMessages>,
}

#[derive(Debug)]
struct Entry {
    message: Bytes,
    /// Whether the message has a sequence number that a client acknowledges.
    is_counted: bool,
}

/// The unacknowledged messages of a client with stateful reconnect.
#[derive(Debug)]
struct UnackedMessages {
    messages: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the first of them.
    first: u64,
    /// The client has reconnected, and gets all of them again.
    is_back: bool,
}

/// The outcome of queueing a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutOutcome {
    Queued,
    /// The queue is full: the client is too slow.
    Full,
    /// The outbox has ended.
    Over,
}

/// The next data to send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TakeOutcome {
    /// One or more whole messages.
    Data(Bytes),
    Nothing,
    /// Everything was sent, and nothing follows.
    Over,
}

impl ClientOutbox {
    /// Keeps sent messages, for a client with stateful reconnect.
    pub(crate) fn keep(&self) {
        self.state.lock().kept = Some(UnackedMessages {
            messages: VecDeque::new(),
            bytes: 0,
            first: 1,
            is_back: false,
        });
    }

    /// Queues a message.
    pub(crate) fn put(&self, message: Bytes, is_counted: bool) -> PutOutcome {
        let mut state = self.state.lock();
        if state.is_ending {
            return PutOutcome::Over;
        }
        if state.is_full() {
            return PutOutcome::Full;
        }
        state.push(message, is_counted);
        drop(state);
        self.wake.notify_one();
        PutOutcome::Queued
    }

    /// Queues the last message. False if the outbox has ended before.
    pub(crate) fn end(&self, last: Option<Bytes>) -> bool {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_ending, true) {
            return false;
        }
        if let Some(message) = last {
            state.push(message, false);
        }
        drop(state);
        self.wake.notify_one();
        self.room.notify_waiters();
        true
    }

    /// Whether the last message is queued, or was sent.
    pub(crate) fn is_ending(&self) -> bool {
        self.state.lock().is_ending
    }

    /// Whether producers may continue.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.state.lock();
        state.is_ending || state.bytes < limits::CLIENT_BATCH_BYTES
    }

    /// Number of queued bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Takes the next data to send.
    pub(crate) fn take(&self, protocol: Protocol) -> TakeOutcome {
        let mut state = self.state.lock();
        let mut batch = JoinedMessages::default();
        if let Some(kept) = state.kept.as_mut().filter(|kept| kept.is_back) {
            kept.is_back = false;
            batch.add(write::sequence(protocol, kept.first));
            for message in &kept.messages {
                batch.add(message.clone());
            }
        }
        state.fill(&mut batch);
        let is_over = state.is_ending && state.queue.is_empty();
        drop(state);
        match batch.done() {
            Some(bytes) => {
                self.room.notify_waiters();
                TakeOutcome::Data(bytes)
            }
            None if is_over => TakeOutcome::Over,
            None => TakeOutcome::Nothing,
        }
    }

    /// The client has acknowledged everything up to this number.
    pub(crate) fn acknowledged(&self, number: u64) {
        let mut state = self.state.lock();
        let Some(kept) = &mut state.kept else {
            return;
        };
        while kept.first <= number {
            let Some(message) = kept.messages.pop_front() else {
                break;
            };
            kept.bytes -= message.len();
            kept.first += 1;
        }
        drop(state);
        self.wake.notify_one();
    }

    /// The client has reconnected, and gets the unacknowledged messages again.
    pub(crate) fn again(&self) {
        if let Some(kept) = &mut self.state.lock().kept {
            kept.is_back = true;
        }
        self.wake.notify_one();
    }
}

impl State {
    /// Whether the client is too slow: a single large message does not count, since
    /// its own limit has let it in.
    fn is_full(&self) -> bool {
        let small_bytes = self.bytes - self.large_bytes;
        small_bytes >= limits::CLIENT_OUT_BYTES || self.large_bytes >= limits::CLIENT_LARGE_BYTES
    }

    fn push(&mut self, message: Bytes, is_counted: bool) {
        self.bytes += message.len();
        if is_large(&message) {
            self.large_bytes += message.len();
        }
        self.queue.push_back(Entry {
            message,
            is_counted,
        });
    }

    fn fill(&mut self, batch: &mut JoinedMessages) {
        while let Some(entry) = self.queue.front() {
            let size = entry.message.len();
            if batch.bytes > 0 && batch.bytes + size > limits::CLIENT_BATCH_BYTES {
                return;
            }
            if let Some(kept) = self.kept.as_mut().filter(|_| entry.is_counted) {
                if kept.bytes > 0 && kept.bytes + size > limits::STATEFUL_BYTES {
                    return;
                }
                kept.bytes += size;
                kept.messages.push_back(entry.message.clone());
            }
            let entry = self.queue.pop_front().expect("it was just seen");
            self.bytes -= size;
            if is_large(&entry.message) {
                self.large_bytes -= size;
            }
            batch.add(entry.message);
        }
        // An idle connection releases the memory of its queue.
        if self.queue.capacity() > 8 {
            self.queue = VecDeque::new();
        }
    }
}

fn is_large(message: &Bytes) -> bool {
    message.len() >= limits::CLIENT_LARGE_MESSAGE
}

/// Messages that are sent together. A single one is not copied.
#[derive(Default)]
struct JoinedMessages {
    first: Option<Bytes>,
    joined: BytesMut,
    bytes: usize,
}

impl JoinedMessages {
    fn add(&mut self, message: Bytes) {
        self.bytes += message.len();
        match self.first.take() {
            None if self.joined.is_empty() => self.first = Some(message),
            first => {
                if let Some(first) = first {
                    self.joined.extend_from_slice(&first);
                }
                self.joined.extend_from_slice(&message);
            }
        }
    }

    fn done(self) -> Option<Bytes> {
        match self.first {
            Some(one) => Some(one),
            None if self.joined.is_empty() => None,
            None => Some(self.joined.freeze()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: Protocol = Protocol::Json;

    fn message(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn data(outbox: &ClientOutbox) -> String {
        match outbox.take(JSON) {
            TakeOutcome::Data(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            TakeOutcome::Nothing => "nothing".to_owned(),
            TakeOutcome::Over => "over".to_owned(),
        }
    }

    #[test]
    fn what_waits_is_sent_together_and_in_order() {
        let outbox = ClientOutbox::default();
        for text in ["a", "b", "c"] {
            assert_eq!(outbox.put(message(text), true), PutOutcome::Queued);
        }
        assert_eq!(data(&outbox), "abc");
        assert_eq!(data(&outbox), "nothing");
        assert!(outbox.end(Some(message("bye"))));
        assert!(!outbox.end(None));
        assert_eq!(outbox.put(message("d"), true), PutOutcome::Over);
        assert_eq!(
            (data(&outbox), data(&outbox)),
            ("bye".into(), "over".into())
        );
    }

    #[test]
    fn a_client_is_slow_by_many_messages_and_not_by_a_large_one() {
        let outbox = ClientOutbox::default();
        let large = Bytes::from(vec![b'x'; limits::CLIENT_OUT_BYTES + 1]);
        assert_eq!(outbox.put(large.clone(), true), PutOutcome::Queued);
        assert_eq!(outbox.put(message("a"), true), PutOutcome::Queued);
        let small = Bytes::from(vec![b'x'; limits::CLIENT_LARGE_MESSAGE / 2]);
        let fits = limits::CLIENT_OUT_BYTES / small.len();
        for _ in 0..fits {
            assert_eq!(outbox.put(small.clone(), true), PutOutcome::Queued);
        }
        assert_eq!(outbox.put(message("b"), true), PutOutcome::Full);
        assert_eq!(data(&outbox).len(), large.len());
        assert_eq!(outbox.put(message("b"), true), PutOutcome::Full);
        while data(&outbox) != "nothing" {}
        assert_eq!(outbox.bytes(), 0);
        for _ in 0..=limits::CLIENT_LARGE_BYTES / large.len() {
            assert_eq!(outbox.put(large.clone(), true), PutOutcome::Queued);
        }
        assert_eq!(outbox.put(large, true), PutOutcome::Full);
    }

    #[test]
    fn realtime_26_the_oldest_unacknowledged_message_is_named_first() {
        let outbox = ClientOutbox::default();
        outbox.keep();
        for text in ["a", "b", "c"] {
            outbox.put(message(text), true);
        }
        outbox.put(message("ping"), false);
        assert_eq!(data(&outbox), "abcping");
        outbox.acknowledged(1);
        outbox.put(message("d"), true);
        outbox.again();
        assert_eq!(data(&outbox), "{\"type\":9,\"sequenceId\":2}\u{1e}bcd");
        outbox.acknowledged(4);
        outbox.again();
        assert_eq!(data(&outbox), "{\"type\":9,\"sequenceId\":5}\u{1e}");
    }

    #[test]
    fn nothing_more_is_sent_while_too_much_is_not_acknowledged() {
        let outbox = ClientOutbox::default();
        outbox.keep();
        let part = Bytes::from(vec![b'x'; limits::STATEFUL_BYTES / 2]);
        for _ in 0..3 {
            outbox.put(part.clone(), true);
        }
        assert_eq!(data(&outbox).len(), part.len());
        assert_eq!(data(&outbox).len(), part.len());
        assert_eq!(data(&outbox), "nothing");
        outbox.acknowledged(1);
        assert_eq!(data(&outbox).len(), part.len());
    }
}
