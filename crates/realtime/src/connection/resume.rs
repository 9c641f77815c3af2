//! Received messages of a client with stateful reconnect.
//!
//! Its messages are numbered from 1 implicitly. After a loss it sends the number at
//! which it continues; messages that were handled before are dropped.

use steadfast_core::limits;
use tokio::time::Instant;

/// The sequence numbers of a client's messages.
#[derive(Debug)]
pub(crate) struct ReceiveSequence {
    /// The highest handled number.
    last: u64,
    /// The number of the next message; unknown until the client sends it.
    next: Option<u64>,
    /// The last acknowledged number.
    told: u64,
    /// When the next acknowledgement is due.
    pub(crate) ack_at: Option<Instant>,
    /// Its socket is lost.
    pub(crate) is_away: bool,
}

impl Default for ReceiveSequence {
    fn default() -> Self {
        Self {
            last: 0,
            next: Some(1),
            told: 0,
            ack_at: None,
            is_away: false,
        }
    }
}

impl ReceiveSequence {
    /// Counts a message. False if it was handled before, or its number is unknown.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let Some(number) = self.next else {
            return false;
        };
        self.next = Some(number + 1);
        if number <= self.last {
            return false;
        }
        self.last = number;
        self.ack_at.get_or_insert(now + limits::CLIENT_ACK);
        true
    }

    /// The client sends the number that comes next. False if some are missing.
    pub(crate) fn sequence(&mut self, number: u64) -> bool {
        let is_whole = number >= 1 && number <= self.last + 1;
        if is_whole {
            self.next = Some(number);
        }
        is_whole
    }

    /// The client has reconnected, and will send its next number.
    pub(crate) fn back(&mut self) {
        self.next = None;
        self.is_away = false;
    }

    /// The number to acknowledge now, if any.
    pub(crate) fn ack(&mut self, now: Instant) -> Option<u64> {
        if self.ack_at.is_none_or(|due| now < due) {
            return None;
        }
        self.ack_at = None;
        let is_more = self.last > self.told;
        self.told = self.last;
        is_more.then_some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_comes_twice_is_handled_once() {
        let now = Instant::now();
        let mut received = ReceiveSequence::default();
        assert!(received.take(now) && received.take(now) && received.take(now));
        received.back();
        assert!(!received.take(now), "its number is unknown");
        assert!(!received.sequence(5), "the fourth is missing");
        assert!(received.sequence(2));
        assert!(!received.take(now) && !received.take(now));
        assert!(received.take(now));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_told_at_most_once_a_second() {
        let now = Instant::now();
        let mut received = ReceiveSequence::default();
        assert_eq!(received.ack(now), None);
        received.take(now);
        received.take(now);
        assert_eq!(received.ack(now), None);
        let later = now + limits::CLIENT_ACK;
        assert_eq!(received.ack(later), Some(2));
        assert_eq!(received.ack(later), None);
    }
}
