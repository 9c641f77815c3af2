//! What an unproven connection asks for over HTTP.

use steadfast_core::limits;

/// Requests that wait for their answers, and what they make the server keep.
#[derive(Default)]
pub(super) struct Asked {
    requests: usize,
    /// What those take, with all that was read while they waited: their bodies may be
    /// among it.
    bytes: usize,
    /// What a head that is not complete takes.
    head: usize,
    cancelled: usize,
}

impl Asked {
    /// What waiting requests take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// So much was read; answers how much of it counts.
    pub(super) fn read(&mut self, bytes: usize) -> usize {
        if self.requests > 0 {
            self.bytes += bytes;
            return bytes;
        }
        // The buffer of a head has up to twice the room that is needed. More is no head,
        // but the body of a request that was refused, which is dropped.
        let counted = (2 * bytes).min(2 * limits::HTTP_HEAD_BYTES - self.head);
        self.head += counted;
        counted
    }

    /// A request waits, which takes so much; answers what its head took until now.
    pub(super) fn wait(&mut self, bytes: usize) -> usize {
        self.requests += 1;
        self.bytes += bytes;
        std::mem::take(&mut self.head)
    }

    /// A request that took so much waits no longer; answers what counts no more.
    pub(super) fn end(&mut self, bytes: usize) -> usize {
        self.requests -= 1;
        let released = if self.requests == 0 {
            self.bytes
        } else {
            bytes
        };
        self.bytes -= released;
        released
    }

    /// A request was cancelled, which costs the client nothing; answers whether too many
    /// were.
    pub(super) fn cancel(&mut self) -> bool {
        self.cancelled += 1;
        self.cancelled > limits::HTTP_UNPROVEN_CANCELLED
    }
}
