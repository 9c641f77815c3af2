//! Bytes on their way to a client.

use steadfast_core::limits;
use steadfast_wire::amqp::frame::{self, Kind};

/// What is to be written, in one piece: many small frames leave in one write.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// Appends a frame whose body `write` writes.
    pub(super) fn frame(&mut self, channel: u16, write: impl FnOnce(&mut Vec<u8>)) {
        frame::put(&mut self.bytes, Kind::Amqp, channel, write);
    }

    /// For whoever writes frames at length.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Bytes that wait to be written.
    pub(super) fn waiting(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Whether events may be added. Answers always may.
    pub(super) fn has_room(&self) -> bool {
        self.waiting() < limits::AMQP_OUT_BYTES
    }

    /// What is to be written next.
    pub(super) fn next(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// So many bytes were written.
    pub(super) fn written(&mut self, count: usize) {
        self.sent += count;
        if self.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent >= limits::AMQP_OUT_BYTES {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Whether it holds more memory than a quiet connection needs.
    pub(super) fn is_large(&self) -> bool {
        self.bytes.capacity() > limits::AMQP_QUIET_BYTES
    }

    /// Gives back the memory of a connection that has nothing to say.
    pub(super) fn rest(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }
}
