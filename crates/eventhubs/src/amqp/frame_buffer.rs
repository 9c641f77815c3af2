//! Frames that wait to be written to a client.

use steadfast_core::limits;
use steadfast_wire::amqp::frame::{self, Kind};

/// A contiguous buffer of frames: many small frames leave in one write.
#[derive(Debug, Default)]
pub(super) struct FrameBuffer {
    bytes: Vec<u8>,
    sent: usize,
}

impl FrameBuffer {
    /// Appends a frame whose body `write` writes.
    pub(super) fn frame(&mut self, channel: u16, write: impl FnOnce(&mut Vec<u8>)) {
        frame::put(&mut self.bytes, Kind::Amqp, channel, write);
    }

    /// The buffer itself, for code that writes frames directly.
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

    /// The bytes to write next.
    pub(super) fn next(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Removes bytes that were written.
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

    /// Frees the memory of an idle connection.
    pub(super) fn release_memory(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }
}
