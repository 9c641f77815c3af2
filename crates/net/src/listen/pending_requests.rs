//! Pending HTTP requests of an unproven connection.

use steadfast_core::limits;

/// Requests that wait for their responses, and the memory they hold.
#[derive(Default)]
pub(super) struct PendingRequests {
    requests: usize,
    /// Their bytes, with everything that was read while they waited, such as bodies.
    bytes: usize,
    /// Bytes of an incomplete head.
    head: usize,
    cancelled: usize,
}

impl PendingRequests {
    /// Bytes of the pending requests.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Records bytes that were read; returns how many of them count.
    pub(super) fn read(&mut self, bytes: usize) -> usize {
        if self.requests > 0 {
            self.bytes += bytes;
            return bytes;
        }
        // The buffer of a head has up to twice the needed capacity. More is not a head but
        // the body of a rejected request, which is dropped.
        let counted = (2 * bytes).min(2 * limits::HTTP_HEAD_BYTES - self.head);
        self.head += counted;
        counted
    }

    /// Adds a pending request of this size; returns what its head counted until now.
    pub(super) fn wait(&mut self, bytes: usize) -> usize {
        self.requests += 1;
        self.bytes += bytes;
        std::mem::take(&mut self.head)
    }

    /// Removes a pending request of this size; returns the bytes that no longer count.
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

    /// Records a cancelled request, which costs the client nothing; returns whether there
    /// were too many.
    pub(super) fn cancel(&mut self) -> bool {
        self.cancelled += 1;
        self.cancelled > limits::HTTP_UNPROVEN_CANCELLED
    }
}
